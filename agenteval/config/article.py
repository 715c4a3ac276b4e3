"""The calls of the published comparison, as we wrote them again: fixtures/article/calls.jsonl."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from agenteval.core.call import ToolCall
from agenteval.errors import UsageError

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
