"""Claude Code's sessions: a JSONL file each, with those of sub-agents in a folder next to it.

One message of the API stands in several lines that share `message.id`, and lines are written again
when a session is resumed: their `uuid` distinguishes them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agenteval.logs.json import (
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
from agenteval.logs.packed import by_place, small
from agenteval.logs.tool_calls import called
from agenteval.trial.session import Building, LoggedCall, Recorded, Session, Skipped
from agenteval.trial.trial import Usage

# What the program says to a call that it did not carry out, the first that fits.
_SAID = (
    (Recorded.CASCADE, r"<tool_use_error>(?:Sibling tool call errored|Cancelled: parallel)"),
    (Recorded.INVALID_TOOL, r"<tool_use_error>Error: No such tool available"),
    (Recorded.MALFORMED, r"(?:<tool_use_error>)?InputValidationError"),
    (Recorded.TOOL_ERROR, r"<tool_use_error>"),
    (Recorded.REJECTED, r"The user doesn't want to (?:proceed|take this action)"),
    (Recorded.REJECTED, r"(?:\[)?Request interrupted by user"),
    (
        Recorded.DENIED,
        r"Permission (?:to use|for this action)[\s\S]{0,4000}has been (?:auto-)?denied",
    ),
    (Recorded.DENIED, r"Claude requested permissions? to[\s\S]{0,4000}haven't granted it yet"),
    (
        Recorded.DENIED,
        r"This (?:Bash )?command (?:contains|requires)[\s\S]*(?:approval|permission)",
    ),
    (Recorded.DENIED, r"[\s\S]{0,4000}was blocked\. For security"),
    (Recorded.DENIED, r"(?:Pre[Tt]ool[Uu]se:\w+ hook|Hook PreToolUse:?\w* (?:denied|blocked))"),
)
_EXPRESSIONS = tuple((recorded, re.compile(text)) for recorded, text in _SAID)
_EXIT = re.compile(r"(?:Error: )?Exit code (-?\d+)")
_SYNTHETIC = "<synthetic>"


def read(path: Path) -> Iterator[Session | Skipped]:
    reading = _Reading(path)
    for line in lines(path):
        if isinstance(line, Skipped):
            yield line
        else:
            yield from reading.take(line.value)
            if reading.last.faults:
                yield from take_faults(reading.last, path, f"line {line.number}")
    yield from (one.session for one in reading.sessions.values())


@dataclass(slots=True)
class _Reading:
    """One file: its own session, and those of sub-agents that older versions wrote into it."""

    path: Path
    sessions: dict[str, Building] = field(default_factory=dict)
    # That took a line
    last: Building = field(default_factory=lambda: Building(Session("")))
    _line_ids: set[int] = field(default_factory=set)
    # The session of the line before
    _named: str = ""

    def take(self, line: Mapping[str, Any]) -> Iterator[Session]:
        kind = text_at(line, "type")
        self.last.needs(line, "type")
        if kind not in {"assistant", "user", "tool_use", "tool_result"} or self._again(line):
            return
        building = self.last = self._building(line)
        building.may_have(line, "uuid", "timestamp")
        if kind == "assistant":
            whole = building.whole()
            if whole is not None:
                yield whole
            _assistant(building, line)
        elif kind == "tool_use":
            _tool_use(building, line, line)
        else:
            _results(building, line)

    def _again(self, line: Mapping[str, Any]) -> bool:
        identifier = line.get("uuid")
        # A number may be another line's in another session
        if not isinstance(identifier, str):
            return False
        known = hash(identifier) in self._line_ids
        self._line_ids.add(hash(identifier))
        return known

    def _building(self, line: Mapping[str, Any]) -> Building:
        named = name_at(line, "sessionId") or name_at(line, "session_id")
        session = self._named = named or self._named or by_place(self.path)
        agent = name_at(line, "agentId") or ("sidechain" if line.get("isSidechain") is True else "")
        name = f"{session}/{agent}" if agent else session
        if name not in self.sessions:
            self.sessions[name] = Building(self._begun(line, name, session if agent else ""))
        found = self.sessions[name].session
        found.project = found.project or text_at(line, "cwd")
        found.version = text_at(line, "version") or found.version
        return self.sessions[name]

    def _begun(self, line: Mapping[str, Any], name: str, above: str) -> Session:
        return Session(
            id=name,
            agent=self._agent(line) if above else "main",
            parent=self._parent(above) if above else "",
            path=str(self.path),
        )

    def _parent(self, session: str) -> str:
        folder = self.path.parent
        return folder.parent.name if folder.name == "subagents" else session

    def _agent(self, line: Mapping[str, Any]) -> str:
        """Return the kind of sub-agent, from the line or from a file next to the log."""
        told = text_at(line, "attributionAgent")
        if told:
            return told
        try:
            beside = small(self.path.with_suffix(".meta.json"))
        except (OSError, ValueError):
            beside = None
        return text_at(beside, "agentType") or "sub-agent"


def _assistant(building: Building, line: Mapping[str, Any]) -> None:
    building.needs(line, "message")
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
        turn.usage = _usage(message)
    content = _content(building, message)
    turn.says(words(content))
    for block in objects(content):
        if block.get("type") == "tool_use":
            building.needs(block, "name", "input")
            building.may_have(block, "id")
            call = called(name_at(block, "id"), text_at(block, "name"), block.get("input"))
            building.called(turn, LoggedCall(call, Recorded.PENDING))


def _content(building: Building, message: object) -> Any:
    """Return the content of a message: a text, or blocks that state their type."""
    if not isinstance(message, dict):
        return None
    building.needs(message, "content")
    content = message.get("content")
    for block in objects(content):
        building.needs(block, "type")
    return content


def _usage(message: object) -> Usage:
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return Usage(
        prompt_tokens=sum(count_at(message, "usage", name) for name in names),
        completion_tokens=count_at(message, "usage", "output_tokens"),
        cached_tokens=count_at(message, "usage", "cache_read_input_tokens"),
    )


def _tool_use(building: Building, line: Mapping[str, Any], block: Mapping[str, Any]) -> None:
    """A call in a line of its own, as some versions wrote it."""
    building.needs(block, "name", "input")
    if "name" not in block:
        return
    turn = building.turn()
    turn.at = when(line.get("timestamp"))
    name = name_at(block, "id") or name_at(line, "uuid")
    call = called(name, text_at(block, "name"), block.get("input"))
    building.called(turn, LoggedCall(call, Recorded.PENDING))


def _results(building: Building, line: Mapping[str, Any]) -> None:
    if line.get("type") == "tool_result":
        last = building.waiting()
        if last is not None:
            output = words(line.get("output"))
            building.set_reply(last, output)
            _record(last, line, output, is_error=line.get("is_error") is True)
        return
    building.needs(line, "message")
    for block in objects(_content(building, line.get("message"))):
        if block.get("type") == "tool_result":
            building.may_have(block, "tool_use_id", "content", "is_error")
            call = building.take_call(name_at(block, "tool_use_id"))
            if call is not None:
                output = words(block.get("content"))
                building.set_reply(call, output)
                _record(call, line, output, is_error=block.get("is_error") is True)


def _record(call: LoggedCall, line: Mapping[str, Any], output: str, *, is_error: bool) -> None:
    call.recorded = Recorded.RAN
    if not is_error:
        call.exit_code = 0 if call.call.command is not None else None
        return
    call.recorded = _kept_from(line, call.call.id) or next(
        (recorded for recorded, fits in _EXPRESSIONS if fits.match(output)), Recorded.TOOL_ERROR
    )
    match = _EXIT.match(output)
    if match and call.recorded is Recorded.TOOL_ERROR:
        call.exit_code = int(match[1][:9])


def _kept_from(line: Mapping[str, Any], identifier: str) -> Recorded | None:
    """Return why a call was not carried out, if the line itself says so, as newer versions do."""
    stated = text_at(line, "toolDenialKind")
    metas = line.get("tool_result_meta")
    for meta in objects(metas if isinstance(metas, list) else [metas]):
        if name_at(meta, "tool_use_id") in {"", identifier}:
            stated = text_at(meta, "non_execution_kind") or stated
    if not stated:
        return None
    kind = stated.lower()
    if "sibling" in kind or "cascade" in kind or "cancel" in kind:
        return Recorded.CASCADE
    if "user" in kind or "interrupt" in kind or "abort" in kind:
        return Recorded.REJECTED
    is_input = "valid" in kind or "schema" in kind or "parse" in kind
    return Recorded.MALFORMED if is_input else Recorded.DENIED
