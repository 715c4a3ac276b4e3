"""OpenTelemetry's spans of agents (GenAI), as OTLP JSON: a document, or one a line.

A conversation is a session, or a trace that names none, and a span `execute_tool` a call. Arguments
are there only where somebody turned them on: without them a
call has a name, and its command is not observable.
"""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from agenteval.logs.json import (
    LONGEST,
    Line,
    at,
    lines,
    name_at,
    objects,
    take_faults,
    text_at,
    walked,
    when,
)
from agenteval.logs.packed import by_place, opened_log
from agenteval.logs.tool_calls import called
from agenteval.trial.session import Building, LoggedCall, Recorded, Session, Skipped, almost

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
_BESIDE = frozenset(("resourceMetrics", "resourceLogs"))
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
    """Read a file. All its spans are held by trace, as those of one trace may stand anywhere."""
    spans: dict[str, list[Object]] = {}
    reading = Building(Session(""))
    unnamed = by_place(path)
    for item in _resources(path, reading):
        if isinstance(item, Skipped):
            yield item
            continue
        place, resource = item
        scopes = _listed(reading, resource, "scopeSpans", "instrumentationLibrarySpans")
        attributes = _attributes(reading, at(resource, "resource"))
        inner = (span for scope in scopes for span in _listed(reading, scope, "spans"))
        for number, span in enumerate(inner, 1):
            fields = _kept_fields(reading, span, attributes)
            spans.setdefault(name_at(span, "traceId") or unnamed, []).append(fields)
            yield from take_faults(reading, path, f"{place}, span {number}")
        yield from take_faults(reading, path, place)
    sessions: dict[str, list[Object]] = {}
    for trace, own in spans.items():
        named = _first([span["known"] for span in own], "gen_ai.conversation.id", "session.id")
        sessions.setdefault(named or trace, []).extend(own)
    for name, own in sessions.items():
        session = _session(name, own, path)
        if session.turns:
            yield session


def _listed(reading: Building, holder: Object, *names: str) -> list[dict[str, Any]]:
    """Return the objects in the list under the first of these names.

    A fault is noted if none of them is there.
    """
    found = next((holder[name] for name in names if name in holder), None)
    if found is None:
        reading.needs(holder, names[0])
    return objects(found)


def _kept_fields(reading: Building, span: Object, resource: dict[str, Any]) -> Object:
    """Return the fields of a span that are used later: all spans of a file are held at once."""
    reading.needs(span, "traceId", "name")
    reading.may_have(span, *_FIELDS, "attributes")
    attributes = resource | _attributes(reading, span)
    wrong = next(
        (key for key in attributes if _intended_key(key) and _intended_key(key) not in attributes),
        "",
    )
    if wrong:
        reading.may_have(attributes, _intended_key(wrong))
    fields = {key: span[key] for key in _FIELDS if key in span}
    fields["known"] = {key: value for key, value in attributes.items() if key in _KEPT}
    return fields


@lru_cache(1_000)
def _intended_key(key: str) -> str:
    """The name, one with a dot, that a key is but for one letter; empty where it is none."""
    alike = (name for name in _KEPT if "." in name and almost(key, name))
    return "" if key in _KEPT else next(alike, "")


def _resources(path: Path, reading: Building) -> Iterator[tuple[str, Object] | Skipped]:
    """Each resource with its spans, and its place."""
    parts = lines(path) if _by_line(path) else walked(path, "resourceSpans")
    for number, part in enumerate(parts, 1):
        place = f"part {number} of the document"
        if isinstance(part, Skipped):
            yield part
        elif isinstance(part, Line):
            yield from _of_request(part.value, f"line {part.number}", path, reading)
        elif part[0] == "resourceSpans" and isinstance(part[1], dict):
            yield place, part[1]
        elif not part[0] and isinstance(part[1], dict):  # a list of what is a line elsewhere
            yield from _of_request(part[1], place, path, reading)
        else:
            reading.may_have({part[0]: None}, "resourceSpans")
            yield from take_faults(reading, path, place)


