"""Codex's rollouts: a JSONL file a session. The text of a call's result shows what became of it.

`exec --json` leaves refused and malformed calls out: the rollout has them.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field, replace
from itertools import pairwise
from operator import add
from pathlib import Path
from typing import Any

from agenteval.logs.json import (
    Found,
    Object,
    at,
    check_keys,
    code_at,
    full_part,
    name_at,
    outcome_in,
    read_lines,
    session_of,
    text_at,
    usage_in,
    when,
    words,
)
from agenteval.logs.tool_calls import bash_call, called
from agenteval.trial.session import Building, LoggedCall, LoggedTurn, Recorded, Session, Skipped
from agenteval.trial.trial import Usage

_EXIT = re.compile(r"(?:Process exited with code|Exit code:?|exited with code) (-?\d{1,9})")
_CALLS = {"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"}
_RESULTS = {"function_call_output", "custom_tool_call_output", "tool_search_output"}
_ENVELOPES = {"session_meta", "turn_context", "response_item"}
# In JavaScript that a model wrote
_ASKS = re.compile(r"\btools\.exec_command\(\s*\{")
_TOKEN = re.compile(r"""\s+|(["'`])(?:(?!\1)[^\\]|\\.)*\1|[\w$]+|\S""", re.DOTALL)
_HEX = r"u(?i:([\da-f]{4})|\{0*([\da-f]{1,5}|10[\da-f]{4})\})|x(?i:([\da-f]{2}))"
_ESCAPE = re.compile(rf"\\(?:{_HEX}|(\r?\n|.))", re.DOTALL)
_NAMED = dict(
    zip(
        "ntrbfv0",
        "\n\t\r\b\f\v\0",
        strict=True,
    )
) | {"\n": "", "\r\n": ""}
_HEAD = re.compile(r"Script (\w+)[^\n]*\nWall time[^\n]*\nOutput:\s*(?:Script error:\s*)?")
_CODE = re.compile(r'"exit_code":\s*(-?\d{1,9})')
# Characters of a result in which its outcome stands
_FIRST = 600


def read(path: Path) -> Found:
    reading = _Reading(session_of(path))
    yield from read_lines(
        path,
        reading.take,
        reading.building,
    )
    session = reading.building.session
    if session.turns or session.part or session.version or reading.model:
        yield session
    else:
        yield Skipped(str(path), "the file", "no session of Codex's in it")


def _begin(session: Session, meta: Object) -> None:
    """Take the session's own facts from the first such line."""
    # A forked session has those of its parents behind it
    if session.version:
        return
    session.id = name_at(meta, "id") or session.id
    session.version = text_at(meta, "cli_version") or "unknown"
    session.project = text_at(meta, "cwd") or session.project
    spawned = at(meta, "source", "subagent")
    if isinstance(spawned, str | dict):
        session.agent = spawned if isinstance(spawned, str) else "sub-agent"
        session.parent = name_at(spawned, "thread_spawn", "parent_thread_id")


@dataclass(slots=True)
class _Reading:
    """One rollout. Calls are added to the last turn until one of its own has a result."""

    building: Building
    model: str = ""
    last: LoggedTurn | None = None
    # The calls of the last turn
    _own: set[int] = field(default_factory=set)
    # Calls that one script makes, by id
    _together: dict[str, int] = field(default_factory=dict)
    # Tokens of the session so far, as they are told
    _total: object = None

    def take(self, value: Object) -> Iterator[Session]:
        kind = text_at(value, "type")
        if kind in _ENVELOPES:
            check_keys(self.building, value, "codex.envelope")
        elif "payload" in value:
            check_keys(self.building, value, "codex.any")
        payload = value.get("payload")
        # Older rollouts have no envelope.
        if not isinstance(payload, dict):
            payload = value
            kind = "response_item"
        if kind == "session_meta":
            _begin(self.building.session, payload)
        elif kind == "turn_context":
            self._context(payload)
        elif kind == "event_msg":
            self._add_tokens(payload)
        elif kind == "response_item":
            for part in full_part(self.building):
                yield part
                self.last = None
            self._item(payload, when(value.get("timestamp")))

    def _context(self, item: Object) -> None:
        session = self.building.session
        self.model = text_at(item, "model") or self.model
        session.project = session.project or text_at(item, "cwd")
        session.mode = text_at(item, "approval_policy") or session.mode

    def _add_tokens(self, event: Object) -> None:
        """Add the tokens of a reply, reported behind it; some are repeated, with the same total."""
        total = at(event, "info", "total_token_usage")
        last = at(event, "info", "last_token_usage")
        turns = self.building.session.turns
        if not last or not turns or (total and total == self._total):
            return
        self._total = total
        usage = usage_in(
            last,
            "input_tokens",
            "output_tokens",
            "reasoning_output_tokens",
            "cached_input_tokens",
        )
        sums = map(
            add,
            astuple(turns[-1].usage),
            astuple(usage),
        )
        turns[-1].usage = Usage(*sums)

    def _item(
        self,
        item: Object,
        moment: float | None,
    ) -> None:
        kind = text_at(item, "type")
        if "call_id" in item or "role" in item:
            check_keys(self.building, item, "codex.any")
        if kind == "message" and item.get("role") == "assistant":
            self._begin_turn(moment).text = words(item.get("content"))
        elif kind in _CALLS:
            check_keys(self.building, item, f"codex.{kind}")
            self._call(
                self.last or self._begin_turn(moment),
                item,
                kind,
                moment,
            )
        elif kind in _RESULTS:
            check_keys(self.building, item, f"codex.{kind}")
            self._results(item)

    def _results(self, item: Object) -> None:
        identifier = name_at(item, "call_id")
        number = self._together.pop(identifier, 1)
        for _ in range(number):
            call = self.building.take_call(identifier)
            if call is None:
                continue
            _result(
                self.building,
                call,
                item,
                is_alone=number == 1,
            )
            if id(call) in self._own:
                self.last = None

    def _begin_turn(self, moment: float | None) -> LoggedTurn:
        turn = self.last = self.building.turn()
        self._own.clear()
        turn.at = moment
        turn.model = self.model
        return turn

    def _call(
        self,
        turn: LoggedTurn,
        item: Object,
        kind: str,
        moment: float | None,
    ) -> None:
        turn.at = moment
        turn.model = self.model
        keys = ("arguments", "input", "action")
        values = (item[key] for key in keys if item.get(key) is not None)
        arguments: Any = next(values, {})
        name = text_at(item, "name") or kind
        identifier = name_at(item, "call_id") or name_at(item, "id")
        call = called(identifier, name, arguments)
        is_text = isinstance(arguments, str)
        # The input of such a tool is a text, and no JSON.
        if kind == "custom_tool_call" and is_text and call.malformed:
            call = replace(
                call,
                arguments={"input": arguments},
                malformed="",
            )
        calls = [call]
        commands = _script_commands(arguments) if name == "exec" and is_text else []
        if commands:
            bash_calls = [bash_call(text, identifier) for text in commands if text is not None]
            # A command that the script computes stands in the script alone
            calls = bash_calls + calls if None in commands else bash_calls
            self._together[identifier] = len(calls)
        for call in calls:
            logged = LoggedCall(call, Recorded.PENDING)
            self._own.add(id(logged))
            self.building.called(turn, logged)


def _result(
    building: Building,
    call: LoggedCall,
    item: Object,
    *,
    is_alone: bool,
) -> None:
    """Record a result.

    If one script made several calls, each has its result, and none an exit code.
    """
    output = _unwrapped(item.get("output"))
    if isinstance(output, dict):
        check_keys(building, output, "codex.output")
    text = words(output if isinstance(output, str | list) else [output])
    building.set_reply(call, text or text_at(output, "content"))
    _record(call, output, is_alone=is_alone)


def _unwrapped(output: object) -> object:
    """Return the output with its exit code, which older versions wrote as the text of an object."""
    if isinstance(output, str) and output.startswith('{"') and '"metadata"' in output:
        try:
            value = json.loads(output)
        except (ValueError, RecursionError):
            return output
        if isinstance(value, dict) and isinstance(value.get("output"), str):
            return {**value, "content": value["output"]}
    return output


def _record(
    call: LoggedCall,
    output: object,
    *,
    is_alone: bool,
) -> None:
    head = _HEAD.match(call.said)
    code = code_at(output, "metadata", "exit_code")
    start = call.said[head.end() if head else 0 :][:_FIRST]
    match = _EXIT.search(start) or (_CODE.search(start) if head else None)
    if is_alone:
        call.exit_code = int(match[1]) if code is None and match else code
    if call.exit_code is not None:
        call.recorded = Recorded.RAN
        return
    call.recorded = outcome_in(start.lstrip(), "codex") or Recorded.RAN
    has_failed = at(output, "success") is False or (head and head[1] == "failed")
    if call.recorded is Recorded.RAN and has_failed:
        call.recorded = Recorded.TOOL_ERROR


def _script_commands(script: str) -> list[str | None]:
    """Return the commands that a script hands to the shell; None for one that it computes."""
    begins = [asks.end() for asks in _ASKS.finditer(script)]
    return [_command(script, *place) for place in pairwise([*begins, len(script)])]


def _command(
    script: str,
    begin: int,
    end: int,
) -> str | None:
    """Return the text of `cmd` in the object that begins there, which has no other in it."""
    tokens = [","]
    for token in _TOKEN.finditer(
        script,
        begin,
        end,
    ):
        if not token[0].isspace():
            tokens.append(token[0])
        # Its end, or a literal without one
        if token[0] in {
            "}",
            '"',
            "'",
            "`",
        }:
            break
    for place in range(len(tokens) - 4):
        before, key, colon, text, after = tokens[place : place + 5]
        if (before, key.strip("\"'"), colon) == (",", "cmd", ":"):
            return _text(text) if after in {",", "}"} else None
    return None


def _text(literal: str) -> str | None:
    """Return the value of a literal; None for one with something put into it, or for none."""
    if literal[0] not in "\"'`" or (literal[0] == "`" and "${" in literal):
        return None
    # A character beyond 16 bits may be written as two halves
    halves = _ESCAPE.sub(_unescape, literal[1:-1]).encode("utf-16", "surrogatepass")
    return halves.decode("utf-16", "replace")


def _unescape(escape: re.Match[str]) -> str:
    number = escape[1] or escape[2] or escape[3]
    if number:
        return chr(int(number, 16))
    return _NAMED.get(escape[4], escape[4])
