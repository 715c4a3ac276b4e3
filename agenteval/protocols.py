"""The seams: what the engine is handed, on one screen."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from agenteval.core.call import Denied, ToolCall, Verdict
from agenteval.core.outcome import Ending
from agenteval.core.policy.policy import Policy, World
from agenteval.core.scenario import Answers, Limits, Question, Scenario, Schema
from agenteval.core.served import Sent
from agenteval.core.trial import CallRecord, Execution, Message, Trial, Turn
from agenteval.errors import InfrastructureError

ToolSchema = Mapping[str, Any]  # one entry of the `tools` list of a chat-completions request


class Model(Protocol):
    """A served model."""

    async def ask(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], *, seed: int
    ) -> Turn:
        """The model's next turn.

        Raises InfrastructureError when the server fails (UnservedError when it did not take the
        request at all), OutgrownError when the messages do not fit into its context any more, and
        UsageError when it refuses the request in a way only the user can mend (wrong key, unknown
        model).
        """
        ...


class Relay(Protocol):
    """A served model that other programs ask through us."""

    async def relay(
        self,
        request: Mapping[str, Any],
        *,
        seed: int,
        write: Callable[[bytes], Awaitable[None]],
    ) -> Turn:
        """The turn in the reply to a request of chat completions, whose bytes `write` gets.

        They come as they come; the model's name, its sampling and the seed are put in by us.
        Raises as `Model.ask`.
        """
        ...


class Judge(Protocol):
    """Whether a call may run, and if not, why: the module `taxonomy.judge`."""

    def judge(self, call: ToolCall, policy: Policy, world: World) -> Verdict:
        """Allowed with what it runs, or denied with every class that explains it. Never raises."""
        ...

    def deny(self, call: ToolCall, policy: Policy, world: World, *, objection: str = "") -> Denied:
        """The verdict on a call that is denied already, by `objection` of the second reader."""
        ...


class Pace(Protocol):
    """Who knows how slow the server is."""

    def stretch(self) -> float:
        """What limits are multiplied with, by all replies so far, those under way included."""
        ...


class Health(Protocol):
    """Who looks after the server while a run goes on."""

    async def after(self, error: InfrastructureError) -> InfrastructureError:
        """The failure as it is known after a look at the server: it may have been a crash."""
        ...

    async def context(self) -> int | None:
        """How many tokens its context holds; None where it does not tell."""
        ...


class Sandbox(Protocol):
    """One trial's own world: a private workspace in which commands run and nothing escapes."""

    async def run(self, argv: Sequence[str], *, seconds: float | None = None) -> Execution:
        """Run one program to its end or to a limit; whatever it left running is killed.

        `argv` is executed as it is, without a shell; `seconds` go before the limit of a call.
        Raises InfrastructureError when the sandbox itself fails.
        """
        ...

    async def ask(self, database: str, questions: Sequence[Question], schema: Schema) -> Answers:
        """Ask the SQLite file of this path, which a model may have made, as safely as can be.

        It is opened in the sandbox, to read only, and only while it has what `schema` declares.
        A file that cannot answer is broken: that is the model's. Raises InfrastructureError when
        the sandbox itself fails.
        """
        ...

    async def judge(self, source: str, argument: str) -> Execution:
        """Run a Python program of the scenario's own in the workspace, hidden from all that runs.

        Its exit code is 0 only when it came to its end, which nothing but itself can pretend.
        Raises as `run` does.
        """
        ...

    async def read(self, path: str) -> bytes:
        """The bytes of a regular file, by its path relative to the workspace or an absolute one.

        Raises FileNotFoundError and, for anything that is no regular file, OSError.
        """
        ...

    async def read_lines(self, path: str, first: int, count: int | None) -> tuple[bytes, bool]:
        """`count` lines (None: all) from the `first` on, and whether less than these came back.

        No more bytes than a command's output may have are kept. Raises as `read` does.
        """
        ...

    async def stamp(self, paths: Sequence[str]) -> str:
        """A text that is another one when any of these files was changed, made or removed.

        Empty while that cannot be told: a file that was changed just now may change again unseen.
        """
        ...

    async def write(self, path: str, content: bytes) -> None:
        """Write a regular file below the workspace, making its folders."""
        ...


