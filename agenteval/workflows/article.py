"""The published comparison, judged again from the calls that were written after it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from agenteval.config.allowlists import load_policy
from agenteval.config.roots import roots
from agenteval.core.call import ToolCall
from agenteval.core.counts import ErrorCounts
from agenteval.core.policy.policy import Policy
from agenteval.errors import UsageError
from agenteval.report.build import build_counts_view
from agenteval.report.view import View
from agenteval.taxonomy.judge import judge
from agenteval.workflows.views import class_texts, fold

POLICY = "article"  # the allow list that they are judged by
CALLS = Path("fixtures", "article", "calls.jsonl")

Sessions = tuple[tuple[ToolCall, ...], ...]


class _Call(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    arguments: str


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid")

    model: str
    session: str
    call: _Call


def load_article(*, roots: Sequence[Path]) -> Mapping[str, Sessions]:
    """Every model's sessions, each the calls of one sub-agent in order. Raises UsageError."""
    path = next((root / CALLS for root in roots if (root / CALLS).is_file()), None)
    if path is None:
        raise UsageError(f"{CALLS}: not found in {', '.join(map(str, roots))}. Install it again")
    models: dict[str, dict[str, list[ToolCall]]] = {}
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line, call = _read(f"{path}:{number}", text)
        models.setdefault(line.model, {}).setdefault(line.session, []).append(call)
    return {
        model: tuple(tuple(calls) for calls in sessions.values())
        for model, sessions in models.items()
    }


def _read(where: str, text: str) -> tuple[_Line, ToolCall]:
    try:
        line = _Line.model_validate_json(text)
        arguments = json.loads(line.call.arguments)
    except json.JSONDecodeError as error:
        raise UsageError(f"{where}: call.arguments: {error}. Mend the line") from error
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        key = ".".join(map(str, fault["loc"])) or "the line"
        raise UsageError(f"{where}: {key}: {fault['msg']}. Mend the line") from error
    return line, ToolCall(line.session, line.call.name, line.call.arguments, arguments)


def view_of_article() -> View:
    """The published comparison, judged again from its calls."""
    where = roots()
    policy = load_policy(POLICY, roots=where)
    found = {
        model: ErrorCounts.of([[_primary(call, policy) for call in calls] for calls in sessions])
        for model, sessions in load_article(roots=where).items()
    }  # which calls belong to one trial was not published: the sessions were made up
    counts = {model: replace(of, by_trial=False) for model, of in found.items()}
    title = "The published comparison, judged again from calls written after it"
    return build_counts_view(title, counts, classes=class_texts(), fold=fold("article"))


def _primary(call: ToolCall, policy: Policy) -> str | None:
    finding = judge(call, policy).primary
    return finding.failure_class if finding else None
