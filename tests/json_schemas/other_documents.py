"""The keys and types of what is printed with --json of logs, commands, servers and this machine."""

from dataclasses import dataclass
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from agenteval.stats.loads import Load, Timeline
from agenteval.stats.quantiles import Samples
from json_schemas.documents import Evidence


class Differing(TypedDict):
    count: int
    calls: list[str]


class LogRun(TypedDict):
    id: str
    model: str
    format: str
    sessions: dict[Literal["added", "grown", "unchanged"], int]
    recorded: dict[str, int]
    derived: dict[Literal["allowed", "denied"], int]
    policies: dict[str, int]
    differ: Differing


class SkippedPart(TypedDict):
    path: str
    at: str
    reason: str


class NoSession(TypedDict):
    path: str
    formats: list[str]


class Ingest(TypedDict):
    schema: Literal["agenteval.ingest/1"]
    files: int
    files_unchanged: int
    sessions_left_out: int
    sessions_empty: int
    workers_lost: int
    runs: list[LogRun]
    redacted: list[str]
    skipped_parts: int
    skipped: list[SkippedPart]
    no_session: NoSession | None


class TrendPoint(TypedDict):
    model: str
    label: str
    trials: int
    errors: int
    calls: int
    low: float
    high: float


TrendChange = TypedDict(
    "TrendChange", {"model": str, "from": str, "since": str, "p_adjusted": float}
)


class Trend(TypedDict):
    schema: Literal["agenteval.trend/1"]
    by: Literal["day", "week", "model", "version"]
    points: list[TrendPoint]
    changes: list[TrendChange]
    left_out: int
    judged_since: int


Classify = TypedDict(
    "Classify",
    {
        "id": NotRequired[str],
        "command": str | None,
        "name": NotRequired[str],
        "arguments": NotRequired[dict[str, Any] | str],
        "verdict": Literal["allowed", "denied"],
        "class": str | None,
        "also": list[str],
        "evidence": Evidence | None,
        "hint": str,
        "facets": list[str],
    },
)


class Per100(TypedDict):
    per_100: float
    n: int
    low: float
    high: float


class RelaxedModel(TypedDict):
    run: str
    model: str
    simulated: bool
    rate: Per100
    first_changes_only: Per100


class LetThrough(TypedDict):
    command: str
    count: int
    facets: list[str]


class Relaxed(TypedDict):
    allow: list[str]
    constructs: list[str]
    rate: Per100
    first_changes_only: Per100
    models: list[RelaxedModel]
    flips: list[tuple[str, str]]
    lets_through: list[LetThrough]


class Whatif(TypedDict):
    now: Relaxed
    relaxed: list[Relaxed]
    is_smallest: bool


class Speed(TypedDict):
    model: str
    simulated: bool
    run: str
    concurrency: int
    requests: int
    completion_tokens: int
    seconds: float | None
    useful: int | None
    failed: int
    joules: float | None
    generation: Samples | None
    prefill: Samples | None
    first: Samples | None
    windows: Timeline
    tokens_per_second: float | None
    completions_per_minute: float | None
    useful_per_minute: float | None
    by_pieces: bool
    watts: float | None
    tokens_per_kwh: float | None


@dataclass(frozen=True)
class LoadAtPower(Load):
    tokens_per_kwh: float | None


class SpeedLog(TypedDict):
    window: float
    lines: int
    engine_lines: int
    completions: int
    failed: int
    unread: int
    windows: int
    unplaced: int
    watts: float | None
    by_running: list[LoadAtPower]


class Scenario(TypedDict):
    name: str
    title: str
    policy: str
    fixture: str
    tools: list[str]
    variants: int
    steps: int
    handshake: list[str]
    agents: list[str]
    invites: list[str]
    max_turns: int | None


class Proof(TypedDict):
    scenario: str
    worlds: int
    calls: int
    slips: list[str]
    faults: list[str]
    tried: int
    answers: int


class SimulatedModel(TypedDict):
    name: str
    simulated: Literal[True]


class Groups(TypedDict):
    held: list[str]
    lacking: str
    cure: str


class Sandbox(TypedDict):
    backend: str
    works: bool
    reason: str
    cure: str
    blocked: list[tuple[str, str]]


class Attempt(TypedDict):
    part: str
    attempt: str
    came: str
    wanted: str
    held: bool


class Doctor(TypedDict):
    chosen: str | None
    control_groups: Groups
    landlock: int
    sandboxes: list[Sandbox]
    inbound: list[Attempt]
    second_reader: dict[str, int]
