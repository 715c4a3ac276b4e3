"""Gemini CLI's chats, JSON or JSONL, and those of Qwen Code, which comes of it.

Both repair broken arguments before they write them down: malformed calls cannot be seen.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agenteval.core.logged import Building, LoggedCall, Recorded, Session, Skipped
from agenteval.core.trial import Usage
from agenteval.formats.tool_calls import called
from agenteval.readers.json_documents import walked
from agenteval.readers.json_source import (
    Line,
    at,
    count_at,
    lines,
    name_at,
    objects,
    take_faults,
    text_at,
    when,
    words,
)
from agenteval.readers.log_bytes import by_place

Object = Mapping[str, Any]
_TYPES = {
    "execution_denied": Recorded.DENIED,
    "policy_violation": Recorded.DENIED,
    "tool_not_registered": Recorded.INVALID_TOOL,
    "invalid_tool_params": Recorded.MALFORMED,
}
_Name = str | tuple[int, int]
_STATUS = {"success": Recorded.RAN, "cancelled": Recorded.REJECTED}


def read(path: Path) -> Iterator[Session | Skipped]:
    """A chat of Gemini CLI. What was rewound is gone, as it is for the model."""
    if path.suffix == ".jsonl":
        yield from _of_lines(path)
        return
    building, number = Building(Session(by_place(path), agent="main", path=str(path))), 0
    for one in walked(path, "messages"):
        if isinstance(one, Skipped):
            yield one
        elif one[0] == "messages" and isinstance(one[1], dict):
            number += 1
            if (whole := building.whole()) is not None:
                yield whole
            _message(building, one[1])
            yield from take_faults(building, path, f"message {number}")
        else:
            _begin(building.session, {one[0]: one[1]})
            building.may_have({one[0]: None}, "messages")
            yield from take_faults(building, path, "the file")
    yield building.session


def _of_lines(path: Path) -> Iterator[Session | Skipped]:
    """Messages by their id: a later line replaces one, or takes all from one on away."""
    session = Session(by_place(path), agent="main", path=str(path))
    messages: dict[_Name, Object] = {}
    for number, line in enumerate(lines(path), 1):
        if not isinstance(line, Line):
            yield line
            continue
        value = line.value
        _begin(session, value)
        if "toolCalls" in value and "type" not in value:
            yield Skipped(str(path), f"line {line.number}", "no key 'type' beside 'toolCalls'")
        _change(messages, number, value)
    building = Building(session)
    for number, message in enumerate(messages.values(), 1):
        if (whole := building.whole()) is not None:
            yield whole
        _message(building, message)
        yield from take_faults(building, path, f"message {number}")
    yield building.session


def _change(messages: dict[_Name, Object], number: int, value: Object) -> None:
    """A message without an id is known by where it stands; one that is set, by that in its list."""
    for place, change in ((number, value), (0, value.get("$set"))):
        for index, one in enumerate(objects(at(change, "messages")), 1):
            messages[name_at(one, "id") or (place, index)] = one
    if isinstance(value.get("type"), str):
        messages[name_at(value, "id") or (number, 0)] = value
    gone = name_at(value, "$rewindTo")
    if gone and gone in messages:
        kept = list(messages)
        for name in kept[kept.index(gone) :]:
            del messages[name]


def _begin(session: Session, known: Object) -> None:
    session.id = name_at(known, "sessionId") or session.id
    session.project = text_at(known, "projectHash")[:12] or session.project
    if known.get("kind") == "subagent":
        session.agent = "sub-agent"


def _message(building: Building, message: Object) -> None:
    building.needs(message, "type")
    building.may_have(message, "toolCalls", "content")
    if text_at(message, "type") not in {"gemini", "model", "assistant"}:
        return
    if not message.keys() & {"toolCalls", "content"}:  # as of another program
        building.needs(message, "content")
        return
    turn = building.turn()
    turn.text, turn.model = words(message.get("content")), text_at(message, "model")
    turn.at = when(message.get("timestamp"))
    turn.usage = Usage(
        prompt_tokens=count_at(message, "tokens", "input"),
        completion_tokens=count_at(message, "tokens", "output"),
        reasoning_tokens=count_at(message, "tokens", "thoughts"),
        cached_tokens=count_at(message, "tokens", "cached"),
    )
    for one in objects(message.get("toolCalls")):
        building.needs(one, "name", "args", "status")
        building.may_have(one, "result", "errorType")
        for part in objects(one.get("result")):
            _has_response(building, part)
        call = called(name_at(one, "id"), text_at(one, "name"), one.get("args") or {})
        made = LoggedCall(call, _status(one), said=_result(one))
        building.called(turn, made)


def _has_response(building: Building, part: Object) -> None:
    building.may_have(part, "functionResponse")
    if isinstance(whole := part.get("functionResponse"), dict):
        building.may_have(whole, "response")
        if isinstance(response := whole.get("response"), dict):
            building.may_have(response, "output", "error")


def _status(one: Object) -> Recorded:
    said, status = _result(one), one.get("status")
    told = text_at(one, "errorType") or text_at(one, "result", "errorType")
    if told in _TYPES:
        return _TYPES[told]
    if status != "error":
        return _STATUS.get(str(status), Recorded.PENDING)
    if "not found in registry" in said:
        return Recorded.INVALID_TOOL
    if "denied by policy" in said or "blocked by policy" in said:
        return Recorded.DENIED
    is_input = "params must" in said or "Invalid parameters" in said
    return Recorded.MALFORMED if is_input else Recorded.TOOL_ERROR


def _result(one: Object) -> str:
    """Return the text that the model read: from the parts of a result, or as it was displayed."""
    parts = one.get("result")
    for part in objects(parts if isinstance(parts, list) else [parts]):
        response = at(part, "functionResponse", "response")
        for name in ("output", "error"):
            if said := text_at(response, name):
                return said
    return text_at(one, "resultDisplay")


def read_qwen(path: Path) -> Iterator[Session | Skipped]:
    """A chat of Qwen Code: a line for each message and for each result."""
    building = Building(Session(by_place(path), agent="main", path=str(path)))
    for line in lines(path):
        if not isinstance(line, Line):
            yield line
            continue
        value = line.value
        _qwen_begin(building.session, value)
        if value.get("type") == "assistant":
            if (whole := building.whole()) is not None:
                yield whole
            _qwen_turn(building, value)
        elif value.get("type") == "tool_result":
            _qwen_result(building, value)
        building.needs(value, "type")
        yield from take_faults(building, path, f"line {line.number}")
    yield building.session


def _qwen_begin(session: Session, value: Object) -> None:
    session.id = name_at(value, "sessionId") or session.id
    session.version = text_at(value, "version") or session.version
    session.project = session.project or text_at(value, "cwd")


def _qwen_turn(building: Building, value: Object) -> None:
    building.needs(value, "message")
    if isinstance(message := value.get("message"), dict):
        building.needs(message, "parts")
        if "parts" not in message:
            return
    turn = building.turn()
    parts = objects(at(value, "message", "parts"))
    turn.text = "\n".join(text_at(one, "text") for one in parts if not one.get("thought")).strip()
    turn.model, turn.at = text_at(value, "model"), when(value.get("timestamp"))
    turn.usage = Usage(
        prompt_tokens=count_at(value, "usageMetadata", "promptTokenCount"),
        completion_tokens=count_at(value, "usageMetadata", "candidatesTokenCount"),
        reasoning_tokens=count_at(value, "usageMetadata", "thoughtsTokenCount"),
        cached_tokens=count_at(value, "usageMetadata", "cachedContentTokenCount"),
    )
    for one in parts:
        building.may_have(one, "functionCall", "text")
        given = one.get("functionCall")
        if isinstance(given, dict):
            building.needs(given, "id", "name", "args")
            call = called(name_at(given, "id"), text_at(given, "name"), given.get("args") or {})
            building.called(turn, LoggedCall(call, Recorded.PENDING))


def _qwen_result(building: Building, value: Object) -> None:
    building.needs(value, "toolCallResult")
    told = value.get("toolCallResult")
    if told and isinstance(told, dict):
        building.needs(told, "callId", "status")
        building.may_have(told, "errorType", "resultDisplay")
    parts = objects(at(value, "message", "parts"))
    name = name_at(told, "callId") or next(
        (name_at(one, "functionResponse", "id") for one in parts), ""
    )
    if (one := building.answered(name)) is not None:
        shown = text_at(told, "resultDisplay")
        building.heard(one, _result({"result": parts, "resultDisplay": shown}))
        one.recorded = _status({**told, "result": parts} if isinstance(told, dict) else {})
        if one.recorded is Recorded.PENDING:
            one.recorded = Recorded.UNKNOWN
