"""Trajectories of SWE-agent and mini-swe-agent. Whether a rule denied a call they do not show."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agenteval.core.logged import Building, LoggedCall, Recorded, Session, Skipped
from agenteval.core.trial import Usage
from agenteval.formats.tool_calls import bash_call, called
from agenteval.readers.json_source import (
    at,
    count_at,
    lost,
    name_at,
    objects,
    text_at,
    walked,
    when,
    words,
)
from agenteval.readers.log_bytes import by_place

Object = Mapping[str, Any]
_MOST = 20_000  # turns: a trajectory is one task
# Where the messages stand; `history` and `trajectory` tell of one session, the first with ids.
_WAYS = ("messages", "", "history", "trajectory")
_FENCE = re.compile(r"```(?:bash|sh|shell|mswea_bash_command)?[ \t]*\n(.*?)\n?```", re.DOTALL)
_CODE = re.compile(r"<returncode>\s*(-?\d{1,9})\s*</returncode>")
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
    for one in walked(path, "messages", "history", "trajectory"):
        if isinstance(one, Skipped):
            yield one
            continue
        key, value = one
        if key in _WAYS:
            building = ways.setdefault(key, Building(Session(path.name, path=str(path))))
            take = _step if key == "trajectory" else _message
            if isinstance(value, dict) and len(building.session.turns) < _MOST:
                take(building, value)
                yield from lost(building, path, f"a part of {key or 'the list'}")
        else:
            _begin(session, key, value)
            top.may_have({key: None}, *_WAYS)
            yield from lost(top, path, "the file")
    told = next((ways[key].session for key in _WAYS if key in ways), None)
    if told is not None:
        if "history" in ways or "trajectory" in ways:
            session.agent = "swe-agent"
        session.turns = told.turns
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
    """Who was asked, by the settings of SWE-agent: an object, or its text."""
    try:
        known = json.loads(config) if isinstance(config, str) else config
    except (ValueError, RecursionError):
        return ""
    return text_at(known, "agent", "model", "name")


def _message(building: Building, message: Object) -> None:
    building.needs(message, "role")
    building.may_have(message, "tool_calls", "content", "action", "extra", "tool_call_ids")
    building.may_have(message, "is_demo")
    if isinstance(extra := message.get("extra"), dict):
        building.may_have(extra, "interrupt_type", "response")
    role = text_at(message, "role")
    if message.get("is_demo") is True:
        return  # what somebody else did once, shown to the model
    if role == "assistant":
        _reply(building, message)
    elif role in {"user", "tool"}:
        _observation(building, message)


def _reply(building: Building, message: Object) -> None:
    turn = building.turn()
    turn.text = words(message.get("content"))
    turn.at = when(message.get("timestamp")) or when(at(message, "extra", "timestamp"))
    response = at(message, "extra", "response")
    turn.model = text_at(response, "model")
    turn.usage = Usage(
        prompt_tokens=count_at(response, "usage", "prompt_tokens"),
        completion_tokens=count_at(response, "usage", "completion_tokens"),
    )
    for one in objects(message.get("tool_calls")):
        building.needs(one, "function")
        if isinstance(function := one.get("function"), dict):
            building.needs(function, "name", "arguments")
        arguments = at(one, "function", "arguments")
        name = text_at(one, "function", "name")
        call = called(name_at(one, "id"), name, "" if arguments is None else arguments)
        building.called(turn, LoggedCall(call, Recorded.PENDING))
    if turn.calls:
        return
    action = text_at(message, "action")
    fenced = _FENCE.findall(turn.text)
    if command := action or (fenced[0] if len(fenced) == 1 else ""):
        building.called(turn, LoggedCall(bash_call(command.strip("\n")), Recorded.PENDING))


def _observation(building: Building, message: Object) -> None:
    said = words(message.get("content"))
    bad = text_at(message, "extra", "interrupt_type") == "FormatError" or _BAD_FORMAT.search(said)
    names = message.get("tool_call_ids")
    name = str(names[0]) if isinstance(names, list) and names else name_at(message, "tool_call_id")
    one = building.answered(name) or building.waiting()
    turns = building.session.turns
    if one is None:
        if bad and turns and not turns[-1].calls:  # a reply in which no call could be read
            raw = text_at(message, "extra", "response") or turns[-1].text
            call = called("", "bash", raw)
            turns[-1].calls.append(LoggedCall(call, Recorded.MALFORMED))
            building.heard(turns[-1].calls[-1], said)
        return
    building.heard(one, said)
    code = _CODE.search(said)
    one.exit_code = int(code[1]) if code else None
    one.recorded = Recorded.RAN if code else Recorded.MALFORMED if bad else Recorded.UNKNOWN
    if _BLOCKED.match(said):
        one.recorded = Recorded.DENIED


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
