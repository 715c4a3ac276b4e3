"""A trial as it happened: messages, turns, calls and how it ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Literal

from agenteval.core.call import ToolCall, Verdict
from agenteval.core.malformed import MalformedCall, Repair
from agenteval.core.outcome import Ending, Outcome
from agenteval.core.scenario import GoalCheck
from agenteval.errors import Cause


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

    @property
    def gaps(self) -> tuple[float, float, float, float]:
        return self.gap_mean, self.gap_median, self.gap_p95, self.gap_longest


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

    `reasoning` is what the model thought before it; `core.cards` says when it is sent back.
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


class Limit(StrEnum):
    """The values of `core.trial.Execution.limit`."""

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
