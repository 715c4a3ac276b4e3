"""The keys and types of what is printed with --json of runs, trials, calls and gates."""

from typing import Any, Literal

from typing_extensions import TypedDict

from agenteval.errors import Cause
from agenteval.stats.promotion import GateVerdict
from agenteval.stats.rates import Estimand
from agenteval.trial.call import Ending, MalformedCall, Outcome
from agenteval.trial.trial import GoalCheck, HandshakeStep, Usage
from json_schemas.report_document import Rate


class Share(TypedDict):
    count: int
    n: int
    low: float
    high: float


class ListedRun(TypedDict):
    id: str
    model: str
    simulated: bool
    started: str
    complete: bool
    trials: int
    trials_planned: int
    seed: int
    arm: str
    source: str
    scenarios: list[str]
    void: int
    errors: Share
    reached: Share
    verdict: str
    labels: list[str]
    note: str


class ImportedTable(TypedDict):
    id: str
    model: str
    imported: str
    calls: int
    errors: int
    source: str


class Runs(TypedDict):
    schema: Literal["agenteval.runs/1"]
    runs: list[ListedRun]
    imported: list[ImportedTable]


class Said(TypedDict):
    role: Literal["system", "user", "assistant", "tool"]
    content: str


class Evidence(TypedDict):
    text: str
    start: int
    end: int


Finding = TypedDict("Finding", {"class": str, "evidence": Evidence, "hint": str})


class TranscriptCall(TypedDict):
    position: int
    tool: str
    arguments: dict[str, Any] | str
    allowed: bool
    findings: list[Finding]
    reply: str
    exit_code: int | None
    limit: str
    seconds: float | None


class TranscriptTurn(TypedDict):
    text: str
    reasoning: str
    finish_reason: str
    seconds: float
    usage: Usage
    malformed: list[MalformedCall]
    calls: list[TranscriptCall]


class TranscriptAgent(TypedDict):
    name: str
    parent: int
    turn: int | None
    position: int | None
    ending: Ending
    reason: str
    prompt: list[Said]
    turns: list[TranscriptTurn]


class Transcript(TypedDict):
    schema: Literal["agenteval.transcript/1"]
    run: str
    model: str
    simulated: bool
    arm: str | None
    scenario: str
    number: int
    seed: int
    outcome: Outcome
    ending: Ending
    reason: str
    cause: Cause | None
    seconds: float
    goal: list[GoalCheck]
    goal_turn: int | None
    handshake: list[HandshakeStep]
    prompt: list[Said]
    turns: list[TranscriptTurn]
    agents: list[TranscriptAgent]


ListedCall = TypedDict(
    "ListedCall",
    {
        "run": str,
        "model": str,
        "scenario": str,
        "number": int,
        "outcome": Outcome | Literal[""],
        "agent": str,
        "turn": int,
        "position": int,
        "tool": str,
        "arguments": str,
        "length": int,
        "cut": bool,
        "class": str,
        "allowed": bool,
        "exit_code": int | None,
    },
)


class Calls(TypedDict):
    schema: Literal["agenteval.calls/1"]
    run: str
    calls: list[ListedCall]


class GateRun(TypedDict):
    id: str
    model: str
    simulated: bool
    arm: str
    trials: int
    void: int
    calls: int
    completed: Rate | None


class GateCriterion(TypedDict):
    name: str
    estimate: float | None
    lower: float | None
    upper: float | None
    limit: float
    count: int
    n: int
    of: str
    forbidden: bool
    p_fail: float
    verdict: GateVerdict
    trials_needed: list[int | None]


class GateMinimum(TypedDict):
    of: str
    asked: int
    seen: int
    verdict: GateVerdict


class Reach(TypedDict):
    name: str
    n: int
    of: str
    enough: float | None


class Gate(TypedDict):
    schema: Literal["agenteval.gate/2"]
    verdict: GateVerdict
    simulated: bool
    level: float
    ratio: bool
    about: Estimand
    worlds_met: int
    calls_left_out: tuple[int, int]
    rules: str
    baseline: GateRun
    candidate: GateRun
    criteria: list[GateCriterion]
    minimums: list[GateMinimum]
    out_of_reach: list[Reach]
    remarks: list[str]


class Judged(TypedDict):
    passed: Rate
    failed: Rate


class Rehearsed(TypedDict):
    gate: Judged
    criteria: dict[str, Judged]


class Explain(TypedDict):
    schema: Literal["agenteval.explain/1"]
    rules: str
    size: str
    pairs: int
    meanings: dict[str, str]
    candidates: dict[str, Rehearsed]
    out_of_reach: list[Reach]


class Power(TypedDict):
    value: float
    n: int


class PlannedSize(TypedDict):
    trials: int
    calls: int
    power: Power


class Clustering(TypedDict):
    scenario: float
    trial: float


class Plan(TypedDict):
    schema: Literal["agenteval.plan/1"]
    baseline: str
    simulated: bool
    margin: float
    ratio: bool
    about: Estimand
    rate: float
    clustering: Clustering
    trials: int | None
    calls: int | None
    power: Power | None
    if_half_as_good: PlannedSize | None
    calls_per_minute: float | None
    hours: float | None
