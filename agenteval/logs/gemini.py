"""Gemini CLI's chats, JSON or JSONL, and those of Qwen Code, which comes of it.

Both repair broken arguments before they write them down: malformed calls cannot be seen.
"""

from itertools import count
from pathlib import Path
from typing import Any

from agenteval.logs.json import (
    Found,
    Line,
    Object,
    at,
    full_part,
    lines,
    name_at,
    nested,
    objects,
    read_lines,
    read_members,
    take_faults,
    text_at,
    usage_in,
    when,
    words,
)
from agenteval.logs.packed import by_place
from agenteval.logs.tool_calls import called
from agenteval.trial.session import Building, LoggedCall, Recorded, Session, Skipped

_TYPES = {
    "execution_denied": Recorded.DENIED,
    "policy_violation": Recorded.DENIED,
    "tool_not_registered": Recorded.INVALID_TOOL,
    "invalid_tool_params": Recorded.MALFORMED,
}
# What the program writes of a call that it did not carry out, where it gives no type.
_PHRASES = {
    "not found in registry": Recorded.INVALID_TOOL,
    "denied by policy": Recorded.DENIED,
    "blocked by policy": Recorded.DENIED,
    "params must": Recorded.MALFORMED,
    "Invalid parameters": Recorded.MALFORMED,
}
# The id of a message, or its place in the file.
_Name = str | tuple[int, int]
_STATUS = {"success": Recorded.RAN, "cancelled": Recorded.REJECTED}


def read(path: Path) -> Found:
    """Read a chat of Gemini CLI. What was rewound is gone, as it is for the model."""
    building = Building(
        Session(
            by_place(path),
            agent="main",
            path=str(path),
        )
    )
    if path.suffix == ".jsonl":
        yield from _read_lines(path, building)
    else:
        yield from _read_document(path, building)
    yield building.session


def _read_document(path: Path, building: Building) -> Found:
    numbers = count(1)

    def take(key: str, value: Any) -> Found:
        if key == "messages" and isinstance(value, dict):
            yield from _message(building, value, path, next(numbers))
        else:
            _begin(building.session, {key: value})
            building.may_have({key: None}, "messages")
            yield from take_faults(building, path, "the file")

    yield from read_members(path, take, "messages")


def _read_lines(path: Path, building: Building) -> Found:
    """Read messages by their id: a later line replaces one, or takes all from one on away."""
    messages: dict[_Name, Object] = {}
    for number, line in enumerate(lines(path), 1):
        if not isinstance(line, Line):
            yield line
            continue
        value = line.value
        _begin(building.session, value)
        if "toolCalls" in value and "type" not in value:
            yield Skipped(str(path), f"line {line.number}", "no key 'type' beside 'toolCalls'")
        _change(messages, number, value)
    for number, message in enumerate(messages.values(), 1):
        yield from _message(building, message, path, number)


def _change(
    messages: dict[_Name, Object],
    number: int,
    value: Object,
) -> None:
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


def _message(
    building: Building,
    message: Object,
    path: Path,
    number: int,
) -> Found:
    yield from full_part(building)
    building.needs(message, "type")
    building.may_have(message, "toolCalls", "content")
    if text_at(message, "type") in {"gemini", "model", "assistant"}:
        _reply(building, message)
    yield from take_faults(building, path, f"message {number}")


def _reply(building: Building, message: Object) -> None:
    # A message with neither is another program's.
    if not message.keys() & {"toolCalls", "content"}:
        building.needs(message, "content")
        return
    turn = building.turn()
    turn.text = words(message.get("content"))
    turn.model = text_at(message, "model")
    turn.at = when(message.get("timestamp"))
    turn.usage = usage_in(
        at(message, "tokens"),
        "input",
        "output",
        "thoughts",
        "cached",
    )
    for item in objects(message.get("toolCalls")):
        building.needs(item, "name", "args", "status")
        building.may_have(item, "result", "errorType")
        for part in objects(item.get("result")):
            _check_response(building, part)
        call = called(
            name_at(item, "id"),
            text_at(item, "name"),
            item.get("args") or {},
        )
        building.called(
            turn,
            LoggedCall(call, _status(item), said=_result(item)),
        )


