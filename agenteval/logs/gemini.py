"""Gemini CLI's chats, JSON or JSONL, and those of Qwen Code, which comes of it.

Both repair broken arguments before they write them down: malformed calls cannot be seen.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agenteval.logs.json import (
    Line,
    at,
    count_at,
    lines,
    name_at,
    objects,
    take_faults,
    text_at,
    walked,
    when,
    words,
)
from agenteval.logs.packed import by_place
from agenteval.logs.tool_calls import called
from agenteval.trial.session import Building, LoggedCall, Recorded, Session, Skipped
from agenteval.trial.trial import Usage

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
    """Read a chat of Gemini CLI. What was rewound is gone, as it is for the model."""
    if path.suffix == ".jsonl":
        yield from _of_lines(path)
        return
    building = Building(Session(by_place(path), agent="main", path=str(path)))
    number = 0
    for item in walked(path, "messages"):
        if isinstance(item, Skipped):
            yield item
        elif item[0] == "messages" and isinstance(item[1], dict):
            number += 1
            whole = building.whole()
            if whole is not None:
                yield whole
            _message(building, item[1])
            yield from take_faults(building, path, f"message {number}")
        else:
            _begin(building.session, {item[0]: item[1]})
            building.may_have({item[0]: None}, "messages")
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
        whole = building.whole()
        if whole is not None:
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
    # As of another program
    if not message.keys() & {"toolCalls", "content"}:
        building.needs(message, "content")
        return
    turn = building.turn()
    turn.text = words(message.get("content"))
    turn.model = text_at(message, "model")
    turn.at = when(message.get("timestamp"))
    turn.usage = Usage(
        prompt_tokens=count_at(message, "tokens", "input"),
        completion_tokens=count_at(message, "tokens", "output"),
        reasoning_tokens=count_at(message, "tokens", "thoughts"),
        cached_tokens=count_at(message, "tokens", "cached"),
    )
    for item in objects(message.get("toolCalls")):
        building.needs(item, "name", "args", "status")
        building.may_have(item, "result", "errorType")
        for part in objects(item.get("result")):
            _has_response(building, part)
        call = called(name_at(item, "id"), text_at(item, "name"), item.get("args") or {})
        logged = LoggedCall(call, _status(item), said=_result(item))
        building.called(turn, logged)


def _has_response(building: Building, part: Object) -> None:
    building.may_have(part, "functionResponse")
    whole = part.get("functionResponse")
    if isinstance(whole, dict):
        building.may_have(whole, "response")
        response = whole.get("response")
        if isinstance(response, dict):
            building.may_have(response, "output", "error")


def _status(item: Object) -> Recorded:
    output = _result(item)
    status = item.get("status")
    error_type = text_at(item, "errorType") or text_at(item, "result", "errorType")
    if error_type in _TYPES:
        return _TYPES[error_type]
    if status != "error":
        return _STATUS.get(str(status), Recorded.PENDING)
    if "not found in registry" in output:
        return Recorded.INVALID_TOOL
    if "denied by policy" in output or "blocked by policy" in output:
        return Recorded.DENIED
    is_input = "params must" in output or "Invalid parameters" in output
    return Recorded.MALFORMED if is_input else Recorded.TOOL_ERROR


def _result(item: Object) -> str:
    """Return the text that the model read: from the parts of a result, or as it was displayed."""
    parts = item.get("result")
    for part in objects(parts if isinstance(parts, list) else [parts]):
        response = at(part, "functionResponse", "response")
        for name in ("output", "error"):
            output = text_at(response, name)
            if output:
                return output
    return text_at(item, "resultDisplay")


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
            whole = building.whole()
            if whole is not None:
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
    message = value.get("message")
    if isinstance(message, dict):
        building.needs(message, "parts")
        if "parts" not in message:
            return
    turn = building.turn()
    parts = objects(at(value, "message", "parts"))
    turn.text = "\n".join(text_at(one, "text") for one in parts if not one.get("thought")).strip()
    turn.model = text_at(value, "model")
    turn.at = when(value.get("timestamp"))
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
    result = value.get("toolCallResult")
    if result and isinstance(result, dict):
        building.needs(result, "callId", "status")
        building.may_have(result, "errorType", "resultDisplay")
    parts = objects(at(value, "message", "parts"))
    name = name_at(result, "callId") or next(
        (name_at(call, "functionResponse", "id") for call in parts), ""
    )
    call = building.take_call(name)
    if call is not None:
        shown = text_at(result, "resultDisplay")
        building.set_reply(call, _result({"result": parts, "resultDisplay": shown}))
        call.recorded = _status({**result, "result": parts} if isinstance(result, dict) else {})
        if call.recorded is Recorded.PENDING:
            call.recorded = Recorded.UNKNOWN