def _by_line(path: Path) -> bool:
    """An object a line, and not one document, be that on one line."""
    with opened_log(path) as file:
        first = file.readline(LONGEST)
        return path.suffix == ".jsonl" or (first.rstrip().endswith(b"}") and bool(file.read(1)))


def _of_request(
    value: Object, place: str, path: Path, reading: Building
) -> Iterator[tuple[str, Object] | Skipped]:
    """Yield the objects of one export: spans, or other records that a collector writes."""
    if value.keys().isdisjoint(_BESIDE):
        reading.needs(value, "resourceSpans")
        yield from take_faults(reading, path, place)
    for one in objects(value.get("resourceSpans")):
        yield place, one


def _attributes(reading: Building, holder: object) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for one in objects(at(holder, "attributes")):
        reading.needs(one, "key", "value")
        attributes[text_at(one, "key")] = _plain(one.get("value"))
    return attributes


def _plain(value: object) -> Any:
    """The value in OTLP's wrapping, such as {"stringValue": "x"}."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((kind, content),) = value.items()
    if kind == "kvlistValue":
        return {
            text_at(one, "key"): _plain(one.get("value")) for one in objects(at(content, "values"))
        }
    if kind == "arrayValue":
        return [_plain(one) for one in objects(at(content, "values"))]
    return content


def _session(name: str, spans: list[Object], path: Path) -> Session:
    spans.sort(key=_began)
    attributes = [span["known"] for span in spans]
    building = Building(
        Session(
            id=name,
            agent=_first(attributes, "gen_ai.agent.name", "service.name"),
            model=_first(attributes, *_MODELS),
            version=_first(attributes, "gen_ai.agent.version", "service.version"),
            path=str(path),
        )
    )
    for span in spans:
        own = span["known"]
        if _is_call(text_at(span, "name"), own):
            _call(building, span, own)
        elif text_at(own, _OPERATION) in _CHATS or _kind(own) == "llm":
            turn = building.turn()
            turn.at = when(span.get("endTimeUnixNano"))
            turn.model = _first([own], *_MODELS)
    return building.session


def _kind(told: Mapping[str, Any]) -> str:
    return _first([dict(told)], *_KINDS).lower()


def _is_call(name: str, attributes: Mapping[str, Any]) -> bool:
    operation = text_at(attributes, _OPERATION)
    if operation:
        return operation == "execute_tool"
    is_named = name.startswith("execute_tool") or name == "ai.toolCall"
    return (
        is_named
        or _kind(attributes) == "tool"
        or (name == "running tool" and _NAMES[0] in attributes)
    )


def _began(span: Object) -> int:
    """Return the start in nanoseconds, which a float would not distinguish."""
    found = str(span.get("startTimeUnixNano") or "")
    return int(found) if found.isdecimal() and len(found) < 20 else 0


def _first(known: list[dict[str, Any]], *names: str) -> str:
    found = (name_at(told, name) for name in names for told in known)
    return next(filter(None, found), "")


def _call(building: Building, span: Object, attributes: Mapping[str, Any]) -> None:
    turns = building.session.turns
    turn = turns[-1] if turns else building.turn()
    ended = when(span.get("endTimeUnixNano"))
    began = when(span.get("startTimeUnixNano"))
    turn.at = turn.at or ended
    arguments: Any = next(
        (attributes[name] for name in _ARGUMENTS if attributes.get(name) is not None), {}
    )
    known = _first([dict(attributes)], *_NAMES)
    name = known or text_at(span, "name").removeprefix("execute_tool").strip()
    call = called(_first([dict(attributes)], *_IDS), name, _inner(arguments))
    output = next(
        (str(attributes[name]) for name in _RESULTS if attributes.get(name) is not None), ""
    )
    seconds = ended - began if ended and began else None
    building.called(turn, LoggedCall(call, _outcome(span, attributes), output, seconds=seconds))


def _inner(arguments: Any) -> Any:
    """The arguments, where a library wraps them with what else it knows of the call."""
    try:
        parsed = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return arguments
    for key in ("inputs", "input", "tool_args", "kwargs"):
        inner = at(parsed, key)
        if isinstance(inner, dict) and not parsed.keys() & {"command", "cmd"}:
            return inner
    return arguments


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
