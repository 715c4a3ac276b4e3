"""OpenTelemetry's spans of agents (GenAI), as OTLP JSON: a document, or one a line.

A conversation is a session, or a trace that names none, and a span `execute_tool` a call. Arguments
are there only where somebody turned them on: without them a
call has a name, and its command is not observable.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from agenteval.logs.json import (
    LONGEST,
    Found,
    Line,
    Object,
    at,
    check_keys,
    lines,
    name_at,
    objects,
    outcome_in,
    take_faults,
    text_at,
    walked,
    when,
)
from agenteval.logs.packed import by_place, opened_log
from agenteval.logs.tool_calls import called
from agenteval.trial.session import Building, LoggedCall, Recorded, Session, Skipped, almost

_ATTRIBUTES = msgspec.toml.decode(
    Path(__file__).with_name("spans.toml").read_bytes(), type=dict[str, list[str]]
)
_KEPT = frozenset(chain.from_iterable(_ATTRIBUTES.values()))
_OTHER_RECORDS = frozenset(("resourceMetrics", "resourceLogs"))
_FIELDS = ("name", "startTimeUnixNano", "endTimeUnixNano", "status")
_CHATS = {"chat", "text_completion", "generate_content"}
# Under these keys a library wraps the arguments with what else it knows of a call.
_WRAPPERS = ("inputs", "input", "tool_args", "kwargs")


def read(path: Path) -> Found:
    """Read a file. All its spans are held by trace, as those of one trace may stand anywhere."""
    spans: dict[str, list[Object]] = {}
    reading = Building(Session(""))
    unnamed = by_place(path)
    for item in _resources(path, reading):
        if isinstance(item, Skipped):
            yield item
            continue
        place, resource = item
        attributes = _attributes(reading, at(resource, "resource"))
        for number, span in enumerate(_spans_of(reading, resource), 1):
            fields = _kept_fields(reading, span, attributes)
            spans.setdefault(name_at(span, "traceId") or unnamed, []).append(fields)
            yield from take_faults(reading, path, f"{place}, span {number}")
        yield from take_faults(reading, path, place)
    sessions: dict[str, list[Object]] = {}
    for trace, own in spans.items():
        name = _first("sessions", *(span["known"] for span in own))
        sessions.setdefault(name or trace, []).extend(own)
    for name, own in sessions.items():
        session = _session(name, own, path)
        if session.turns:
            yield session


def _spans_of(reading: Building, resource: Object) -> Iterator[Object]:
    # The earlier name of `scopeSpans`
    scopes = resource.get("instrumentationLibrarySpans")
    if "scopeSpans" in resource or "instrumentationLibrarySpans" not in resource:
        check_keys(reading, resource, "otel.resource")
        scopes = resource.get("scopeSpans")
    for scope in objects(scopes):
        check_keys(reading, scope, "otel.scope")
        yield from objects(scope.get("spans"))


def _kept_fields(
    reading: Building,
    span: Object,
    resource: dict[str, Any],
) -> Object:
    """Return the fields of a span that are used later: all spans of a file are held at once."""
    check_keys(reading, span, "otel.span")
    attributes = resource | _attributes(reading, span)
    for key in attributes:
        intended = _intended_key(key)
        if intended and intended not in attributes:
            reading.may_have(attributes, intended)
            break
    fields = {key: span[key] for key in _FIELDS if key in span}
    fields["known"] = {key: value for key, value in attributes.items() if key in _KEPT}
    return fields


@lru_cache(1_000)
def _intended_key(key: str) -> str:
    """Return the name, one with a dot, that a key is but for one letter; empty where it is none."""
    alike = (name for name in _KEPT if "." in name and almost(key, name))
    return "" if key in _KEPT else next(alike, "")


def _resources(path: Path, reading: Building) -> Iterator[tuple[str, Object] | Skipped]:
    """Yield each resource with its spans, and its place."""
    parts = lines(path) if _by_line(path) else walked(path, "resourceSpans")
    for number, part in enumerate(parts, 1):
        place = f"part {number} of the document"
        if isinstance(part, Skipped):
            yield part
        elif isinstance(part, Line):
            yield from _of_request(
                part.value,
                f"line {part.number}",
                path,
                reading,
            )
        elif part[0] == "resourceSpans" and isinstance(part[1], dict):
            yield place, part[1]
        elif not part[0] and isinstance(part[1], dict):  # a list of what is a line elsewhere
            yield from _of_request(
                part[1],
                place,
                path,
                reading,
            )
        else:
            check_keys(reading, {part[0]: None}, "otel.top")
            yield from take_faults(reading, path, place)


def _by_line(path: Path) -> bool:
    """Return True for an object a line, and not one document, be that on one line."""
    with opened_log(path) as file:
        first = file.readline(LONGEST)
        return path.suffix == ".jsonl" or (first.rstrip().endswith(b"}") and bool(file.read(1)))


def _of_request(
    value: Object, place: str, path: Path, reading: Building
) -> Iterator[tuple[str, Object] | Skipped]:
    """Yield the objects of one export: spans, or other records that a collector writes."""
    if value.keys().isdisjoint(_OTHER_RECORDS):
        check_keys(reading, value, "otel.request")
        yield from take_faults(reading, path, place)
    for resource in objects(value.get("resourceSpans")):
        yield place, resource


def _attributes(reading: Building, holder: object) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for attribute in objects(at(holder, "attributes")):
        check_keys(reading, attribute, "otel.attribute")
        attributes[text_at(attribute, "key")] = _plain(attribute.get("value"))
    return attributes


def _plain(value: object) -> Any:
    """Return the value in OTLP's wrapping, such as {"stringValue": "x"}."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((kind, content),) = value.items()
    values = objects(at(content, "values"))
    if kind == "kvlistValue":
        return {text_at(entry, "key"): _plain(entry.get("value")) for entry in values}
    if kind == "arrayValue":
        return [_plain(entry) for entry in values]
    return content


