"""Trajectories: ATIF, as Harbor writes them of every agent that it runs; SWE-agent, mini-swe-agent.

None of them shows whether a rule denied a call. ATIF has no field for errors: a call with a result
may have been denied, one without may have run. In a job of Harbor each trial has a folder, with
`agent/trajectory.json` and a result next to that.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agenteval.logs.json import (
    Found,
    Object,
    at,
    call_at,
    check_keys,
    code_at,
    count_at,
    full_part,
    name_at,
    object_at,
    objects,
    read_members,
    session_of,
    take_faults,
    text_at,
    usage_in,
    walked,
    when,
    words,
)
from agenteval.logs.packed import small
from agenteval.logs.tool_calls import bash_call, called
from agenteval.trial.call import BASH
from agenteval.trial.session import Building, LoggedCall, LoggedTurn, Recorded, Session, Skipped
from agenteval.trial.trial import Usage

_LISTS = ("steps", "subagent_trajectories")


def read_atif(path: Path) -> Found:
    """Read the trajectory of a file, and those of sub-agents that are embedded in it."""
    reading = _Reading(
        path,
        "",
        _begun(path),
    )
    skips = 0
    for item in walked(path, *_LISTS):
        if isinstance(item, Skipped):
            skips += 1
            yield item
        else:
            yield from reading.take(*item)
    if not (reading.has_steps or skips or _is_source(path)):
        yield Skipped(str(path), "the file", "no ATIF trajectory: no step in it")
    yield reading.building.session


def _is_source(path: Path) -> bool:
    """Return True if the agent itself may have written it, and Harbor its neighbour from it."""
    return path.name.endswith(".trajectory.json") and path.with_name("trajectory.json").exists()


def _begun(path: Path) -> Building:
    """Return the session as the trial's own result names it: a trajectory may lack its model."""
    building = session_of(path, agent="")
    folder = path.parent
    if folder.name != "agent":
        return building
    try:
        result = small(folder.parent / "result.json")
    except (OSError, ValueError):
        return building
    agent = at(result, "agent_info")
    session = building.session
    session.agent = text_at(agent, "name")
    session.version = text_at(agent, "version")
    session.model = text_at(agent, "model_info", "name")
    session.project = text_at(result, "task_name")
    return building


@dataclass(slots=True)
class _Reading:
    """One trajectory; `prefix` is its place in the file, empty of the file's own."""

    path: Path
    prefix: str
    building: Building
    has_steps: bool = False
    _names: dict[str, str] = field(default_factory=dict)
    _count: dict[str, int] = field(default_factory=dict)

    def take(
        self,
        key: str,
        value: object,
    ) -> Found:
        """Take one key of the trajectory; for a list, one of its elements."""
        place = self.prefix.removesuffix(", ") or "the file"
        self.has_steps = self.has_steps or key == "steps"
        if key in _LISTS and isinstance(value, dict):
            number = self._count[key] = self._count.get(key, 0) + 1
            if key == "steps":
                yield from full_part(self.building)
                place = f"{self.prefix}step {number}"
                _atif_step(self.building, value)
            else:
                yield from self._embedded(value, number)
        else:
            self._begin(key, value)
            check_keys(self.building, {key: None}, "atif.top")
        yield from take_faults(self.building, self.path, place)

    def _embedded(
        self,
        trajectory: Object,
        number: int,
    ) -> Found:
        own = self.building.session
        name = name_at(trajectory, "trajectory_id") or str(number)
        session = Session(
            f"{own.id}/{name}", model=own.model, project=own.project, parent=own.id, path=own.path
        )
        inner = _Reading(
            self.path,
            f"{self.prefix}sub-agent {number}, ",
            Building(session),
        )
        for key, value in trajectory.items():
            is_list = key in _LISTS and isinstance(value, list)
            for part in value if is_list else [value]:
                yield from inner.take(key, part)
        yield inner.building.session

    def _begin(
        self,
        key: str,
        value: object,
    ) -> None:
        session = self.building.session
        if key in {"session_id", "trajectory_id"} and not self.prefix:
            name = name_at({key: value}, key)
            if name:
                # Several files of one session, continued or of sub-agents, bear one id.
                self._names[key] = name
                names = [self._names[kind] for kind in sorted(self._names)]
                session.id = "/".join([*names, self.path.name])
        elif key == "agent":
            session.agent = text_at(value, "name") or session.agent
            session.version = text_at(value, "version") or session.version
            session.model = text_at(value, "model_name") or session.model


def _atif_step(building: Building, step: Object) -> None:
    """Take a step; one that was copied from another file, as for a summary, is counted there."""
    check_keys(building, step, "atif.step")
    if step.get("is_copied_context") is True:
        return
    check_keys(building, step, "atif.observation")
    calls = _atif_turn(building, step) if step.get("source") == "agent" else []
    for result in objects(at(step, "observation", "results")):
        check_keys(building, result, "atif.result")
        name = name_at(result, "source_call_id")
        call = building.take_call(name) if name else next(reversed(calls), None)
        if call:
            building.set_reply(call, words(result.get("content")))


