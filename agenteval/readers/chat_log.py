"""Chat completions as JSONL: a conversation a line, or a request with its reply.

Arguments come as text or as an object, ids are left out or repeat, and a call may stand in the
content as text: what a server's parser did not take. Whether a call was denied no such log shows.
A line in which nothing of this is found is a plug-in's, as for `agenteval classify`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agenteval.core.logged import Building, LoggedCall, LoggedTurn, Recorded, Session, Skipped
from agenteval.core.text_calls.dialects import calls_left
from agenteval.core.trial import Usage
from agenteval.formats.tool_calls import called, tool_calls
from agenteval.readers.json_source import (
    Line,
    at,
    by_place,
    count_at,
    lines,
    lost,
    name_at,
    objects,
    text_at,
    when,
    words,
)

Object = Mapping[str, Any]
_LONG = 16  # characters of an id that no other file has too, as "7" may stand in many


def read(path: Path) -> Iterator[Session | Skipped]:
    for line in lines(path):
        if not isinstance(line, Line):
            yield line
            continue
        building = Building(Session(_name(line, path), path=str(path)))
        _conversation(building, line.value)
        yield from lost(building, path, f"line {line.number}")
        if building.session.turns:
            yield building.session
        elif not line.value.keys() & {"messages", "choices", "role", "request", "response"}:
            yield Skipped(str(path), f"line {line.number}", "no messages, and no calls, in it")


def _name(line: Line, path: Path) -> str:
    """What names a conversation, so that it is known again; else its place in the file."""
    value = line.value
    for key in ("session_id", "conversation_id", "id", "uuid"):
        found = name_at(value, key)
        if len(found) >= (1 if key == "session_id" else _LONG):
            return found
    return f"{by_place(path)}:{line.number}"


def _conversation(building: Building, value: Object) -> None:
    session = building.session
    inner = [one for key in ("request", "response", "body") for one in _nested(value, key)]
    inner += [one for outer in inner for one in _nested(outer, "body")]  # of a batch's output
    for one in (value, *inner):
        session.model = session.model or text_at(one, "model")
        session.agent = session.agent or text_at(one, "agent")
        session.project = session.project or text_at(one, "project")
    schemas = next((_schemas(one) for one in (value, *inner) if one.get("tools")), {})
    moment = next(
        (t for k in ("timestamp", "created", "created_at") if (t := when(value.get(k)))), None
    )
    for one in (value, *inner):
        for message in objects(one.get("messages")):
            _message(building, message, schemas, moment)
    for one in (value, *inner):
        for choice in objects(one.get("choices"))[:1]:
            reply = choice.get("message")
            if isinstance(reply, dict):
                whole = {**choice, **reply, "role": "assistant"}
                _message(building, whole, schemas, moment, one)
    if not session.turns and (value.get("role") == "assistant" or "messages" not in value):
        _alone(building, value, schemas, moment)


def _nested(value: Object, key: str) -> list[Object]:
    found = value.get(key)
    return [found] if isinstance(found, dict) else []


def _alone(building: Building, value: Object, schemas: Object, moment: float | None) -> None:
    """A line that is a message, or what a plug-in finds calls in."""
    if value.get("role") == "assistant":
        _message(building, value, schemas, moment)
    elif "choices" not in value and (found := tool_calls(value)):
        turn = building.turn()
        turn.at = moment
        for call in found:
            building.called(turn, LoggedCall(call))


def _schemas(one: Object) -> dict[str, Any]:
    found = (tool.get("function", tool) for tool in objects(one.get("tools")))
    return {
        text_at(tool, "name"): at(tool, "parameters") or {}
        for tool in found
        if isinstance(tool, dict) and text_at(tool, "name")
    }


def _message(
    building: Building,
    message: Object,
    schemas: Object,
    moment: float | None,
    reply: Object | None = None,
) -> None:
    building.needs(message, "role")
    building.may_have(message, "tool_calls", "tool_call_id", "content")
    role = text_at(message, "role")
    if role in {"tool", "function"}:
        one = building.answered(name_at(message, "tool_call_id")) or building.waiting()
        if one is not None:
            building.answered(one.call.id)
            building.heard(one, words(message.get("content")))
    elif role == "assistant":
        turn = building.turn()
        turn.text, turn.at = words(message.get("content")), moment
        turn.finish = text_at(message, "finish_reason")
        turn.model = text_at(message, "model")
        turn.usage = Usage(
            prompt_tokens=count_at(reply, "usage", "prompt_tokens"),
            completion_tokens=count_at(reply, "usage", "completion_tokens"),
        )
        _calls(building, turn, message, schemas)


def _calls(building: Building, turn: LoggedTurn, message: Object, schemas: Object) -> None:
    given = objects(message.get("tool_calls"))
    if isinstance(message.get("function_call"), dict):  # before there were tools
        given.append({"function": message["function_call"]})
    for one in given:
        function = one.get("function") if isinstance(one.get("function"), dict) else one
        building.may_have(one, "function", "id")
        if isinstance(function, dict):
            building.needs(function, "name")
            building.may_have(function, "arguments")
        name, arguments = text_at(function, "name"), at(function, "arguments")
        call = called(name_at(one, "id"), name, "" if arguments is None else arguments)
        bad = Recorded.MALFORMED if call.malformed else Recorded.UNKNOWN
        building.called(turn, LoggedCall(call, bad))
    if not given:
        for _, left, spoken in calls_left(turn.text, schemas):
            if not spoken:
                call = called("", left.name, left.raw)
                building.called(turn, LoggedCall(call, Recorded.MALFORMED))
