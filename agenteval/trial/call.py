"""One tool call of a model: as it arrived, as it was judged, and the outcome that its trial had.

In order: the call and its verdict; how a trial ends, where the sandbox decides and a claim only
classifies a goal that is not met; the reply that a call arrived in, and malformed calls in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple, Self, TypeVar

from agenteval.shell.gate import Span, new
from agenteval.trial.text import is_json, is_legible, legible, paired

BASH = "bash"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One request to use a tool, as the model wrote it.

    `raw` is the argument text exactly as received. `arguments` is what it parses to, or None when
    it does not parse to a JSON object; `malformed` then says why. Broken JSON is a measurement, so
    it is kept here and never raised.
    """

    id: str
    name: str
    raw: str
    arguments: Mapping[str, Any] | None = None
    malformed: str = ""

    @property
    def command(self) -> str | None:
        """The bash text, when this is a bash call that carries one."""
        if self.name != BASH or self.arguments is None:
            return None
        command = self.arguments.get("command")
        return command if isinstance(command, str) else None

    @property
    def json_arguments(self) -> Mapping[str, Any] | str:
        """The arguments as a value for JSON; the raw text if they are no JSON, as with a NaN."""
        return self.raw if self.arguments is None or not is_json(self.arguments) else self.arguments


class Finding(NamedTuple):
    """One failure class found in one call. `hint` is the fix, in words a model can act on.

    `evidence` is the part that shows it: of the command of a bash call, of `raw` of any other. It
    is empty, but for its text, where that text does not stand there.

    A named tuple, as its evidence is: a denied call has several, and must not wait for them.
    """

    failure_class: str
    evidence: Span
    hint: str = ""
    facets: tuple[str, ...] = ()


class BashRun(NamedTuple):
    """A command as it was read and judged. `argv` is executed unchanged, without another reading.

    `commands` are the words of every command in `text`; none where only another harness's rules
    could read it.
    """

    text: str
    argv: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]


class FileRead(NamedTuple):
    """The path that was judged, relative to the workspace where it is inside.

    `lines` is how many to read from the `first` on, counted from 1; None reads all of them.
    """

    path: str
    first: int = 1
    lines: int | None = None


class FileWrite(NamedTuple):
    """The path that was judged, as in `FileRead`, and all that the file is to hold."""

    path: str
    content: str


class FileEdit(NamedTuple):
    """The path that was judged, as in `FileRead`: its one place with the `old` text gets the `new`.

    The file is created if there is none and the old text is empty.
    """

    path: str
    old: str
    new: str


class FileSearch(NamedTuple):
    """Files by their names (`glob`), or lines by what stands in them (`grep`), below a folder."""

    tool: str
    pattern: str
    folder: str
    include: str = ""


class Note(NamedTuple):
    """A note that a model writes for itself; it changes nothing in the sandbox."""

    text: str


Runnable = BashRun | FileRead | FileWrite | FileEdit | FileSearch | Note


class Allowed(NamedTuple):
    """An allowed call. `runs` is what was judged; it is not stored.

    None for a verdict out of a store, and for a tool that nothing here carries out.
    """

    runs: Runnable | None = None

    @property
    def allowed(self) -> bool:
        return True

    @property
    def findings(self) -> tuple[Finding, ...]:
        return ()

    @property
    def primary(self) -> Finding | None:
        return None


class Denied(NamedTuple):
    """A denied call: the primary class first, the others after it. It holds nothing to run."""

    findings: tuple[Finding, ...]

    @classmethod
    def explained(cls, findings: Sequence[Finding]) -> Self:
        """Raises ValueError without a finding: every denial is explained."""
        if not findings:
            raise ValueError("a denied call has at least one finding")
        return new(cls, (tuple(findings),))

    @property
    def allowed(self) -> bool:
        return False

    @property
    def primary(self) -> Finding:
        return self.findings[0]


Verdict = Allowed | Denied


# How a trial ends.


class Ending(StrEnum):
    """The reason why the loop stopped."""

    STOPPED = "stopped"  # the model replied without a tool call
    GOAL = "goal"  # in earlier releases, the goal held: a trial went no further
    TURNS = "turns"
    TOKENS = "tokens"
    TIME = "time"
    LOOPED = "looped"
    CONTEXT = "context"  # the conversation outgrew the model's context
    BROKEN = "broken"  # our side or the server failed
    REFUSED = "refused"  # a sub-agent beyond the scenario's limits: it never began


class Outcome(StrEnum):
    """The outcome of a trial. Void trials are excluded from rates, always counted and shown."""

    COMPLETED = "completed"
    STALLED = "stalled"
    OUT_OF_TURNS = "out-of-turns"  # or out of tokens
    TIMED_OUT = "timed-out"
    GAVE_UP = "gave-up"
    CLAIMED_DONE = "claimed-done"
    LOOPED = "looped"
    OUT_OF_CONTEXT = "out-of-context"
    VOID = "void"
    NOT_OBSERVABLE = "not observable"  # of a session out of a log: nobody looked at its world


