"""A scenario, and a trial of it as it happened; the errors counted of many.

In order: the task with the checks that show it was done; messages, turns, calls and the ending
of one trial; `ErrorCounts` by trial and by failure class, the input of every rate and
comparison.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any, Literal

from agenteval.errors import Cause
from agenteval.trial.call import Ending, MalformedCall, Outcome, Repair, ToolCall, Verdict
from agenteval.trial.text import Draw, Value


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
    lists that `world` draws from. `prompt.prompt.render` renders it for one trial.
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
        """The rows by column name, as a template takes them: NULL is an empty text."""
        rows: list[Mapping[str, Value]] = []
        for row in self.rows:
            texts = ["" if cell is None else cell for cell in row]
            rows.append(dict(zip(self.names, texts, strict=True)))
        return rows


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


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. A piece is an event that carries words, reasoning or a part of a call.

    `first` is from the request to the first piece, the gaps are those between two pieces: their
    mean, median, 95th percentile and longest, 0 where there is one piece. Servers put one token
    into a piece, or several: compare `pieces` with `Usage.completion_tokens`.
    """

    first: float
    pieces: int
    gap_mean: float = 0.0
    gap_median: float = 0.0
    gap_p95: float = 0.0
    gap_longest: float = 0.0


def timing_of(arrivals: Sequence[float]) -> Timing | None:
    """Return the timing of pieces that came so many seconds after the request; None for none."""
    if not arrivals:
        return None
    gaps = sorted(after - before for before, after in pairwise(arrivals))
    if not gaps:
        return Timing(arrivals[0], 1)
    last = len(gaps) - 1
    return Timing(
        first=arrivals[0],
        pieces=len(arrivals),
        gap_mean=sum(gaps) / len(gaps),
        gap_median=gaps[last // 2],
        gap_p95=gaps[round(0.95 * last)],
        gap_longest=gaps[-1],
    )


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a transcript, in the shape every chat server understands.

    `reasoning` is what the model thought before it; `trial.run` says when it is sent back.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the server counted them; 0 if it reported none.

    Reasoning is a part of the completion, and cached tokens are a part of the prompt.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply of the model. `raw` is the reply as received, before any parsing.

    `repeats` is the passage that it was stopped in, having written it again and again; `model` is
    the model that answered, as the server names it.

    `ended` is when its last byte came, in seconds since 1970; None if it was not recorded.

    `timing` is None if the reply came in one piece. `repairs` are the replacements, in the
    conversation that is sent back, of what a server would not accept.
    """

    text: str
    calls: tuple[ToolCall, ...]
    finish_reason: str
    usage: Usage
    raw: str
    seconds: float
    timing: Timing | None = None
    malformed: tuple[MalformedCall, ...] = ()
    repairs: tuple[Repair, ...] = ()
    repeats: str = ""
    model: str = ""
    ended: float | None = None
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Execution:
    """The result of running an allowed call.

    `exit_code` is None when a limit ended the command; `limit` then names it (`wall-time`,
    `memory`, `output`, ...). `output` is stdout and stderr as they came, cut at the output limit;
    `cut` says that it was.
    """

    exit_code: int | None
    output: str
    seconds: float
    limit: str = ""
    cut: bool = False


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One tool call with all that followed from it. `turn` and `position` count from 0.

    `verdict` is by our allow list. `harness` says what a real harness did with the call, where one
    played: `ran`, `denied`, `refused` (it could not take it); `reply` is then the harness's.
    """

    turn: int
    position: int
    call: ToolCall
    verdict: Verdict
    reply: str
    execution: Execution | None = None
    objection: str = ""  # what the second reader said, when it was asked and did not agree
    harness: str = ""


def last_denied(calls: Sequence[CallRecord]) -> bool:
    """Return True if a call of the last turn with calls was denied."""
    return any(not call.verdict.allowed for call in calls if call.turn == calls[-1].turn)


@dataclass(frozen=True, slots=True)
class HandshakeStep:
    """One ordered step of a handshake, and the call after which its check first held.

    `agent` (a label), `turn` and `position` identify the call; they are None if nothing was checked
    between calls. A step is in order if no earlier step was reached after it.
    """

    name: str
    reached: bool
    agent: str | None = None
    turn: int | None = None
    position: int | None = None
    in_order: bool | None = None


@dataclass(frozen=True, slots=True)
class AgentPart:
    """One sub-agent's part in a trial. `number` counts from 1, in the order they were started.

    `parent` is the number of the agent that requested it, 0 for the first one; `turn` and
    `position` say by which of its calls, and are None if not recorded. `reason` says why it
    was refused, or how the program that stands for an agent failed. `prompt` is what it began with.
    """

    name: str
    number: int
    parent: int
    depth: int
    ending: Ending
    turns: tuple[Turn, ...] = ()
    calls: tuple[CallRecord, ...] = ()
    reason: str = ""
    turn: int | None = None
    position: int | None = None
    prompt: tuple[Message, ...] = ()

    @property
    def label(self) -> str:
        """The label of the agent in its trial; the first one's is empty."""
        return f"{self.name}/{self.number}" if self.number else ""


@dataclass(frozen=True, slots=True)
class Trial:
    """One attempt at one scenario, finished. `number` counts from 1 within its run and scenario.

    Turns, calls and ending are the first agent's; the sub-agents that it led to stand in `agents`.
    `prompt` is what that agent began with, system and task; empty if it was not recorded.
    `reason` says why it is void, what it did again and again, and which checks did not hold;
    `cause` is that of a void. `goal` has each check of the goal, made at the end. `goal_turn` is
    the first agent's turn after which the goal first held; None if it never did, or if it was not
    recorded.
    `retries` counts the requests that were sent again, as the server had not taken them;
    `stretched` says how many times its time the trial was given, as the server is slow.
    """

    scenario: str
    number: int
    seed: int
    turns: tuple[Turn, ...]
    calls: tuple[CallRecord, ...]
    ending: Ending
    outcome: Outcome
    reason: str = ""
    handshake: tuple[HandshakeStep, ...] = ()
    seconds: float = 0.0
    agents: tuple[AgentPart, ...] = ()
    cause: Cause | None = None
    retries: int = 0
    stretched: float = 1.0
    goal: tuple[GoalCheck, ...] = ()
    goal_turn: int | None = None
    prompt: tuple[Message, ...] = ()

    @property
    def parts(self) -> "tuple[Trial | AgentPart, ...]":
        """The first agent's part, which is the trial itself, and those of its sub-agents."""
        return (self, *self.agents)


class Limit(StrEnum):
    """The values of `trial.trial.Execution.limit`."""

    WALL_TIME = "wall-time"
    CPU = "cpu"
    MEMORY = "memory"
    PROCESSES = "processes"
    OPEN_FILES = "open-files"
    FILE_SIZE = "file-size"
    WORKSPACE = "workspace"
    INODES = "inodes"
    OUTPUT = "output"
    STUCK = "stuck"  # it could not be killed in time; the world behind it is a new one


# Counts.

Cluster = tuple[int, int]  # of one trial: how many, out of how many
Session = Sequence[str | None]  # the calls of one trial: the primary class of a denied one, or None


@dataclass(frozen=True, slots=True)
class ErrorCounts:
    """Calls and errors by trial. A call has one primary class, so classes add up to errors.

    `by_trial` is False for counts that cannot be assigned to single trials.
    """

    calls: tuple[int, ...]
    by_class: Mapping[str, tuple[int, ...]]
    by_trial: bool = True

    @classmethod
    def of(cls, sessions: Sequence[Session]) -> "ErrorCounts":
        counts = [(len(session), Counter(filter(None, session))) for session in sessions]
        return cls.added(counts)

    @classmethod
    def added(cls, trials: Sequence[tuple[int, Mapping[str, int]]]) -> "ErrorCounts":
        """Build the counts from each trial's calls and its errors by class."""
        classes = sorted({name for _, errors in trials for name in errors})
        by_class = {}
        for name in classes:
            by_class[name] = tuple(errors.get(name, 0) for _, errors in trials)
        return cls(tuple(calls for calls, _ in trials), by_class)

    @property
    def errors(self) -> tuple[int, ...]:
        """Errors of each trial, all classes together."""
        columns = zip(*self.by_class.values(), self._nothing(), strict=True)
        return tuple(map(sum, columns))

    def total(self) -> tuple[Cluster, ...]:
        return tuple(zip(self.errors, self.calls, strict=True))

    def clusters(self, failure_class: str) -> tuple[Cluster, ...]:
        counts = self.by_class.get(failure_class, self._nothing())
        return tuple(zip(counts, self.calls, strict=True))

    def folded(self, into: Mapping[str, str]) -> "ErrorCounts":
        """Return the same counts under coarser names; a class that `into` lacks keeps its own."""
        rows: dict[str, tuple[int, ...]] = {}
        for name, counts in self.by_class.items():
            row = into.get(name, name)
            before = rows.get(row, self._nothing())
            sums = map(sum, zip(before, counts, strict=True))
            rows[row] = tuple(sums)
        return replace(self, by_class=rows)

    def chosen(self, places: Sequence[int]) -> "ErrorCounts":
        """The counts of the trials at these places, in this order."""

        def pick(counts: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(counts[place] for place in places)

        by_class = {name: pick(counts) for name, counts in self.by_class.items()}
        return replace(self, calls=pick(self.calls), by_class=by_class)

    def unknown(self) -> "ErrorCounts":
        """Return as many trials without calls: which calls were errors is unknown."""
        return ErrorCounts(self._nothing(), {}, self.by_trial)

    def _nothing(self) -> tuple[int, ...]:
        return (0,) * len(self.calls)


@dataclass(frozen=True, slots=True)
class Influence:
    """The trial without which a rate changes most: its share, and the rate without it.

    `low` and `high` are the rates between which any one trial left out keeps it.
    """

    at: int
    errors: Cluster  # of the trial, of all
    calls: Cluster
    without: float
    low: float
    high: float

    @property
    def runs_away(self) -> bool:
        """Return True if one trial dominates the rate: 5 errors or more, and a third of all."""
        errors, total = self.errors
        return errors >= 5 and 3 * errors >= total


def influence(clusters: Sequence[Cluster]) -> Influence | None:
    """Return the trial of most influence; None without an error, or with all calls in one trial."""
    errors = sum(count for count, _ in clusters)
    calls = sum(size for _, size in clusters)
    if not errors or any(size == calls for _, size in clusters):
        return None
    rates_without = [(errors - count) / (calls - size) for count, size in clusters]
    changes = [abs(rate - errors / calls) for rate in rates_without]
    at = changes.index(max(changes))
    count, size = clusters[at]
    return Influence(
        at,
        errors=(count, errors),
        calls=(size, calls),
        without=rates_without[at],
        low=min(rates_without),
        high=max(rates_without),
    )