def _check_response(building: Building, part: Object) -> None:
    building.may_have(part, "functionResponse")
    for whole in nested(part, "functionResponse"):
        building.may_have(whole, "response")
        for response in nested(whole, "response"):
            building.may_have(response, "output", "error")


def _status(item: Object) -> Recorded:
    error_type = text_at(item, "errorType") or text_at(item, "result", "errorType")
    if error_type in _TYPES:
        return _TYPES[error_type]
    status = item.get("status")
    if status != "error":
        return _STATUS.get(str(status), Recorded.PENDING)
    output = _result(item)
    for phrase, recorded in _PHRASES.items():
        if phrase in output:
            return recorded
    return Recorded.TOOL_ERROR


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


def read_qwen(path: Path) -> Found:
    """Read a chat of Qwen Code: a line for each message and for each result."""
    building = Building(
        Session(
            by_place(path),
            agent="main",
            path=str(path),
        )
    )

    def take(line: Line) -> Found:
        value = line.value
        _qwen_begin(building.session, value)
        kind = value.get("type")
        if kind == "assistant":
            yield from full_part(building)
            _qwen_turn(building, value)
        elif kind == "tool_result":
            _qwen_result(building, value)
        building.needs(value, "type")
        yield from take_faults(building, path, f"line {line.number}")

    yield from read_lines(path, take)
    yield building.session


def _qwen_begin(session: Session, value: Object) -> None:
    session.id = name_at(value, "sessionId") or session.id
    session.version = text_at(value, "version") or session.version
    session.project = session.project or text_at(value, "cwd")


def _qwen_turn(building: Building, value: Object) -> None:
    building.needs(value, "message")
    for message in nested(value, "message"):
        building.needs(message, "parts")
        if "parts" not in message:
            return
    parts = objects(at(value, "message", "parts"))
    texts = [text_at(part, "text") for part in parts if not part.get("thought")]
    turn = building.turn()
    turn.text = "\n".join(texts).strip()
    turn.model = text_at(value, "model")
    turn.at = when(value.get("timestamp"))
    turn.usage = usage_in(
        value.get("usageMetadata"),
        "promptTokenCount",
        "candidatesTokenCount",
        "thoughtsTokenCount",
        "cachedContentTokenCount",
    )
    for part in parts:
        building.may_have(part, "functionCall", "text")
        for request in nested(part, "functionCall"):
            building.needs(request, "id", "name", "args")
            arguments = request.get("args") or {}
            call = called(
                name_at(request, "id"),
                text_at(request, "name"),
                arguments,
            )
            building.called(turn, LoggedCall(call, Recorded.PENDING))


def _qwen_result(building: Building, value: Object) -> None:
    building.needs(value, "toolCallResult")
    result: Object = next(
        iter(nested(value, "toolCallResult")),
        {},
    )
    if result:
        building.needs(result, "callId", "status")
        building.may_have(result, "errorType", "resultDisplay")
    parts = objects(at(value, "message", "parts"))
    names = [name_at(result, "callId")]
    names += [name_at(part, "functionResponse", "id") for part in parts[:1]]
    call = building.take_call(
        next(
            filter(None, names),
            "",
        )
    )
    if call is None:
        return
    shown = text_at(result, "resultDisplay")
    building.set_reply(
        call,
        _result({"result": parts, "resultDisplay": shown}),
    )
    call.recorded = Recorded.UNKNOWN
    if isinstance(value.get("toolCallResult"), dict):
        call.recorded = _status({**result, "result": parts})
    if call.recorded is Recorded.PENDING:
        call.recorded = Recorded.UNKNOWN