def _atif_turn(building: Building, step: Object) -> list[LoggedCall]:
    turn = building.turn()
    turn.text = words(step.get("message"))
    turn.model = text_at(step, "model_name")
    turn.at = when(step.get("timestamp"))
    turn.usage = usage_in(
        step.get("metrics"),
        "prompt_tokens",
        "completion_tokens",
        "reasoning_tokens",
        "cached_tokens",
    )
    for item in objects(step.get("tool_calls")):
        check_keys(building, item, "atif.call")
        building.called(turn, _call(item))
    return turn.calls


def _call(item: Object) -> LoggedCall:
    """Return a call, by our own name where Harbor calls bash otherwise."""
    typed = text_at(item, "arguments", "keystrokes")
    if text_at(item, "function_name") == "bash_command":
        # Terminus types, and what ends with a new line is a command
        if typed.endswith("\n") and typed.strip():
            command = {"command": typed.strip("\n")}
            item = {**item, "function_name": BASH, "arguments": command}
        elif text_at(item, "arguments", "command"):
            item = {**item, "function_name": BASH}
    return LoggedCall(
        call_at(
            item,
            "tool_call_id",
            "function_name",
            "arguments",
        )
    )


_MOST = 20_000
# Where the messages stand; `history` and `trajectory` tell of one session, the first with ids.
_WAYS = ("messages", "", "history", "trajectory")
_OPENS = re.compile(r"```(\w*)\s*$")
# Of commands: the first that is there counts
_TAGS = ("mswea_bash_command", "bash", "sh", "shell")
_CODE = re.compile(r"<returncode>\s*(-?\d{1,9})\s*</returncode>")
# Of messages without one, as mini-swe-agent keeps what the Responses API says.
_ROLES = {"response": "assistant", "function_call_output": "tool"}
_BLOCKED = re.compile(r"Operation '.*' is not supported|is blocked|not allowed", re.DOTALL)
_BAD_FORMAT = re.compile(
    r"Your (?:last )?output was not formatted correctly|EXACTLY ONE|exactly one|FormatError"
    r"|function call is missing|Expected exactly",
)


def read_swe(path: Path) -> Found:
    """Read a trajectory: its `messages` or list of mini-swe-agent, else its `history`.

    Old trajectories of SWE-agent have `trajectory` alone, a step each.
    """
    top = session_of(path, agent="mini-swe-agent")
    session = top.session
    ways: dict[str, Building] = {}

    def take(key: str, value: Any) -> Found:
        if key not in _WAYS:
            _begin(session, key, value)
            check_keys(top, {key: None}, "swe-agent.top")
            yield from take_faults(top, path, "the file")
            return
        building = ways.setdefault(key, session_of(path))
        if isinstance(value, dict) and len(building.session.turns) < _MOST:
            add = _step if key == "trajectory" else _message
            add(building, value)
            yield from take_faults(building, path, f"a part of {key or 'the list'}")

    yield from read_members(
        path,
        take,
        "messages",
        "history",
        "trajectory",
    )
    if ways:
        if "history" in ways or "trajectory" in ways:
            session.agent = "swe-agent"
        chosen = min(ways, key=_WAYS.index)
        session.turns = ways[chosen].session.turns
        # A trajectory is written when all is over: no call still waits.
        for call in session.calls:
            if call.recorded is Recorded.PENDING:
                call.recorded = Recorded.UNKNOWN
        yield session


def _begin(
    session: Session,
    key: str,
    value: object,
) -> None:
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
        check_keys(building, message, "swe-agent.role")
    check_keys(building, message, "swe-agent.message")
    # What somebody else did once is only shown to the model.
    if message.get("is_demo") is True:
        return
    if role == "assistant":
        _reply(building, message)
    elif role in {"user", "tool"}:
        _observation(building, message)


def _reply(building: Building, message: Object) -> None:
    turn = building.turn()
    _set_figures(turn, message)
    turn.text = words(message.get("content")) or _response_text(message)
    check_keys(building, message, "swe-agent.calls")
    for item in objects(message.get("tool_calls")):
        named = {**object_at(item, "function"), "id": item.get("id")}
        call = call_at(
            named,
            "id",
            "name",
            "arguments",
            missing="",
        )
        building.called(turn, LoggedCall(call, Recorded.PENDING))
    if not turn.calls:
        for command in _commands(message, turn.text):
            call = bash_call(command.strip("\n"))
            building.called(turn, LoggedCall(call, Recorded.PENDING))


