"""The seams: what the engine is handed. At the end `until`, an adaptive timeout for its waits.

`Model`, `Judge`, `Sandbox` and `Recorder` are what a trial is played with; `Health` and `Pace` look
after the server meanwhile. `SandboxBackend` and `Host` build sandboxes. `Loop` is what
plays an agent, and `TrialContext` what it reports to. `Observer` and `Progress` watch a run.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

from agenteval.errors import InfrastructureError
from agenteval.policy.policy import Policy, World
from agenteval.trial.call import Denied, Ending, ToolCall, Verdict
from agenteval.trial.tally import Sent
from agenteval.trial.trial import (
    Answers,
    CallRecord,
    Execution,
    Limits,
    Message,
    Question,
    Scenario,
    Schema,
    Trial,
    Turn,
)

ToolSchema = Mapping[str, Any]  # one entry of the `tools` list of a chat-completions request


class Model(Protocol):
    """A served model."""

    async def ask(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        *,
        seed: int,
    ) -> Turn:
        """Return the model's next turn.

        Raises InfrastructureError when the server fails (UnservedError when it did not accept the
        request at all), OutgrownError when the messages do not fit into its context any more, and
        UsageError when it refuses the request in a way only the user can fix (wrong key, unknown
        model).
        """
        ...


class Relay(Protocol):
    """A served model that other programs query through us."""

    async def relay(
        self,
        request: Mapping[str, Any],
        *,
        seed: int,
        write: Callable[[bytes], Awaitable[None]],
    ) -> Turn:
        """Return the turn in the reply to a chat-completions request, whose bytes `write` gets.

        The bytes are passed on as they come. We set the model's name, its sampling and the seed.
        Raises as `Model.ask`.
        """
        ...


class Judge(Protocol):
    """The judge of whether a call may run, and if not, why: the module `classes.judge`."""

    def judge(self, call: ToolCall, policy: Policy, world: World) -> Verdict:
        """Return Allowed with what runs, or Denied with all explaining classes. Never raises."""
        ...

    def deny(
        self,
        call: ToolCall,
        policy: Policy,
        world: World,
        *,
        objection: str = "",
    ) -> Denied:
        """Return the verdict on a call that is denied already, by a second reader's `objection`."""
        ...


class Pace(Protocol):
    """A measure of how slow the server is."""

    def stretch(self) -> float:
        """Return the factor of limits, by all replies so far, those under way included."""
        ...


class Health(Protocol):
    """A monitor of the server while a run goes on."""

    async def after(self, error: InfrastructureError) -> InfrastructureError:
        """Return the failure as it is known after a check of the server: it may be a crash."""
        ...

    async def context(self) -> int | None:
        """Return how many tokens its context holds; None if it does not report that."""
        ...


class Sandbox(Protocol):
    """One trial's own sandbox: a private workspace in which commands run and nothing escapes."""

    async def run(self, argv: Sequence[str], *, seconds: float | None = None) -> Execution:
        """Run one program to its end or to a limit; whatever it left running is killed.

        `argv` is executed as it is, without a shell; `seconds` go before the limit of a call.
        Raises InfrastructureError when the sandbox itself fails.
        """
        ...

    async def ask(self, database: str, questions: Sequence[Question], schema: Schema) -> Answers:
        """Query the SQLite file of this path, which a model may have made, as safely as can be.

        It is opened in the sandbox, to read only, and only while it has what `schema` declares.
        A file that cannot be queried is broken, which is the model's doing. Raises
        InfrastructureError when the sandbox itself fails.
        """
        ...

    async def judge(self, source: str, argument: str) -> Execution:
        """Run a Python program of the scenario's own in the workspace, hidden from all that runs.

        Its exit code is 0 only when it came to its end, which nothing but itself can pretend.
        Raises as `run` does.
        """
        ...

    async def read(self, path: str) -> bytes:
        """Return the bytes of a regular file, by an absolute path or one relative to the workspace.

        Raises FileNotFoundError and, for anything that is no regular file, OSError.
        """
        ...

    async def read_lines(self, path: str, first: int, count: int | None) -> tuple[bytes, bool]:
        """Return `count` lines (None: all) from the `first` on, and whether some are missing.

        No more bytes than a command's output may have are kept. Raises as `read` does.
        """
        ...

    async def stamp(self, paths: Sequence[str]) -> str:
        """Return a text that differs once any of these files was changed, created or removed.

        Empty while changes cannot be detected: a file changed just now may change again unnoticed.
        """
        ...

    async def write(self, path: str, content: bytes) -> None:
        """Write a regular file below the workspace, making its folders."""
        ...


@dataclass(frozen=True, slots=True)
class HostedProgram:
    """The files of a third-party program that is to run in a sandbox.

    `shown` are files and folders of this machine, to be read only, by their place in the sandbox.
    `places` are folders that it may write, with their sizes in bytes.
    """

    shown: Mapping[str, str]
    places: Mapping[str, int]


