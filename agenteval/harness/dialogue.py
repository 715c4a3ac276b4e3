"""The conversation of a program with its model: its requests, and its reports on them. Pure.

A reply counts once the program's next request shows that it was accepted: a request that is sent
again is a second reply, and no second call.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from agenteval.harness.wires import Json, text_in, with_role
from agenteval.trial.trial import Turn

# The finish reason of a turn in whose place the server sent an error.
_UNREAD = "error"


class Did(StrEnum):
    """The fate of a call in a harness."""

    RAN = "ran"
    DENIED = "denied"
    # It could not take the call: no such tool, arguments that do not fit.
    REFUSED = "refused"


class CallEvent(NamedTuple):
    """A program's report on a call. `code` is its exit code; None if a limit ended it."""

    id: str
    did: Did
    code: int | None = 0


@dataclass(slots=True)
class PendingCall:
    """A call of a turn that was taken, and what followed. `reply` is what the model read."""

    turn: int
    position: int
    id: str
    reply: str | None = None
    event: CallEvent | None = None


@dataclass(slots=True)
class Dialogue:
    """The conversation that begins with `task`, among others: titles, summaries, sub-agents.

    `ignored` counts the last replies, one after another, that were not accepted. `unread` counts
    the turns in whose place the program was given an error.
    """

    task: str
    turns: list[Turn] = field(default_factory=list)
    pending_calls: list[PendingCall] = field(default_factory=list)
    ignored: int = 0
    unread: int = 0
    _waiting: Turn | None = None

    @property
    def waits(self) -> bool:
        """Return True if a reply has gone to the program and was not yet accepted."""
        return self._waiting is not None

    @property
    def over(self) -> bool:
        """Return True if the model's last reply makes no call."""
        if self._waiting:
            return not self._waiting.calls
        return bool(self.turns) and not self.turns[-1].calls

    def belongs(self, messages: Sequence[Json]) -> bool:
        """Return True if a request continues this conversation."""
        texts = map(text_of, with_role(messages, "user"))
        return any(self.task in text for text in texts)

    def receive(self, messages: Sequence[Json]) -> Turn | None:
        """Take a request's answers to calls; return the turn that it shows to be accepted."""
        turn = self.settle(sure=self._shows(messages))
        self._take_answers(messages)
        return turn

    def send_reply(self, turn: Turn) -> None:
        self._waiting = turn

    def failed(self, turn: Turn) -> None:
        """Accept a turn whose call the server could not read: no request will show it."""
        earlier = len(self.pending_calls)
        self._waiting = turn
        self.settle(sure=True)
        self.unread += 1
        for call in self.pending_calls[earlier:]:
            call.reply = ""
            call.event = CallEvent(call.id, Did.REFUSED)

    def settle(self, *, sure: bool) -> Turn | None:
        """Settle the last reply: return its turn if it is `sure` that the program accepted it."""
        turn = self._waiting
        self._waiting = None
        if turn is None:
            return None
        if not sure:
            self.ignored += 1
            return None
        self.ignored = 0
        number = len(self.turns)
        self.turns.append(turn)
        for at, call in enumerate(turn.calls):
            pending = PendingCall(number, at, call.id)
            self.pending_calls.append(pending)
        return turn

    def record_event(self, event: CallEvent) -> None:
        """Attach a program's report to its call, before or after the call's answer."""
        for call in reversed(self.pending_calls):
            if call.id == event.id and call.event is None:
                call.event = event
                return

    def _shows(self, messages: Sequence[Json]) -> bool:
        if self._waiting is None:
            return False
        ids = {call.id for call in self._waiting.calls}
        if ids:
            return not ids.isdisjoint(_ids(messages))
        replies = with_role(messages, "assistant")
        return len(replies) > len(self.turns) - self.unread

    def _take_answers(self, messages: Sequence[Json]) -> None:
        """Attach the answers at the end to the calls of the last turn: ids may come round again."""
        last = len(self.turns) - 1
        by_id = {}
        for call in self.pending_calls:
            if call.turn == last and call.reply is None:
                by_id[call.id] = call
        for message in reversed(messages):
            if message.get("role") == "assistant":
                return
            ident = str(message.get("tool_call_id", ""))
            answered = by_id.pop(ident, None)
            if answered is not None:
                answered.reply = text_of(message)


