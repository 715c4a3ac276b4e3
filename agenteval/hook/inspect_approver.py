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
from agenteval.config.trust import roots
from agenteval.hook.judging import decide
from agenteval.hook.tool_inputs import read_call
from agenteval.policy.policy import Policy

# Where a sample keeps the class of each call, "" of an allowed one
KEPT: Final = "agenteval:calls"


@approver
def allow_list(
    *, allowlist: str = "demo", root: str = "/workspace", observe: bool = False
) -> Approver:
    """Reject what an allow list denies, with the class and the cure; approve everything else.

    Paths of a rule count from `root`. With `observe` nothing is rejected, and the scorer counts.
    A call that is not judged is not counted: a tool without effect is approved, and an unknown one
    only where the list has `other_tools = "pass"`.
    """
    policy = _policy(allowlist)

    async def approve(
        message: str, call: ToolCall, view: ToolCallView, history: list[ChatMessage]
    ) -> Approval:
        del message, view, history
        reading = read_call(
            call.id,
            call.function,
            _arguments(call),
            root,
            root,
        )
        decision = decide(reading, policy, root)
        failure_class = ""
        if decision.verdict is not None:
            primary = decision.verdict.primary
            failure_class = primary.failure_class if primary else ""
            store().set(KEPT, [*store().get(KEPT, []), failure_class])
        metadata = {"class": failure_class, "effect": str(decision.effect)}
        if decision.denial and not observe:
            return Approval(
                decision="reject",
                explanation=decision.denial,
                metadata=metadata,
            )
        return Approval(decision="approve", metadata=metadata)

    return approve


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
        return {
            "calls": calls,
            "errors_per_100": classes.total() * per,
            **by_class,
        }

    return rates


@scorer(metrics=[errors_per_100()])
def tool_call_errors() -> Scorer:
    """Count a sample's calls that the approver's allow list denies; the classes are metadata."""

    async def score(state: TaskState, target: Target) -> Score:
        del target
        classes_of_calls = state.store.get(KEPT, [])
        classes = Counter(each for each in classes_of_calls if each)
        counts = ", ".join(f"{name} {count}" for name, count in sorted(classes.items()))
        metadata = {
            "calls": len(classes_of_calls),
            "classes": dict(classes),
        }
        return Score(
            value=classes.total(),
            explanation=counts or "no errors",
            metadata=metadata,
        )

    return score
