"""Inspect AI: an approver that holds a task's agents to an allow list, and a scorer of its classes.

Found by Inspect through the entry point of its own group; nothing else of agenteval imports this.
What Inspect lets approvers see they see: tools of its agents, and calls of bridged ones.
"""

import json
from collections import Counter
from functools import cache
from typing import Any, Final

from inspect_ai.approval import Approval, Approver, approver
from inspect_ai.model import ChatMessage
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import TaskState
from inspect_ai.tool import ToolCall, ToolCallView
from inspect_ai.util import store

from agenteval.config.allowlists import load_any
from agenteval.config.roots import roots
from agenteval.core.call import BASH, Denied
from agenteval.core.policy.policy import Policy, World
from agenteval.hook.judging import reason
from agenteval.hook.payloads import ours
from agenteval.taxonomy.judge import judge

KEPT: Final = "agenteval:calls"  # where a sample keeps the class of each call, "" of an allowed one


@approver
def allow_list(
    *, allowlist: str = "demo", root: str = "/workspace", observe: bool = False
) -> Approver:
    """Reject what an allow list denies, with the class and the cure; approve everything else.

    Paths of a rule count from `root`. With `observe` nothing is rejected, and the scorer counts.
    Tools that the list does not speak of are approved, and not counted.
    """
    policy = _policy(allowlist)

    async def approve(
        message: str, call: ToolCall, view: ToolCallView, history: list[ChatMessage]
    ) -> Approval:
        del message, view, history
        denial = _denial(call, policy, root)
        if denial is None:
            return Approval(decision="approve", explanation="no matter of the allow list")
        told, failure_class = denial
        store().set(KEPT, [*store().get(KEPT, []), failure_class])
        if not failure_class or observe:
            return Approval(decision="approve", metadata={"class": failure_class})
        return Approval(decision="reject", explanation=told, metadata={"class": failure_class})

    return approve


def _denial(call: ToolCall, policy: Policy, root: str) -> tuple[str, str] | None:
    """What the model reads and the class, both "" of an allowed call; None for other tools."""
    meant = ours(call.id, call.function, _arguments(call), root, root)
    if meant.name != BASH and policy.tool(meant.name) is None:
        return None
    verdict = judge(meant, policy, World(root=root))
    if isinstance(verdict, Denied):
        return reason(verdict, policy), verdict.primary.failure_class
    return "", ""


def _arguments(call: ToolCall) -> dict[str, Any]:
    """Inspect's own bash tool calls its command `cmd`; a call that it could not parse has none."""
    return {} if call.parse_error else json.loads(json.dumps(call.arguments, default=str))


@cache
def _policy(allowlist: str) -> Policy:
    return load_any(allowlist, roots=roots())


@metric
def errors_per_100() -> Metric:
    """Errors per 100 tool calls of all samples together, in all and by failure class."""

    def rates(scores: list[SampleScore]) -> dict[str, str | int | float | bool | None]:
        found = [each.score.metadata or {} for each in scores]
        calls = sum(each.get("calls", 0) for each in found)
        classes: Counter[str] = Counter()
        for each in found:
            classes.update(each.get("classes", {}))
        per = 100 / calls if calls else 0.0
        by_class = {name: count * per for name, count in sorted(classes.items())}
        return {"calls": calls, "errors_per_100": classes.total() * per, **by_class}

    return rates


@scorer(metrics=[errors_per_100()])
def tool_call_errors() -> Scorer:
    """How many of a sample's calls the approver's allow list denies; the classes are metadata."""

    async def score(state: TaskState, target: Target) -> Score:
        del target
        kept = state.store.get(KEPT, [])
        classes = Counter(each for each in kept if each)
        told = ", ".join(f"{name} {count}" for name, count in sorted(classes.items()))
        metadata = {"calls": len(kept), "classes": dict(classes)}
        return Score(value=classes.total(), explanation=told or "no errors", metadata=metadata)

    return score
