"""Trajectories of SWE-agent and mini-swe-agent. Whether a rule denied a call they do not show."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agenteval.core.logged import Building, LoggedCall, LoggedTurn, Recorded, Session, Skipped
from agenteval.core.trial import Usage
from agenteval.formats.tool_calls import bash_call, called
from agenteval.readers.json_documents import walked
from agenteval.readers.json_source import (
    at,
    code_at,
    count_at,
    name_at,
    objects,
    take_faults,
    text_at,
    when,
    words,
)
from agenteval.readers.log_bytes import by_place

Object = Mapping[str, Any]
_MOST = 20_000  # turns: a trajectory is one task
# Where the messages stand; `history` and `trajectory` tell of one session, the first with ids.
_WAYS = ("messages", "", "history", "trajectory")
_OPENS = re.compile(r"```(\w*)\s*$")
_TAGS = ("mswea_bash_command", "bash", "sh", "shell")  # of commands: the first that is there counts
_CODE = re.compile(r"<returncode>\s*(-?\d{1,9})\s*</returncode>")
# Of messages without one, as mini-swe-agent keeps what the Responses API says.
_ROLES = {"response": "assistant", "function_call_output": "tool"}
_BLOCKED = re.compile(r"Operation '.*' is not supported|is blocked|not allowed", re.DOTALL)
_BAD_FORMAT = re.compile(
    r"Your (?:last )?output was not formatted correctly|EXACTLY ONE|exactly one|FormatError"
    r"|function call is missing|Expected exactly",
)


def read(path: Path) -> Iterator[Session | Skipped]:
    """The messages of a trajectory: `messages` or a list of mini-swe-agent, else `history`.

    Old trajectories of SWE-agent have `trajectory` alone, a step each.
    """
    session = Session(by_place(path), agent="mini-swe-agent", path=str(path))
    top, ways = Building(session), dict[str, Building]()
    for item in walked(path, "messages", "history", "trajectory"):
        if isinstance(item, Skipped):
            yield item
            continue
        key, value = item
        if key in _WAYS:
            building = ways.setdefault(key, Building(Session(path.name, path=str(path))))
            take = _step if key == "trajectory" else _message
            if isinstance(value, dict) and len(building.session.turns) < _MOST:
                take(building, value)
                yield from take_faults(building, path, f"a part of {key or 'the list'}")
        else:
            _begin(session, key, value)
            top.may_have({key: None}, *_WAYS)
            yield from take_faults(top, path, "the file")
    chosen = next((ways[key].session for key in _WAYS if key in ways), None)
    if chosen is not None:
        if "history" in ways or "trajectory" in ways:
            session.agent = "swe-agent"
        session.turns = chosen.turns
        for call in session.calls:  # a trajectory is written when all is over
            if call.recorded is Recorded.PENDING:
                call.recorded = Recorded.UNKNOWN
        yield session


def _begin(session: Session, key: str, value: object) -> None:
    if key == "info":
        session.version = text_at(value, "mini_version") or text_at(value, "swe_agent_version")
        session.model = text_at(value, "config", "model", "model_name") or session.model
    elif key == "replay_config":
        session.model = session.model or _model_in(value)
    elif key == "instance_id":
        session.id = name_at({key: value}, key) or session.id
    elif key == "environment" and isinstance(value, str):
        session.project = value


def _model_in(config: object) -> str:
    """Return the model's name from the settings of SWE-agent: an object, or its text."""
    try:
        known = json.loads(config) if isinstance(config, str) else config
    except (ValueError, RecursionError):
        return ""
    return text_at(known, "agent", "model", "name")


def _message(building: Building, message: Object) -> None:
    role = text_at(message, "role") or _ROLES.get(str(message.get("object") or message.get("type")))
    if role is None:
        building.needs(message, "role")
    building.may_have(message, "tool_calls", "content", "action", "extra", "tool_call_ids")
    building.may_have(message, "is_demo")
    if isinstance(extra := message.get("extra"), dict):
        building.may_have(extra, "interrupt_type", "response")
    if message.get("is_demo") is True:
        return  # what somebody else did once, shown to the model
    if role == "assistant":
        _reply(building, message)
    elif role in {"user", "tool"}:
        _observation(building, message)


def _reply(building: Building, message: Object) -> None:
    turn = _answer(building.turn(), message)
    turn.text = words(message.get("content")) or _response_text(message)
    for item in objects(message.get("tool_calls")):
        building.needs(item, "function")
        if isinstance(function := item.get("function"), dict):
            building.needs(function, "name", "arguments")
        arguments = at(item, "function", "arguments")
        name = text_at(item, "function", "name")
        call = called(name_at(item, "id"), name, "" if arguments is None else arguments)
        building.called(turn, LoggedCall(call, Recorded.PENDING))
    if not turn.calls:
        for command in _commands(message, turn.text):
            building.called(turn, LoggedCall(bash_call(command.strip("\n")), Recorded.PENDING))


