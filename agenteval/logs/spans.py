"""OpenTelemetry's spans of agents (GenAI), as OTLP JSON: a document, or one a line.

A conversation is a session, or a trace that names none, and a span `execute_tool` a call. Arguments
are there only where somebody turned them on: without them a
call has a name, and its command is not observable.
"""

import json
from collections.abc import Iterator, Sequence
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

_TABLES = msgspec.toml.decode(
    Path(__file__).with_name("spans.toml").read_bytes(), type=dict[str, dict[str, list[str]]]
)
_ATTRIBUTES = _TABLES["attributes"]
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
        name = _first(
            "sessions",
            *(span["known"] for span in own),
        )
        sessions.setdefault(name or trace, []).extend(own)
    for name, own in sessions.items():
        session = _session(name, own, path)
        if session.turns:
            yield session


def _spans_of(reading: Building, resource: Object) -> Iterator[Object]:
    for scope in _listed(reading, resource, "scopeSpans", "instrumentationLibrarySpans"):
        yield from _listed(reading, scope, "spans")


def _listed(reading: Building, holder: Object, *names: str) -> Sequence[Object]:
    """Return the objects in the list under the first of these names.

    A fault is noted if none of them is there.
    """
    for name in names:
        if name in holder:
            return objects(holder[name])
    reading.needs(holder, names[0])
    return []


def _kept_fields(
    reading: Building,
    span: Object,
    resource: dict[str, Any],
) -> Object:
    """Return the fields of a span that are used later: all spans of a file are held at once."""
    reading.needs(span, "traceId", "name")
    reading.may_have(span, *_FIELDS, "attributes")
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
    if value.keys().isdisjoint(_OTHER_RECORDS):
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
    values = (attributes.get(name) for name in _ATTRIBUTES[kind])
    return next(
        (value for value in values if value is not None),
        None,
    )


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
    name = _first("names", attributes)
    name = name or text_at(span, "name").removeprefix("execute_tool").strip()
    inner = {} if arguments is None else _inner(arguments)
    logged = LoggedCall(
        called(_first("ids", attributes), name, inner),
        _outcome(span, attributes),
    )
    output = _first_value("results", attributes)
    logged.said = "" if output is None else str(output)
    logged.seconds = ended - began if ended and began else None
    building.called(turn, logged)


def _inner(arguments: Any) -> Any:
    """The arguments, where a library wraps them with what else it knows of the call."""
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
    for outcome, marks in _TABLES["outcomes"].items():
        if any(mark in kind for mark in marks):
            return Recorded(outcome)
    return Recorded.TOOL_ERROR
