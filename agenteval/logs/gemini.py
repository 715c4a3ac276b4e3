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
    check_keys,
    full_part,
    lines,
    name_at,
    object_at,
    objects,
    outcome_in,
    read_lines,
    read_members,
    session_of,
    take_faults,
    text_at,
    usage_in,
    when,
    words,
)
from agenteval.logs.tool_calls import called
from agenteval.trial.call import ToolCall
from agenteval.trial.session import Building, LoggedCall, Recorded, Session, Skipped

# The id of a message, or its place in the file.
_Name = str | tuple[int, int]
_STATUS = {"success": Recorded.RAN, "cancelled": Recorded.REJECTED}


def read(path: Path) -> Found:
    """Read a chat of Gemini CLI. What was rewound is gone, as it is for the model."""
    building = session_of(path)
    if path.suffix == ".jsonl":
        yield from _read_lines(path, building)
    else:
        yield from _read_document(path, building)
    yield building.session


def _read_document(path: Path, building: Building) -> Found:
    numbers = count(1)

    def take(key: str, value: Any) -> Found:
        if key == "messages" and isinstance(value, dict):
            yield from _message(
                building,
                value,
                path,
                next(numbers),
            )
        else:
            _begin(building.session, {key: value})
            check_keys(building, {key: None}, "gemini-cli.top")
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
    """Apply a line to the messages.

    A message without an id is known by where it stands; one that is set, by that in its list.
    """
    for place, change in ((number, value), (0, value.get("$set"))):
        for index, message in enumerate(objects(at(change, "messages")), 1):
            messages[name_at(message, "id") or (place, index)] = message
    if isinstance(value.get("type"), str):
        messages[name_at(value, "id") or (number, 0)] = value
    first_gone = name_at(value, "$rewindTo")
    if first_gone and first_gone in messages:
        names = list(messages)
        for name in names[names.index(first_gone) :]:
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
    check_keys(building, message, "gemini-cli.message")
    if text_at(message, "type") in {"gemini", "model", "assistant"}:
        _reply(building, message)
    yield from take_faults(building, path, f"message {number}")


def _reply(building: Building, message: Object) -> None:
    # A message with neither is another program's.
    if not message.keys() & {"toolCalls", "content"}:
        check_keys(building, message, "gemini-cli.reply")
        return
    turn = building.turn()
    turn.text = words(message.get("content"))
    turn.model = text_at(message, "model")
    turn.at = when(message.get("timestamp"))
    tokens = message.get("tokens")
    turn.usage = usage_in(
        tokens,
        "input",
        "output",
        "thoughts",
        "cached",
    )
    for item in objects(message.get("toolCalls")):
        check_keys(building, item, "gemini-cli.call")
        call = LoggedCall(
            _call(item),
            _status(item),
            said=_result(item),
        )
        building.called(turn, call)


def _call(item: Object) -> ToolCall:
    return called(
        name_at(item, "id"),
        text_at(item, "name"),
        item.get("args") or {},
    )


def _status(item: Object) -> Recorded:
    error_type = text_at(item, "errorType") or text_at(item, "result", "errorType")
    outcome = outcome_in(error_type, "gemini-cli-types")
    if outcome:
        return outcome
    status = item.get("status")
    if status == "error":
        return outcome_in(_result(item), "gemini-cli") or Recorded.TOOL_ERROR
    return _STATUS.get(str(status), Recorded.PENDING)


def _result(item: Object) -> str:
    """Return the text that the model read: from the parts of a result, or as it was displayed."""
    parts = item.get("result")
    for part in objects(parts if isinstance(parts, list) else [parts]):
        response = at(part, "functionResponse", "response")
        output = text_at(response, "output") or text_at(response, "error")
        if output:
            return output
    return text_at(item, "resultDisplay")


def read_qwen(path: Path) -> Found:
    """Read a chat of Qwen Code: a line for each message and for each result."""
    building = session_of(path)

    def take(value: Object) -> Found:
        _qwen_begin(building.session, value)
        kind = value.get("type")
        if kind == "assistant":
            yield from full_part(building)
            _qwen_turn(building, value)
        elif kind == "tool_result":
            _qwen_result(building, value)
        check_keys(building, value, "qwen-code.any")

    yield from read_lines(path, take, building)
    yield building.session


def _qwen_begin(session: Session, value: Object) -> None:
    session.id = name_at(value, "sessionId") or session.id
    session.version = text_at(value, "version") or session.version
    session.project = session.project or text_at(value, "cwd")


def _qwen_turn(building: Building, value: Object) -> None:
    check_keys(building, value, "qwen-code.turn")
    message = value.get("message")
    if isinstance(message, dict) and "parts" not in message:
        return
    parts = objects(at(message, "parts"))
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
        check_keys(building, part, "qwen-code.part")
        request = part.get("functionCall")
        if isinstance(request, dict):
            building.called(turn, LoggedCall(_call(request), Recorded.PENDING))


def _qwen_result(building: Building, value: Object) -> None:
    check_keys(building, value, "qwen-code.tool_result")
    result = object_at(value, "toolCallResult")
    if result:
        check_keys(building, result, "qwen-code.result")
    parts = objects(at(value, "message", "parts"))
    names = [name_at(result, "callId")]
    names += [name_at(part, "functionResponse", "id") for part in parts[:1]]
    call = building.take_call(next(filter(None, names), ""))
    if call is None:
        return
    item = {**result, "result": parts}
    building.set_reply(call, _result(item))
    status = _status(item)
    # It has a result, whether its outcome is stated or not
    call.recorded = Recorded.UNKNOWN if status is Recorded.PENDING else status