@dataclass(frozen=True, slots=True)
class Guest:
    """What a program of somebody else's, which is to run in a world, has there.

    `shown` are files and folders of this machine, to be read only, by their place in the world;
    `places` are folders of so many bytes that it may write.
    """

    shown: Mapping[str, str]
    places: Mapping[str, int]


class Host(Protocol):
    """A backend whose worlds can have a guest. What he uses, no limit of a command counts."""

    def open_with(
        self, guest: Guest, files: Mapping[str, bytes], limits: Limits
    ) -> AbstractAsyncContextManager[Sandbox]: ...


class SandboxBackend(Protocol):
    """A way to build sandboxes."""

    name: str

    def open(
        self, files: Mapping[str, bytes], limits: Limits
    ) -> AbstractAsyncContextManager[Sandbox]:
        """A fresh sandbox whose workspace holds `files` (relative path to content)."""
        ...


@dataclass(frozen=True, slots=True)
class Stage:
    """A resolved scenario, ready to be played: its allow list, and the files its world starts with.

    `files` makes the world of a seed: relative path to content. `agents` are the allow lists of the
    sub-agents that are played by the model, by their names.
    """

    scenario: Scenario
    policy: Policy
    files: Callable[[int], Mapping[str, bytes]]
    agents: Mapping[str, Policy] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrialKey:
    """Which trial of a run: scenario, number (from 1) and the seed that makes its world."""

    scenario: str
    number: int
    seed: int


class Recorder(Protocol):
    """Where one run is kept. Every method returns only when its row is safely stored.

    `agent` is the label of a sub-agent, and empty for the first agent of a trial.
    """

    def begin(self, key: TrialKey) -> bool:
        """False where another process has the trial: it is not to be played here."""
        ...

    def turn(self, key: TrialKey, number: int, turn: Turn, *, agent: str = "") -> None: ...

    def call(self, key: TrialKey, record: CallRecord, *, agent: str = "") -> None: ...

    def finish(self, key: TrialKey, trial: Trial) -> None: ...


class TrialContext(Protocol):
    """The trial around an agent, as the agent's loop sees it.

    While a program plays, the world cannot be looked at: it calls `took`, `kept` and `spent`
    only, and `cut` at its end.
    """

    def took(self, agent: str, number: int, turn: Turn) -> None:
        """Hear of a turn at once, and keep it."""

    async def read(self, requests: Sequence[Sent]) -> None:
        """Hear how the server counted an agent's requests. Raises InfrastructureError."""

    async def cut(self, turn: Turn, prompt: float) -> tuple[Ending | None, str]:
        """How a reply ends its agent that a limit of length cut, and what cut it; empty for others.

        `prompt` is how many tokens were sent at least.
        """

    def kept(self, agent: str, record: CallRecord) -> None:
        """Hear of a call at once, and keep it."""

    async def made(self, agent: str, record: CallRecord) -> None:
        """As `kept`, and do what follows from the call in the world."""

    def spent(self) -> Ending | None:
        """What of the trial's limits is used up, if anything is."""

    async def ended(self) -> Ending | None:
        """Hear that all calls of a turn are answered. What ends the whole trial, if anything."""


class Loop(Protocol):
    """An agent at work: our own loop, or a program of somebody else's.

    What it gathered is true at any moment. `reason` says how it ended, where that needs words.
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
    """Who watches a run: the live display, or a program's own callback.

    It hears of the tokens of each turn, of the first agent's calls with the class of what was
    denied, and of each trial's end with what made it void; both are empty where nothing did.
    """

    def wrote(self, trial: TrialKey, tokens: int) -> None: ...

    def called(self, trial: TrialKey, *, failure_class: str) -> None: ...

    def finished(self, trial: TrialKey, *, void: str) -> None: ...


class Progress(Protocol):
    """Who follows a whole command: it is told of each run that begins, and lines worth reading."""

    def run(self, model: str, *, trials: int, simulated: bool) -> Observer: ...

    def note(self, line: str) -> None: ...
