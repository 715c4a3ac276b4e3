"""OpenTelemetry's spans of agents (GenAI), as OTLP JSON: a document, or one a line.

A trace is a session, and a span `execute_tool` a call. Arguments are there only where somebody
turned them on: without them a call has a name, and its command is not observable.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agenteval.core.logged import Building, LoggedCall, Recorded, Session, Skipped
from agenteval.formats.tool_calls import called
from agenteval.readers.json_source import Line, at, lines, objects, text_at, walked, when
from agenteval.readers.log_bytes import opened

Object = Mapping[str, Any]
_OPERATION = "gen_ai.operation.name"
# What libraries call the same thing: the convention, pydantic-ai, traceloop, OpenInference, the AI
# SDK; the first that is there.
_NAMES = ("gen_ai.tool.name", "ai.toolCall.name", "tool.name", "traceloop.entity.name")
_IDS = ("gen_ai.tool.call.id", "ai.toolCall.id", "tool_call.id")
_ARGUMENTS = (
    *("gen_ai.tool.call.arguments", "gen_ai.tool.arguments", "tool_arguments"),
    *("ai.toolCall.args", "traceloop.entity.input", "tool.parameters", "input.value"),
)
_RESULTS = (
    *("gen_ai.tool.call.result", "gen_ai.tool.result", "tool_response"),
    *("ai.toolCall.result", "traceloop.entity.output", "output.value"),
)
_FIELDS = ("name", "startTimeUnixNano", "endTimeUnixNano", "status")
_KINDS = ("openinference.span.kind", "traceloop.span.kind")
_MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "ai.model.id")
_CHATS = {"chat", "text_completion", "generate_content"}
_KEPT = frozenset((*_NAMES, *_IDS, *_ARGUMENTS, *_RESULTS, *_KINDS, *_MODELS, _OPERATION)) | {
    *("gen_ai.conversation.id", "session.id", "gen_ai.agent.name", "gen_ai.agent.version"),
    *("service.name", "service.version", "error.type"),
}
_DENIED = ("denied", "permission", "approval", "policy", "forbidden", "unauthorized")
_INVALID = ("not_found", "unknown_tool", "no_such_tool", "notfound")
_MALFORMED = ("parsing", "invalid_argument", "validation", "jsondecode", "malformed")


def read(path: Path) -> Iterator[Session | Skipped]:
    """All spans of a file are held by their traces: those of one may stand anywhere in it."""
    spans: dict[str, list[Object]] = {}
    for one in _resources(path):
        if isinstance(one, Skipped):
            yield one
            continue
        scopes = objects(one.get("scopeSpans") or one.get("instrumentationLibrarySpans"))
        known = _attributes(at(one, "resource"))
        for span in (span for scope in scopes for span in objects(scope.get("spans"))):
            told = {**known, **_attributes(span)}
            kept = {key: span[key] for key in _FIELDS if key in span}
            kept["known"] = {key: value for key, value in told.items() if key in _KEPT}
            spans.setdefault(text_at(span, "traceId"), []).append(kept)
    for trace, own in spans.items():
        session = _session(trace, own, path)
        if session.turns:
            yield session


def _resources(path: Path) -> Iterator[Object | Skipped]:
    with opened(path) as file:
        by_line = '"resourceSpans"' in file.readline(1 << 20)
    if by_line:
        for line in lines(path):
            if isinstance(line, Line):
                yield from objects(line.value.get("resourceSpans"))
            else:
                yield line
        return
    for one in walked(path, "resourceSpans"):
        if isinstance(one, Skipped):
            yield one
        elif one[0] == "resourceSpans" and isinstance(one[1], dict):
            yield one[1]
        elif isinstance(one[1], dict):
            yield from objects(one[1].get("resourceSpans"))


def _attributes(holder: object) -> dict[str, Any]:
    return {
        text_at(one, "key"): _plain(one.get("value")) for one in objects(at(holder, "attributes"))
    }


def _plain(value: object) -> Any:
    """The value in OTLP's wrapping, such as {"stringValue": "x"}."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((kind, found),) = value.items()
    if kind == "kvlistValue":
        return {
            text_at(one, "key"): _plain(one.get("value")) for one in objects(at(found, "values"))
        }
    if kind == "arrayValue":
        return [_plain(one) for one in objects(at(found, "values"))]
    return found