class Host(Protocol):
    """A backend whose sandboxes can run such a program. No limit of a command counts its use."""

    def open_with(
        self,
        program: HostedProgram,
        files: Mapping[str, bytes],
        limits: Limits,
    ) -> AbstractAsyncContextManager[Sandbox]: ...


class SandboxBackend(Protocol):
    """A way to build sandboxes."""

    name: str

    def open(
        self,
        files: Mapping[str, bytes],
        limits: Limits,
    ) -> AbstractAsyncContextManager[Sandbox]:
        """Return a fresh sandbox whose workspace holds `files` (relative path to content)."""
        ...


@dataclass(frozen=True, slots=True)
class Stage:
    """A resolved scenario, ready to be played: its allow list, and the files that it starts with.

    `files` makes the files of a seed: relative path to content. `agents` are the allow lists of the
    sub-agents that are played by the model, by their names.
    """

    scenario: Scenario
    policy: Policy
    files: Callable[[int], Mapping[str, bytes]]
    agents: Mapping[str, Policy] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrialKey:
    """The key of a trial in a run: scenario, number (from 1) and the seed of its task instance."""

    scenario: str
    number: int
    seed: int


class Recorder(Protocol):
    """The recorder of one run. Every method returns only when its row is safely stored.

    `agent` is the label of a sub-agent, and empty for the first agent of a trial.
    """

    def begin(self, key: TrialKey) -> bool:
        """Return False if another process has the trial: it is not to be played here."""
        ...

    def turn(
        self,
        key: TrialKey,
        number: int,
        turn: Turn,
        *,
        agent: str = "",
    ) -> None: ...

    def call(self, key: TrialKey, record: CallRecord, *, agent: str = "") -> None: ...

    def finish(self, key: TrialKey, trial: Trial) -> None: ...


class TrialContext(Protocol):
    """The trial around an agent, as the agent's loop sees it.

    While a program plays, its sandbox cannot be checked: it calls `record_turn`, `record_call` and
    `spent` only, and `cut` at its end.
    """

    def record_turn(self, agent: str, number: int, turn: Turn) -> None:
        """Record a turn at once."""

    async def read(self, requests: Sequence[Sent]) -> None:
        """Check how the server counted an agent's requests. Raises InfrastructureError."""

    async def cut(self, turn: Turn, prompt: float) -> tuple[Ending | None, str]:
        """Return how a reply that a length limit cut ends its agent, and what cut it.

        Both are empty for other replies. `prompt` is how many tokens were sent at least.
        """

    def record_call(self, agent: str, record: CallRecord) -> None:
        """Record a call at once."""

    async def follow_call(self, agent: str, record: CallRecord) -> None:
        """Record a call at once, and do what follows from it in the sandbox."""

    def spent(self) -> Ending | None:
        """Return the ending for a limit of the trial that is used up; None if none is."""

    async def ended(self) -> Ending | None:
        """Act after all calls of a turn are answered. Return what ends the whole trial, or None."""


class Loop(Protocol):
    """An agent at work: our own loop, or a third-party program.

    Its turns and calls are true at any moment. `reason` says how it ended, where that needs words.
    """

    @property
    def turns(self) -> Sequence[Turn]: ...

    @property
    def calls(self) -> Sequence[CallRecord]: ...

    @property
    def reason(self) -> str: ...

    async def play(self) -> Ending:
        """Raises InfrastructureError when server, sandbox or program fails."""
        ...


class Observer(Protocol):
    """An observer of a run: the live display, or a program's own callback.

    It receives the tokens of each turn, the first agent's calls with the class of a denied one, and
    the end of each trial with the cause of a void one; class and cause are empty otherwise.
    """

    def wrote(self, trial: TrialKey, tokens: int) -> None: ...

    def called(self, trial: TrialKey, *, failure_class: str) -> None: ...

    def finished(self, trial: TrialKey, *, void: str) -> None: ...


class Progress(Protocol):
    """An observer of a whole command: it receives each run that begins, and lines worth reading."""

    def run(self, model: str, *, trials: int, simulated: bool) -> Observer: ...

    def note(self, line: str) -> None: ...


# The adaptive timeout, which reads its deadline again before it strikes.


def until(deadline: Callable[[], float], *, looks: float = math.inf) -> "_Until":
    """Raises TimeoutError at the deadline (by the clock of the loop), as it stands at that time.

    What is waited for may show meanwhile that it is only slow. A deadline that may come nearer is
    read every `looks` seconds.
    """
    return _Until(deadline, looks)


class _Until:
    """Written out, as each request is within two: a generator would take twice the time."""

    __slots__ = ("_deadline", "_limit", "_looks", "_loop", "_timer")

    def __init__(self, deadline: Callable[[], float], looks: float) -> None:
        self._deadline = deadline
        self._looks = looks

    async def __aenter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._limit = asyncio.timeout(None)
        await self._limit.__aenter__()
        self._look()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._limit.__aexit__(kind, error, trace)

    def _look(self) -> None:
        end = self._deadline()
        now = self._loop.time()
        if end > now:
            self._timer = self._loop.call_at(min(end, now + self._looks), self._look)
        else:
            self._limit.reschedule(end)