def _set_figures(turn: LoggedTurn, message: Object) -> None:
    """Set the server's figures of a turn, which stand next to its reply."""
    turn.at = when(message.get("timestamp")) or when(at(message, "extra", "timestamp"))
    response = message if "output" in message else at(message, "extra", "response")
    turn.model = text_at(response, "model")
    tokens = at(response, "usage")
    turn.usage = Usage(
        count_at(tokens, "prompt_tokens") or count_at(tokens, "input_tokens"),
        count_at(tokens, "completion_tokens") or count_at(tokens, "output_tokens"),
    )


def _response_text(response: Object) -> str:
    """Return the text of a reply of the Responses API."""
    parts = (words(item.get("content")) for item in objects(response.get("output")))
    return "\n".join(filter(None, parts))


def _commands(message: Object, text: str) -> list[str]:
    """Return the commands of a reply without tool calls: as the log has them, else as written."""
    actions = objects(at(message, "extra", "actions"))
    understood = [*filter(None, (text_at(action, "command") for action in actions))]
    if understood:
        return understood
    action = text_at(message, "action")
    if action:
        return [action]
    fences = _fenced(text)
    tagged = (fences[tag] for tag in (*_TAGS, "") if tag in fences)
    commands = next(tagged, [])
    # With two it asked for none
    return commands if len(commands) == 1 else []


def _fenced(text: str) -> dict[str, list[str]]:
    """Return the texts between fences, by the tag of the first: replies quote other code, too.

    A fence with a command's tag opens one in a block of other code as well, as for mini-swe-agent.
    """
    texts: dict[str, list[str]] = {}
    tag = None
    body = list[str]()
    for line in text.split("\n"):
        opens = _OPENS.search(line)
        if opens and (tag is None or (tag not in _TAGS and opens[1] in _TAGS)):
            tag = opens[1]
            body = []
        elif tag is not None and line.startswith("```"):
            texts.setdefault(tag, []).append("\n".join(body))
            tag = None
        else:
            body.append(line)
    return texts


def _observation(building: Building, message: Object) -> None:
    output = words(message.get("content")) or text_at(message, "output")
    is_format_error = text_at(message, "extra", "interrupt_type") == "FormatError"
    is_bad = is_format_error or _BAD_FORMAT.search(output) is not None
    call = building.take_call(_call_id(message)) or building.waiting()
    if call is not None:
        building.set_reply(call, output)
        _record(call, message, output, is_bad=is_bad)
        return
    # The reply before it has no call that could be read.
    turns = building.session.turns
    has_reply = bool(turns) and not turns[-1].calls
    if is_format_error or (is_bad and has_reply):
        if not has_reply:
            _set_figures(building.turn(), message)
        unread = _unread(message) or turns[-1].text
        call = LoggedCall(
            called(
                "",
                "bash",
                unread,
            ),
            Recorded.MALFORMED,
        )
        turns[-1].calls.append(call)
        building.set_reply(call, output)


def _call_id(message: Object) -> str:
    names = message.get("tool_call_ids")
    if isinstance(names, list) and names:
        return str(names[0])
    return name_at(message, "tool_call_id") or name_at(message, "call_id")


def _record(
    call: LoggedCall,
    message: Object,
    output: str,
    *,
    is_bad: bool,
) -> None:
    code = _CODE.search(output)
    stated = code_at(message, "extra", "returncode")
    call.exit_code = int(code[1]) if code and stated is None else stated
    call.recorded = Recorded.MALFORMED if is_bad else Recorded.UNKNOWN
    if call.exit_code is not None:
        call.recorded = Recorded.RAN
    if _BLOCKED.match(output):
        call.recorded = Recorded.DENIED


def _unread(message: Object) -> str:
    """Return the reply that an error of its form is about; newer versions keep it there alone."""
    response = at(message, "extra", "response")
    choices = objects(at(response, "choices"))
    reply = at(choices[0], "message") if choices else None
    functions = [at(item, "function") for item in objects(at(reply, "tool_calls"))]
    items = objects(at(response, "output"))
    functions += [item for item in items if item.get("type") == "function_call"]
    return (
        "\n".join(text_at(function, "arguments") for function in functions)
        or words(at(reply, "content"))
        or text_at(message, "extra", "model_response")
        or text_at(message, "extra", "response")
    )


def _step(building: Building, step: Object) -> None:
    """Take a step of an old trajectory, which has one command, as text."""
    action = text_at(step, "action").strip("\n")
    turn = building.turn()
    turn.text = text_at(step, "response")
    if not action.strip():
        return
    call = LoggedCall(bash_call(action), said=words(step.get("observation")))
    if _BLOCKED.match(call.said):
        call.recorded = Recorded.DENIED
    seconds = step.get("execution_time")
    if isinstance(seconds, float) and 0 <= seconds < 1e9:
        call.seconds = seconds
    building.called(turn, call)