def _answer(turn: LoggedTurn, message: Object) -> LoggedTurn:
    """Return the turn with the server's figures from next to its reply."""
    turn.at = when(message.get("timestamp")) or when(at(message, "extra", "timestamp"))
    response = message if "output" in message else at(message, "extra", "response")
    turn.model, turn.usage = text_at(response, "model"), _usage(response)
    return turn


def _usage(response: object) -> Usage:
    return Usage(
        count_at(response, "usage", "prompt_tokens") or count_at(response, "usage", "input_tokens"),
        count_at(response, "usage", "completion_tokens")
        or count_at(response, "usage", "output_tokens"),
    )


def _response_text(response: Object) -> str:
    """The text of a reply of the Responses API."""
    parts = (words(one.get("content")) for one in objects(response.get("output")))
    return "\n".join(part for part in parts if part)


def _commands(message: Object, text: str) -> list[str]:
    """Return the commands of a reply without tool calls: as the log has them, else as written."""
    understood = [text_at(one, "command") for one in objects(at(message, "extra", "actions"))]
    if understood := [command for command in understood if command]:
        return understood
    if action := text_at(message, "action"):
        return [action]
    fences = _fenced(text)
    found = next((fences[tag] for tag in (*_TAGS, "") if tag in fences), [])
    return found if len(found) == 1 else []


def _fenced(text: str) -> dict[str, list[str]]:
    """Return the texts between fences, by the tag of the first: replies quote other code, too.

    A fence with a command's tag opens one in a block of other code as well, as for mini-swe-agent.
    """
    texts: dict[str, list[str]] = {}
    tag, body = None, list[str]()
    for line in text.split("\n"):
        opens = _OPENS.search(line)
        if opens and (tag is None or (tag not in _TAGS and opens[1] in _TAGS)):
            tag, body = opens[1], []
        elif tag is not None and line.startswith("```"):
            texts.setdefault(tag, []).append("\n".join(body))
            tag = None
        else:
            body.append(line)
    return texts


def _observation(building: Building, message: Object) -> None:
    output = words(message.get("content")) or text_at(message, "output")
    is_told = text_at(message, "extra", "interrupt_type") == "FormatError"
    bad = is_told or _BAD_FORMAT.search(output)
    names = message.get("tool_call_ids")
    name = name_at(message, "tool_call_id") or name_at(message, "call_id")
    name = str(names[0]) if isinstance(names, list) and names else name
    call = building.take_call(name) or building.waiting()
    turns = building.session.turns
    if call is None:
        has_reply = bool(turns) and not turns[-1].calls
        if is_told or (bad and has_reply):  # a reply in which no call could be read
            turn = turns[-1] if has_reply else _answer(building.turn(), message)
            turn.calls.append(LoggedCall(called("", "bash", _unread(message) or turn.text)))
            turn.calls[-1].recorded = Recorded.MALFORMED
            building.set_reply(turn.calls[-1], output)
        return
    building.set_reply(call, output)
    code = _CODE.search(output)
    stated = code_at(message, "extra", "returncode")
    call.exit_code = int(code[1]) if code and stated is None else stated
    is_over = call.exit_code is not None
    call.recorded = Recorded.RAN if is_over else Recorded.MALFORMED if bad else Recorded.UNKNOWN
    if _BLOCKED.match(output):
        call.recorded = Recorded.DENIED


def _unread(message: Object) -> str:
    """The reply that an error of its form is about; newer versions keep it there alone."""
    response = at(message, "extra", "response")
    reply = at(next(iter(objects(at(response, "choices"))), {}), "message")
    made = [at(one, "function") for one in objects(at(reply, "tool_calls"))]
    made += [one for one in objects(at(response, "output")) if one.get("type") == "function_call"]
    return (
        "\n".join(text_at(one, "arguments") for one in made)
        or words(at(reply, "content"))
        or text_at(message, "extra", "model_response")
        or text_at(message, "extra", "response")
    )


def _step(building: Building, step: Object) -> None:
    action = text_at(step, "action")
    turn = building.turn()
    turn.text = text_at(step, "response")
    if action.strip():
        seconds = step.get("execution_time")
        observation = words(step.get("observation"))
        building.called(
            turn,
            LoggedCall(
                bash_call(action.strip("\n")),
                Recorded.DENIED if _BLOCKED.match(observation) else Recorded.UNKNOWN,
                observation,
                seconds=seconds if isinstance(seconds, float) and 0 <= seconds < 1e9 else None,
            ),
        )