def _session(
    name: str,
    spans: list[Object],
    path: Path,
) -> Session:
    spans.sort(key=_began)
    attributes = [span["known"] for span in spans]
    session = Session(
        id=name,
        agent=_first("agents", *attributes),
        model=_first("models", *attributes),
        version=_first("versions", *attributes),
        path=str(path),
    )
    building = Building(session)
    for span in spans:
        own = span["known"]
        if _is_call(text_at(span, "name"), own):
            _call(building, span, own)
        elif _first("operations", own) in _CHATS or _kind(own) == "llm":
            turn = building.turn()
            turn.at = when(span.get("endTimeUnixNano"))
            turn.model = _first("models", own)
    return session


def _kind(attributes: Object) -> str:
    return _first("kinds", attributes).lower()


def _is_call(name: str, attributes: Object) -> bool:
    operation = _first("operations", attributes)
    if operation:
        return operation == "execute_tool"
    if name.startswith("execute_tool") or name == "ai.toolCall" or _kind(attributes) == "tool":
        return True
    return name == "running tool" and "gen_ai.tool.name" in attributes


def _began(span: Object) -> int:
    """Return the start in nanoseconds, which a float would not distinguish."""
    stated = str(span.get("startTimeUnixNano") or "")
    return int(stated) if stated.isdecimal() and len(stated) < 20 else 0


def _first(kind: str, *spans: Object) -> str:
    """Return the first name in the attributes of these spans under the names of one kind."""
    for name in _ATTRIBUTES[kind]:
        for attributes in spans:
            value = name_at(attributes, name)
            if value:
                return value
    return ""


def _first_value(kind: str, attributes: Object) -> Any:
    """Return the first value, of whatever type, under the names of one kind; None for none."""
    for name in _ATTRIBUTES[kind]:
        if attributes.get(name) is not None:
            return attributes[name]
    return None


def _call(
    building: Building,
    span: Object,
    attributes: Object,
) -> None:
    turns = building.session.turns
    turn = turns[-1] if turns else building.turn()
    ended = when(span.get("endTimeUnixNano"))
    began = when(span.get("startTimeUnixNano"))
    turn.at = turn.at or ended
    arguments = _first_value("arguments", attributes)
    inner = {} if arguments is None else _inner(arguments)
    name = _first("names", attributes)
    name = name or text_at(span, "name").removeprefix("execute_tool").strip()
    call = called(
        _first("ids", attributes),
        name,
        inner,
    )
    output = _first_value("results", attributes)
    logged = LoggedCall(
        call,
        _outcome(span, attributes),
        said="" if output is None else str(output),
        seconds=ended - began if ended and began else None,
    )
    building.called(turn, logged)


def _inner(arguments: Any) -> Any:
    """Return the arguments, where a library wraps them with what else it knows of the call."""
    try:
        parsed = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return arguments
    for key in _WRAPPERS:
        inner = at(parsed, key)
        if isinstance(inner, dict) and not parsed.keys() & {"command", "cmd"}:
            return inner
    return arguments


def _outcome(span: Object, attributes: Object) -> Recorded:
    kind = str(attributes.get("error.type") or "").lower()
    has_failed = str(at(span, "status", "code")) in {"2", "STATUS_CODE_ERROR"}
    if not kind and not has_failed:
        return Recorded.RAN if span.get("endTimeUnixNano") else Recorded.PENDING
    return outcome_in(kind, "otel") or Recorded.TOOL_ERROR