def _session(trace: str, spans: list[Object], path: Path) -> Session:
    spans.sort(key=_began)
    known = [span["known"] for span in spans]
    building = Building(
        Session(
            id=_first(known, "gen_ai.conversation.id", "session.id") or trace,
            agent=_first(known, "gen_ai.agent.name", "service.name"),
            model=_first(known, *_MODELS),
            version=_first(known, "gen_ai.agent.version", "service.version"),
            path=str(path),
        )
    )
    for span in spans:
        told, name = span["known"], text_at(span, "name")
        if _is_call(name, told):
            _call(building, span, told)
        elif text_at(told, _OPERATION) in _CHATS or _kind(told) == "llm":
            turn = building.turn()
            turn.at = when(span.get("endTimeUnixNano"))
            turn.model = _first([told], *_MODELS)
    return building.session


def _kind(told: Mapping[str, Any]) -> str:
    return _first([dict(told)], *_KINDS).lower()


def _is_call(name: str, told: Mapping[str, Any]) -> bool:
    operation = text_at(told, _OPERATION)
    if operation:
        return operation == "execute_tool"
    is_named = name.startswith("execute_tool") or name == "ai.toolCall"
    return is_named or _kind(told) == "tool" or (name == "running tool" and _NAMES[0] in told)


def _began(span: Object) -> int:
    """Nanoseconds, which a float would not tell apart."""
    found = str(span.get("startTimeUnixNano") or "")
    return int(found) if found.isdecimal() and len(found) < 20 else 0


def _first(known: list[dict[str, Any]], *names: str) -> str:
    found = (told[name] for name in names for told in known if isinstance(told.get(name), str))
    return next(found, "")


def _call(building: Building, span: Object, told: Mapping[str, Any]) -> None:
    turns = building.session.turns
    turn = turns[-1] if turns else building.turn()
    ended = when(span.get("endTimeUnixNano"))
    began = when(span.get("startTimeUnixNano"))
    turn.at = turn.at or ended
    given: Any = next((told[name] for name in _ARGUMENTS if told.get(name) is not None), {})
    known = _first([dict(told)], *_NAMES)
    name = known or text_at(span, "name").removeprefix("execute_tool").strip()
    call = called(_first([dict(told)], *_IDS), name, _inner(given))
    said = next((str(told[name]) for name in _RESULTS if told.get(name) is not None), "")
    seconds = ended - began if ended and began else None
    building.called(turn, LoggedCall(call, _outcome(span, told), said, seconds=seconds))


def _inner(given: Any) -> Any:
    """The arguments, where a library wraps them with what else it knows of the call."""
    try:
        found = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return given
    for key in ("inputs", "input", "tool_args", "kwargs"):
        inner = at(found, key)
        if isinstance(inner, dict) and not found.keys() & {"command", "cmd"}:
            return inner
    return given


def _outcome(span: Object, told: Mapping[str, Any]) -> Recorded:
    kind = str(told.get("error.type") or "").lower()
    failed = str(at(span, "status", "code")) in {"2", "STATUS_CODE_ERROR"}
    if not kind and not failed:
        return Recorded.RAN if span.get("endTimeUnixNano") else Recorded.PENDING
    for recorded, marks in (
        (Recorded.DENIED, _DENIED),
        (Recorded.INVALID_TOOL, _INVALID),
        (Recorded.MALFORMED, _MALFORMED),
    ):
        if any(mark in kind for mark in marks):
            return recorded
    return Recorded.TOOL_ERROR
