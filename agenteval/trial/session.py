"""Sessions of a log: turns of calls, each with the outcome that was recorded.

Three facts of a call are kept apart: its recorded outcome, here; the verdict of an allow list;
and its shape, the class that its command resembles. `Building` is a session while its log is
read.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from agenteval.trial.call import ToolCall
from agenteval.trial.text import Name, as_name, legible
from agenteval.trial.trial import Usage


class Recorded(StrEnum):
    """The outcome of a call, as the log states it."""

    RAN = "ran"
    TOOL_ERROR = "tool-error"  # it ran, or was to run, and failed
    DENIED = "denied"  # by a rule
    REJECTED = "rejected"  # by a person
    INVALID_TOOL = "invalid-tool"
    MALFORMED = "malformed"
    PENDING = "pending"  # without a result yet
    CASCADE = "cascade"  # not carried out, as another call of its turn failed
    UNKNOWN = "not-observable"


ERRORS = frozenset((Recorded.DENIED, Recorded.INVALID_TOOL, Recorded.MALFORMED))
# No calls of the model's that anything can be said of: counted, and in no rate.
APART = frozenset((Recorded.PENDING, Recorded.CASCADE))
CARRIED_OUT = frozenset((Recorded.RAN, Recorded.TOOL_ERROR))
NO_TOKENS = Usage()
LONGEST_NAME = 300  # characters of what names a session, a model, a program


class Fact(StrEnum):
    """A fact that some formats cannot show."""

    DENIALS = "denials"
    MALFORMED = "malformed calls"
    EXIT_CODES = "exit codes"


@dataclass(slots=True)
class LoggedCall:
    """A call of a log. `said` is the reply that the model read. None means not recorded."""

    call: ToolCall
    recorded: Recorded = Recorded.UNKNOWN
    said: str = ""
    exit_code: int | None = None
    seconds: float | None = None


MOST_TEXT = 1 << 16  # characters of one turn's text, and of what the model read of one call


@dataclass(slots=True)
class LoggedTurn:
    """One reply of the model. `at` is when it ended, in seconds since 1970."""

    calls: list[LoggedCall] = field(default_factory=list)
    text: str = ""
    model: str = ""
    at: float | None = None
    usage: Usage = NO_TOKENS
    finish: str = ""

    def says(self, text: str) -> None:
        """Append a piece of the model's text until it has `MOST_TEXT` characters."""
        if text and len(self.text) < MOST_TEXT:
            self.text = f"{self.text}\n{text}" if self.text else text


class Skipped(NamedTuple):
    """A part of a file that was not read: which, where in it, and why."""

    path: str
    at: str
    reason: str


@dataclass(slots=True)
class Session:
    """One agent's session, or one `part` of a long one, counted from 0.

    `agent` is empty where the log does not name it; `parent` is the session that asked for it.
    `rules` are those of the harness that its denials quote, in their order; `mode` is the one that
    it judged in, where the log names it.
    """

    id: str
    agent: str = ""
    model: str = ""
    version: str = ""
    project: str = ""
    parent: str = ""
    path: str = ""
    mode: str = ""
    part: int = 0
    turns: list[LoggedTurn] = field(default_factory=list)
    rules: list[Mapping[str, str]] = field(default_factory=list)

    @property
    def calls(self) -> list[LoggedCall]:
        return [call for turn in self.turns for call in turn.calls]

    @property
    def began(self) -> float | None:
        return min(self._times, default=None)

    @property
    def ended(self) -> float | None:
        return max(self._times, default=None)

    @property
    def _times(self) -> list[float]:
        return [turn.at for turn in self.turns if turn.at is not None]

    @property
    def outcomes(self) -> Counter[str]:
        return Counter(str(call.recorded) for call in self.calls)

    @property
    def size(self) -> tuple[int, int, int]:
        """Turns, calls with a result, characters: the larger of two copies is the more complete."""
        with_result = sum(call.recorded is not Recorded.PENDING for call in self.calls)
        characters = sum(len(turn.text) for turn in self.turns)
        return len(self.turns), with_result, characters

    def plain(self) -> "Session":
        """Return the session with names that can be stored and shown, whatever the log has."""
        for turn in self.turns:
            turn.model = _plain(turn.model)
        names = ("id", "agent", "model", "version", "project", "parent", "path")
        plain: dict[str, Any] = {name: _plain(getattr(self, name)) for name in names}
        return replace(self, **plain)

    def by_model(self) -> list["Session"]:
        """Return the session split by model, as a user may change the model in the middle of it.

        A turn that does not name its model is of the model that is named next to it.
        """
        names = [turn.model for turn in self.turns if turn.model]
        model = self.model or (names[0] if names else "")
        turns: dict[str, list[LoggedTurn]] = {}
        for turn in self.turns:
            model = turn.model or model
            turns.setdefault(model, []).append(turn)
        return [replace(self, model=model, turns=own) for model, own in turns.items()]


