"""OpenTelemetry's spans of agents (GenAI), as OTLP JSON: a document, or one a line.

A trace is a session, and a span `execute_tool` a call. Arguments are there only where somebody
turned them on: without them a call has a name, and its command is not observable.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agenteval.core.logged import Building, LoggedCall, Recorded, Session, Skipped
from agenteval.formats.tool_calls import called
from agenteval.readers.json_source import Line, at, lines, objects, text_at, walked, when
from agenteval.readers.log_bytes import opened

Object = Mapping[str, Any]
_OPERATION, _TOOL = "gen_ai.operation.name", "gen_ai.tool.name"
_ARGUMENTS = (
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.arguments",
    "tool.parameters",
    "input.value",
)
_RESULTS = ("gen_ai.tool.call.result", "gen_ai.tool.result", "output.value")
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
            kept = {**span, "known": {**known, **_attributes(span)}}
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
            model=_first(known, "gen_ai.response.model", "gen_ai.request.model"),
            version=_first(known, "gen_ai.agent.version", "service.version"),
            path=str(path),
        )
    )
    for span in spans:
        told, name = span["known"], text_at(span, "name")
        if told.get(_OPERATION) == "execute_tool" or name.startswith("execute_tool"):
            _call(building, span, told)
        elif text_at(told, _OPERATION) in {"chat", "text_completion", "generate_content"}:
            turn = building.turn()
            turn.at = when(span.get("endTimeUnixNano"))
            turn.model = str(told.get("gen_ai.response.model") or "")
    return building.session


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
    name = str(told.get(_TOOL) or text_at(span, "name").removeprefix("execute_tool").strip())
    call = called(str(told.get("gen_ai.tool.call.id") or ""), name, given)
    said = next((str(told[name]) for name in _RESULTS if told.get(name) is not None), "")
    seconds = ended - began if ended and began else None
    building.called(turn, LoggedCall(call, _outcome(span, told), said, seconds=seconds))


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
