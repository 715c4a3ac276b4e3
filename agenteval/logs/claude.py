"""Claude Code's sessions: a JSONL file each, with those of sub-agents in a folder next to it.

One message of the API stands in several lines that share `message.id`, and lines are written again
when a session is resumed: their `uuid` distinguishes them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agenteval.logs.json import (
    Found,
    Object,
    at,
    check_keys,
    count_at,
    full_part,
    name_at,
    objects,
    outcome_in,
    read_lines,
    text_at,
    usage_in,
    when,
    words,
)
from agenteval.logs.packed import by_place, small
from agenteval.logs.tool_calls import called
from agenteval.trial.session import Building, LoggedCall, LoggedTurn, Recorded, Session
from agenteval.trial.trial import Usage

_EXIT = re.compile(r"(?:Error: )?Exit code (-?\d+)")
_KINDS = {"assistant", "user", "tool_use", "tool_result"}
_SYNTHETIC = "<synthetic>"


def read(path: Path) -> Found:
    reading = _Reading(path)
    yield from read_lines(
        path,
        reading.take,
        reading.faulty,
    )
    for building in reading.sessions.values():
        yield building.session


@dataclass(slots=True)
class _Reading:
    """One file: its own session, and those of sub-agents that older versions wrote into it."""

    path: Path
    sessions: dict[str, Building] = field(default_factory=dict)
    # Has the faults of all sessions
    faulty: Building = field(default_factory=lambda: Building(Session("")))
    _line_ids: set[int] = field(default_factory=set)
    # The session of the line before
    _named: str = ""

    def take(self, line: Object) -> Iterator[Session]:
        kind = text_at(line, "type")
        check_keys(self.faulty, line, "claude-code.any")
        if kind not in _KINDS or self._is_repeated(line):
            return
        building = self._building(line)
        check_keys(building, line, "claude-code.line")
        if kind == "assistant":
            yield from full_part(building)
            _assistant(building, line)
        elif kind == "tool_use":
            _tool_use(building, line)
        elif kind == "tool_result":
            _record(
                building,
                building.waiting(),
                line,
                line,
                line.get("output"),
            )
        else:
            _results(building, line)

    def _is_repeated(self, line: Object) -> bool:
        identifier = line.get("uuid")
        # A number may be another line's in another session
        if not isinstance(identifier, str):
            return False
        is_known = hash(identifier) in self._line_ids
        self._line_ids.add(hash(identifier))
        return is_known

    def _building(self, line: Object) -> Building:
        """Return the session of a line, which is that of the line before if it names none."""
        named = name_at(line, "sessionId") or name_at(line, "session_id")
        session = self._named = named or self._named or by_place(self.path)
        agent = name_at(line, "agentId") or ("sidechain" if line.get("isSidechain") is True else "")
        name = f"{session}/{agent}" if agent else session
        if name not in self.sessions:
            begun = Session(
                name,
                agent="main",
                path=str(self.path),
            )
            if agent:
                begun.agent = self._agent(line)
                begun.parent = self._parent(session)
            self.sessions[name] = Building(begun, self.faulty.faults)
        building = self.sessions[name]
        begun = building.session
        begun.project = begun.project or text_at(line, "cwd")
        begun.version = text_at(line, "version") or begun.version
        return building

    def _parent(self, session: str) -> str:
        folder = self.path.parent
        return folder.parent.name if folder.name == "subagents" else session

    def _agent(self, line: Object) -> str:
        """Return the kind of sub-agent, from the line or from a file next to the log."""
        kind = text_at(line, "attributionAgent")
        if kind:
            return kind
        try:
            details = small(self.path.with_suffix(".meta.json"))
        except (OSError, ValueError):
            details = None
        return text_at(details, "agentType") or "sub-agent"


def _assistant(building: Building, line: Object) -> None:
    """Take a piece of a reply: its lines share the id of the message."""
    check_keys(building, line, "claude-code.envelope")
    message = line.get("message")
    model = text_at(message, "model")
    # The program's own words, such as those on an error of the API
    if model == _SYNTHETIC:
        return
    turn = building.turn(name_at(message, "id"))
    turn.model = model or turn.model
    turn.at = when(line.get("timestamp")) or turn.at
    turn.finish = text_at(message, "stop_reason") or turn.finish
    if at(message, "usage"):
        turn.usage = _usage(at(message, "usage"))
    content = _content(building, message)
    turn.says(words(content))
    for block in objects(content):
        if block.get("type") == "tool_use":
            check_keys(building, block, "claude-code.call")
            _call(
                building,
                turn,
                block,
                name_at(block, "id"),
            )


def _call(
    building: Building,
    turn: LoggedTurn,
    block: Object,
    identifier: str,
) -> None:
    call = called(
        identifier,
        text_at(block, "name"),
        block.get("input"),
    )
    building.called(turn, LoggedCall(call, Recorded.PENDING))


def _content(building: Building, message: object) -> Any:
    """Return the content of a message: a text, or blocks that state their type."""
    if not isinstance(message, dict):
        return None
    check_keys(building, message, "claude-code.message")
    return message.get("content")


def _usage(tokens: object) -> Usage:
    """Return the tokens of a reply, whose prompt is reported in three parts."""
    usage = usage_in(
        tokens,
        "input_tokens",
        "output_tokens",
        cached="cache_read_input_tokens",
    )
    created = count_at(tokens, "cache_creation_input_tokens")
    prompt = usage.prompt_tokens + created + usage.cached_tokens
    return replace(usage, prompt_tokens=prompt)


def _tool_use(building: Building, line: Object) -> None:
    """Add a call in a line of its own, as some versions wrote it."""
    check_keys(building, line, "claude-code.call-line")
    if "name" in line:
        turn = building.turn()
        turn.at = when(line.get("timestamp"))
        identifier = name_at(line, "id") or name_at(line, "uuid")
        _call(building, turn, line, identifier)


def _results(building: Building, line: Object) -> None:
    check_keys(building, line, "claude-code.envelope")
    for block in objects(_content(building, line.get("message"))):
        if block.get("type") == "tool_result":
            check_keys(building, block, "claude-code.result")
            call = building.take_call(name_at(block, "tool_use_id"))
            _record(
                building,
                call,
                line,
                block,
                block.get("content"),
            )


def _record(
    building: Building, call: LoggedCall | None, line: Object, result: Object, content: object
) -> None:
    """Record the result of a call; `result` is its block in the line, or the line itself."""
    if call is None:
        return
    output = words(content)
    building.set_reply(call, output)
    if result.get("is_error") is not True:
        call.recorded = Recorded.RAN
        call.exit_code = 0 if call.call.command is not None else None
        return
    stated = _not_executed(line, call.call.id)
    call.recorded = stated or outcome_in(output, "claude-code") or Recorded.TOOL_ERROR
    match = _EXIT.match(output)
    if match and call.recorded is Recorded.TOOL_ERROR:
        call.exit_code = int(match[1][:9])


def _not_executed(line: Object, identifier: str) -> Recorded | None:
    """Return why a call was not carried out, if the line itself says so, as newer versions do."""
    stated = text_at(line, "toolDenialKind")
    metas = line.get("tool_result_meta")
    for meta in objects(metas if isinstance(metas, list) else [metas]):
        if name_at(meta, "tool_use_id") in {"", identifier}:
            stated = text_at(meta, "non_execution_kind") or stated
    if not stated:
        return None
    return outcome_in(stated.lower(), "claude-code-kinds") or Recorded.DENIED