def _plain(name: str) -> Name:
    return as_name(legible(name[:LONGEST_NAME]))


def almost(key: str, name: str) -> bool:
    """Return True if they differ in exactly one letter."""
    return len(key) == len(name) and sum(map(str.__ne__, key, name)) == 1


@lru_cache(2_000)
def _misspelt(key: str, names: tuple[str, ...]) -> bool:
    """Return True if a name is almost this key. The lines of a log have few sets of names."""
    return any(almost(key, name) for name in names)


_LOOKED_AT = 100  # keys of an object, among which a misspelt one is looked for
_KEYS, _SHOWN = 8, 40  # that are told of an object; characters of each
PART = 2_000  # turns of a session that are held, and counted as one trial, at most
HELD = 1 << 25  # characters of their calls, likewise


@dataclass(slots=True)
class Building:
    """A session that is being read: turns come first, and the results of their calls later."""

    session: Session
    faults: list[str] = field(default_factory=list)  # what was lost since they were last reported
    waits: dict[str, list[LoggedCall]] = field(default_factory=dict)  # calls for results, by id
    _named: dict[str, LoggedTurn] = field(default_factory=dict)
    _first: dict[tuple[int, str], LoggedCall] = field(default_factory=dict)
    _characters: int = 0

    def needs(self, value: Mapping[str, object], *keys: str) -> None:
        """Record a fault for each missing key: without it a part of the log is lost."""
        for key in keys:
            if key not in value:
                keys_there = [as_name(legible(name[:_SHOWN])) for name in [*value][:_KEYS]]
                others = ", ".join(keys_there) or "none"
                self.faults.append(f"no key {key!r}, but {others}")

    def may_have(self, value: Mapping[str, object], *keys: str) -> None:
        """Record a fault for each missing key that is there with one letter changed."""
        for key in keys:
            if key not in value and _misspelt(key, tuple(value)[:_LOOKED_AT]):
                self.needs(value, key)

    def turn(self, name: str = "") -> LoggedTurn:
        """Return the turn of this name, which may come in pieces; a new one without a name."""
        if name in self._named:
            return self._named[name]
        new_turn = LoggedTurn()
        self.session.turns.append(new_turn)
        if name:
            self._named[name] = new_turn
        return new_turn

    def named(self) -> list[tuple[str, LoggedTurn]]:
        return [*self._named.items()]

    def called(self, turn: LoggedTurn, call: LoggedCall) -> None:
        turn.calls.append(call)
        self._characters += len(call.call.raw) + len(call.said) + 1_000
        self.set_reply(call, call.said)
        self.waits.setdefault(call.call.id, []).append(call)

    def set_reply(self, call: LoggedCall, reply: str) -> None:
        """Set the reply that the model read of a call; only its beginning is kept."""
        self._characters -= len(call.said)
        call.said = reply[:MOST_TEXT]
        self._characters += len(call.said)

    def first(self, turn: LoggedTurn, call: LoggedCall) -> bool:
        """Return True if no other call of its name was passed here before in this turn."""
        return self._first.setdefault((id(turn), call.call.name), call) is call

    def take_call(self, identifier: str) -> LoggedCall | None:
        """Take out the call that a result is for: of several with one id, the oldest one."""
        waiting = self.waits.get(identifier)
        if not waiting:
            return None
        call = waiting.pop(0)
        if not waiting:
            del self.waits[identifier]
        return call

    def waiting(self) -> LoggedCall | None:
        """Take out the oldest call without a result, for a result that names no call."""
        return self.take_call(next(iter(self.waits), ""))

    def whole(self) -> Session | None:
        """Return the part once it is long enough to be counted by itself, and begin the next."""
        parts = max(len(self.session.turns) / PART, self._characters / HELD)
        # A call may still get its result, for as long again.
        most = 2 if self.waits else 1
        return self.cut() if parts >= most else None

    def cut(self) -> Session:
        """Return the part read so far and begin the next, whose results answer no earlier call."""
        finished = self.session
        self.session = replace(finished, part=finished.part + 1, turns=[])
        self._characters = 0
        self.waits = {}
        self._named = {}
        self._first = {}
        return finished
