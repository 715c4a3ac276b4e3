"""The seams: what the engine is handed, on one screen."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from agenteval.core.call import Denied, ToolCall, Verdict
from agenteval.core.policy.policy import Policy, World
from agenteval.core.scenario import Answers, Limits, Question, Scenario, Schema
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

    async def run(self, argv: Sequence[str]) -> Execution:
        """Run one program to its end or to a limit; whatever it left running is killed.

        `argv` is executed as it is, without a shell. Raises InfrastructureError when the sandbox
        itself fails.
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
    """One scenario, ready to be played: its allow list, and the files its world starts with.

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

    def begin(self, key: TrialKey) -> None: ...

    def turn(self, key: TrialKey, number: int, turn: Turn, *, agent: str = "") -> None: ...

    def call(self, key: TrialKey, record: CallRecord, *, agent: str = "") -> None: ...

    def finish(self, key: TrialKey, trial: Trial) -> None: ...


class Observer(Protocol):
    """Who watches a run: the live display, or a program's own callback."""

    def called(self, trial: TrialKey, *, denied: bool) -> None: ...

    def finished(self, trial: TrialKey, *, void: bool) -> None: ...


class Progress(Protocol):
    """Who follows a whole command: it is told of each run that begins, and lines worth reading."""

    def run(self, model: str, *, trials: int, simulated: bool) -> Observer: ...

    def note(self, line: str) -> None: ...
