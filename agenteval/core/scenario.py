"""A scenario: the task of a model, and the checks in its sandbox that show it was done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agenteval.core.chance import Draw, Value


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a scenario's reference solution."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Check:
    """A query of the task's database: its first value must equal `expect`."""

    name: str
    query: str
    expect: str | int | float


@dataclass(frozen=True, slots=True)
class Trace:
    """Something that the model had to look at: a successful call has all words of an entry.

    `calls` are such entries, each one way to look, in the words of a command or of a path.
    """

    name: str
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CodeTest:
    """A Python program about the workspace: the test holds when it comes to its end.

    It has the trial's variables, runs where no code of the model's can see it, and leaves no file.
    """

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class Agent:
    """A sub-agent, started when a script of the trial requests it in the database.

    `spawned` is a query: each row requests one agent. Its first column identifies a request; all
    columns are variables of this agent's texts; where `attached` is 1, the requesting agent waits.
    The served model plays it, or `program` stands for it, with its variables as JSON.
    """

    name: str
    spawned: str
    instructions: str = ""
    policy: str = ""
    tools: tuple[str, ...] = ()
    solution: tuple[Step, ...] = ()
    closing: int = 1
    max_turns: int = 20
    program: CodeTest | None = None


@dataclass(frozen=True, slots=True)
class SpawnLimits:
    """The limits on sub-agents of a trial: their number, and their depth below its first agent."""

    depth: int = 2
    count: int = 8

    def refused(self, depth: int, started: int) -> str:
        """Return why an agent at this depth may not request another; "" if it may."""
        if depth >= self.depth:
            return f"deeper than {self.depth}"
        return f"more than {self.count} agents" if started >= self.count else ""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one trial. Sizes in bytes, times in seconds.

    There is never a network; `loopback` gives the trial a 127.0.0.1 of its own.
    """

    call_seconds: float = 30.0
    trial_seconds: float = 1800.0
    completion_tokens: int = 200_000
    cpu_seconds: int = 20
    memory: int = 512 << 20
    processes: int = 64
    open_files: int = 256
    file_size: int = 64 << 20
    workspace: int = 64 << 20
    inodes: int = 8192
    output_kept: int = 1 << 20
    output_killed: int = 16 << 20
    loopback: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario as loaded and checked.

    `policy` names an allow list, `fixture` a folder under fixtures/, `database` the SQLite file
    inside the workspace. The goal is reached when every check of `goal` holds, and every one
    of `tests` and `traces`; `handshake` lists ordered steps, each proven by a check. `invites`
    names the failure classes it tempts to. The last `closing` steps of the solution close the work;
    with 0, as many as the handshake has. `another` is a second way to the goal, of another kind.

    `instructions`, `world` (the fixture's world.sql) and every text of goal, handshake and solution
    are templates over the variables of a trial, which follow from its seed: one of `variants`,
    the `draws`, and the answers to `asks`, which are queries of the fresh database. `words` are
    lists that `world` draws from. `core.prompt.prompt.render` renders it for one trial.
    """

    name: str
    title: str
    policy: str
    fixture: str
    instructions: str
    tools: tuple[str, ...]
    database: str
    goal: tuple[Check, ...]
    solution: tuple[Step, ...]
    handshake: tuple[Check, ...] = ()
    tests: tuple[CodeTest, ...] = ()
    traces: tuple[Trace, ...] = ()
    invites: tuple[str, ...] = ()
    variants: tuple[Mapping[str, str | int], ...] = ({},)
    draws: Mapping[str, Draw] = field(default_factory=dict)
    asks: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    agents: tuple[Agent, ...] = ()
    spawn: SpawnLimits = field(default_factory=SpawnLimits)
    closing: int = 0
    another: tuple[Step, ...] = ()
    world: str = ""
    max_turns: int = 20
    limits: Limits = field(default_factory=Limits)


# Type, name, table and SQL of each object that a fixture's database declares.
Schema = tuple[tuple[str, str, str, str | None], ...]
Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Question:
    """A query, and the most rows that it returns."""

    query: str
    rows: int = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of one query; `error` is why it has none."""

    names: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    error: str = ""

    @property
    def first(self) -> Cell:
        """The first value; None where there is none."""
        return self.rows[0][0] if self.rows else None

    @property
    def named(self) -> list[Mapping[str, Value]]:
        """Each row by the names of its columns, as a template takes it: NULL is an empty text."""
        return [
            {name: "" if cell is None else cell for name, cell in zip(self.names, row, strict=True)}
            for row in self.rows
        ]


@dataclass(frozen=True, slots=True)
class Answers:
    """One answer for each question, or why the database as a whole has none: `broken`."""

    answers: tuple[Answer, ...] = ()
    broken: str = ""


@dataclass(frozen=True, slots=True)
class GoalCheck:
    """One check of a goal, made when the trial had ended: the expected value and the one found.

    A test has neither value. `said` is why nothing was found, or the last line of a test.
    """

    name: str
    held: bool
    expected: Cell = None
    found: Cell = None
    said: str = ""

    @property
    def why(self) -> str:
        """The reason why it does not hold."""
        return self.said or f"expected {self.expected!r}, found {self.found!r}"

    @property
    def failure(self) -> str:
        return f"{self.name} ({self.why})"