_LIMITS = {
    Ending.LOOPED: Outcome.LOOPED,
    Ending.TIME: Outcome.TIMED_OUT,
    Ending.TURNS: Outcome.OUT_OF_TURNS,
    Ending.TOKENS: Outcome.OUT_OF_TURNS,
    Ending.CONTEXT: Outcome.OUT_OF_CONTEXT,
}


def outcome(ending: Ending, *, goal_met: bool, last_denied: bool, claimed: bool) -> Outcome:
    """Return the outcome of a trial. `claimed`: its final message said that the work is done.

    `goal_met`: at the end, whatever ended it. Finished work counts although the model never
    stopped; work that it undid does not. A model that stops with the goal unmet claimed completion
    if it says so. Else it gave up if its last turn with calls had a denial, and otherwise stalled:
    alive, without the required transition. No words make a trial completed.
    """
    if ending is Ending.BROKEN:
        return Outcome.VOID
    if goal_met:
        return Outcome.COMPLETED
    if ending in _LIMITS:
        return _LIMITS[ending]
    if claimed:
        return Outcome.CLAIMED_DONE
    return Outcome.GAVE_UP if last_denied else Outcome.STALLED


# A reply as it arrived, and malformed calls in it.

Schemas = Mapping[str, Mapping[str, Any]]  # of each offered tool's parameters, by its name


class Blame(StrEnum):
    """The layer that the evidence points to."""

    MODEL = "model"
    PARSER = "template or parser"
    PROMPT = "our prompt"
    HARNESS = "harness"
    SERVER = "server"


@dataclass(frozen=True, slots=True)
class MalformedCall:
    """A fault of form: `kind` is of `classes.malformed`, `why` is the reason of the blame.

    `evidence` is the text that shows it, as received. `position` is that of the call; it is None
    for text that never arrived as a call.
    """

    kind: str
    blame: Blame
    evidence: str
    why: str
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Repair:
    """The text sent back in place of the received one. `part` is arguments, name or id."""

    position: int
    part: str
    received: str
    sent: str


@dataclass(frozen=True, slots=True)
class ReceivedCall:
    """A call as it arrived. `raw` is its argument text, of an object too; "" where none came.

    `broken` is True if a part of name or arguments was no text; U+FFFD stands for that part.
    `mends` are the repairs of `replies.arrival`, each with the text that had come.
    """

    name: str
    raw: str
    id: str = ""
    as_object: bool = False
    broken: bool = False
    mends: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Received:
    """A reply as it arrived, before any repair.

    `refusal` holds the server's words when it answered with an error because it could not read the
    model's call; then there is nothing else. `repeats` is the passage in which we stopped reading.
    `broken` says of its words what it says of a call; `thought_in` names the field that the
    reasoning came in. `hidden_tokens` are those of the completion that were thoughts, as counted.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[ReceivedCall, ...] = ()
    finish_reason: str = ""
    completion_tokens: int = 0
    hidden_tokens: int = 0
    refusal: str = ""
    repeats: str = ""
    model: str = ""
    broken: bool = False
    thought_in: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """The parts of a request that decide a blame.

    `parser` is the tool parser that the server is said to run, `prompts` are our own texts.
    `dialect` is that in which we requested calls as text; it is "" if the server parses them.
    """

    schemas: Schemas = field(default_factory=dict)
    max_tokens: int | None = None
    parser: str = ""
    dialect: str = ""
    prompts: tuple[str, ...] = ()


# Characters. A tool's arguments of more would be 60,000 tokens in one call; the turn's raw bytes
# have all of it.
LONGEST_ARGUMENTS = 1 << 18
LONGEST_NAME = 5_000  # of a tool, an id, a model
LENGTH = "length"  # the finish reason of a reply that a limit of its tokens ended
FULL = "model_context_window_exceeded"  # of one that filled the context, where a server says so
CUT = frozenset((LENGTH, FULL))


def arrived(received: Received) -> Received:
    """Return the reply as text that can be stored and shown: mostly as it came."""
    words = tuple(map(paired, (received.text, received.reasoning)))
    return changed(
        received,
        text=legible(words[0]),
        reasoning=legible(words[1]),
        calls=tuple(map(_arrived_call, received.calls)),
        finish_reason=_name(received.finish_reason),
        refusal=legible(received.refusal)[:LONGEST_ARGUMENTS],
        repeats=legible(received.repeats),
        model=_name(received.model),
        broken=not all(map(is_legible, words)),
    )


def _arrived_call(call: ReceivedCall) -> ReceivedCall:
    name, raw = paired(call.name), paired(call.raw)
    return changed(
        call,
        name=_name(name),
        raw=legible(raw),
        id=_name(call.id),
        broken=not (is_legible(name) and is_legible(raw)),
    )


Arrived = TypeVar("Arrived", Received, ReceivedCall)


def changed(original: Arrived, **parts: Any) -> Arrived:
    """Return a copy with these parts; itself if it has them, in a third of the time of a copy."""
    if all(getattr(original, name) == part for name, part in parts.items()):
        return original
    return replace(original, **parts)


def _name(text: str) -> str:
    return legible(paired(text))[:LONGEST_NAME]