def is_unread(turn: Turn) -> bool:
    """Return True if the server answered with an error, as it could not read the model's call."""
    return turn.finish_reason == _UNREAD


def _ids(messages: Sequence[Json]) -> set[str]:
    ids = set()
    for message in messages:
        calls = message.get("tool_calls") or ()
        ids.add(str(message.get("tool_call_id")))
        ids.update(str(call.get("id")) for call in calls)
    return ids


def text_of(message: Json) -> str:
    return text_in(message.get("content"))


_CODE = re.compile(r"(?:exited with code|Exit code|Exit Code:|<returncode>)\s*(\d+)")


@dataclass(frozen=True, slots=True)
class Wording:
    """The wording of a harness's denials and refusals, as regular expressions."""

    denied: str = "(?!)"
    refused: str = "(?!)"

    def did(self, text: str) -> Did:
        """Return what became of a call, by a text of the harness."""
        if re.search(self.refused, text):
            return Did.REFUSED
        if re.search(self.denied, text):
            return Did.DENIED
        return Did.RAN

    def read(self, ident: str, reply: str) -> CallEvent:
        """Return the report on a call, by the reply that the model read."""
        match = _CODE.search(reply[:200])
        code = int(match[1]) if match else 0
        return CallEvent(ident, self.did(reply), code)


# The forms of the lines in which programs report on calls. A line of another form than known
# raises one of the errors that `events_in` takes for that.


def _opencode(line: Json, wording: Wording) -> Iterator[CallEvent]:
    if line.get("type") != "tool_use":
        return
    part = line["part"]
    state = part.get("state") or {}
    did = Did.RAN
    if part.get("tool") == "invalid":
        did = Did.REFUSED
    elif state.get("status") == "error":
        did = wording.did(str(state.get("error", "")))
    metadata = state.get("metadata") or {}
    code = _exit_code(metadata.get("exit", 0))
    yield CallEvent(str(part["callID"]), did, code)


def _claude(line: Json, wording: Wording) -> Iterator[CallEvent]:
    """Yield what a user's turn reports; Qwen Code prints its turns in the same form."""
    for block in line["message"]["content"]:
        # A newer program may put blocks of other forms next to the results.
        if not isinstance(block, Mapping) or block.get("type") != "tool_result":
            continue
        did = Did.RAN
        is_error = bool(block.get("is_error"))
        if is_error:
            content = json.dumps(block.get("content"))
            did = wording.did(content)
        yield CallEvent(str(block.get("tool_use_id", "")), did, int(is_error))


def _codex(line: Json, _: Wording) -> Iterator[CallEvent]:
    """Yield the report in a line of Codex's app server on an item that is a call."""
    if line.get("method") != "item/completed":
        return
    item = line["params"]["item"]
    if item.get("type") in {"commandExecution", "fileChange"}:
        did = Did.DENIED if item.get("status") == "declined" else Did.RAN
        code = _exit_code(item.get("exitCode", 0))
        yield CallEvent(str(item.get("id", "")), did, code)


def _exit_code(code: object) -> int | None:
    """Return the exit code; 0 for what is none that a store can keep."""
    if code is None:
        return None
    if type(code) is int and abs(code) < 1 << 31:
        return code
    return 0


_READERS = {
    "opencode": _opencode,
    "claude": _claude,
    "codex": _codex,
}


def events_in(line: str, form: str, wording: Wording) -> list[CallEvent]:
    """Return the reports on calls in a line that a program printed in this form; "" for none."""
    if not form or not line.startswith("{"):
        return []
    read = _READERS[form]
    try:
        return [*read(json.loads(line), wording)]
    except (LookupError, ValueError, RecursionError, AttributeError, TypeError):
        return []
