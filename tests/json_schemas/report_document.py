"""The keys and types of a report: what `run`, `show RUN` and `compare` print with --json."""

from typing import Literal

from typing_extensions import TypedDict

from agenteval.errors import Cause
from agenteval.stats.rates import Estimand, Repeated
from agenteval.trial.call import Outcome
from agenteval.trial.recovery import Recovery
from agenteval.trial.run import ArmCard, Look, ModelCard
from agenteval.trial.tally import AsServed
from agenteval.trial.trial import GoalCheck


class Rate(TypedDict):
    count: int
    n: int
    clusters: int | None
    value: float | None
    low: float
    high: float


class Mean(TypedDict):
    count: int
    n: int
    value: float
    low: float
    high: float


class Ratio(TypedDict):
    value: float | None
    low: float | None
    high: float | None


class ClassText(TypedDict):
    id: str
    title: str
    rationale: str


class Influence(TypedDict):
    at: str
    errors: tuple[int, int]
    calls: tuple[int, int]
    without: float
    low: float
    high: float


class Model(TypedDict):
    model: str
    simulated: bool
    arm: str
    trials: int | None
    errors: Rate
    influence: Influence | None
    with_voids: list[Rate]
    by_class: dict[str, Rate]
    cannot_occur: list[str]


class _Between(TypedDict):
    low: float
    high: float
    p: float
    paired: bool


class _Compared(_Between):
    difference: float


class Figure(_Compared):
    first: Rate | Mean
    second: Rate | Mean
    ratio: Ratio | None
    p_adjusted: float | None


class Difference(_Compared):
    first: Rate
    second: Rate
    ratio: Ratio
    p_adjusted: float


class Kinds(TypedDict):
    distance: float
    by_chance: float
    divergence: float
    divergence_by_chance: float
    p: float
    g_rate: float
    g_kind: float
    p_adjusted: float


class Pair(_Between):
    first: str
    second: str
    difference: float | None
    p_adjusted: float
    calls_left_out: tuple[int, int]
    calls_needed: float | None
    calls_needed_if_half: float | None
    first_rate: Rate
    second_rate: Rate
    ratio: Ratio
    kinds: Kinds | None
    by_trial: bool
    claims: int
    classes: dict[str, Difference]
    figures: dict[str, Figure | None]


class Others(TypedDict):
    value: float
    low: float
    high: float
    p: float
    p_adjusted: float


class Architectures(TypedDict):
    first: str
    second: str
    models: tuple[dict[str, Rate], dict[str, Rate]]
    others: Others | None


class Void(TypedDict):
    scenario: str
    number: int
    cause: Cause | None
    reason: str


class Missed(TypedDict):
    scenario: str
    number: int
    outcome: Outcome
    goal_turn: int | None
    checks: list[GoalCheck]


class GoalHeld(TypedDict):
    undone: Rate
    median_turns: float | None
    median_after: float | None


class Arrivals(TypedDict):
    faulty: Rate
    kinds: dict[str, Rate]
    blames: dict[str, Rate]
    repairs: int


class ByTold(TypedDict):
    at_once: Rate
    at_all: Rate


class Dependence(TypedDict):
    difference: float
    low: float
    high: float


class Incidence(TypedDict):
    count: int
    n: int
    value: float | None
    low: float
    high: float


class AfterDenials(TypedDict):
    kinds: dict[Recovery, Rate]
    no_chance: Rate
    at_once: Rate
    within: dict[str, Rate]
    at_all: Rate
    lost: dict[Outcome, Rate]
    median_turns: float | None
    median_calls: float | None
    by_told: dict[str, ByTold]
    longest_run: int
    turns_burned: Rate
    after_denied: Rate
    after_allowed: Rate
    dependence: Dependence | None
    incidence: dict[str, dict[str, Incidence]]


class OfScenario(TypedDict):
    errors: Rate
    completed: Rate
    all_of: Repeated | None
    any_of: Repeated | None


class Step(TypedDict):
    name: str
    passed: Rate


class Handshake(TypedDict):
    scenario: str
    steps: list[Step]
    in_order: Rate


class RunOf(TypedDict):
    id: str
    model: ModelCard
    simulated: bool
    sandbox: str
    prefork: bool
    started: str
    complete: bool
    seed: int
    trials_planned: int
    max_turns: int | None
    concurrency: int
    protocol: str
    taxonomy: str
    policies: dict[str, str]
    arm: ArmCard | None
    trials: int
    voids: list[Void]
    outcomes: dict[Outcome, Rate]
    replaced: dict[str, int]
    retries: int
    stretched: float
    crashes: Rate
    looks: list[Look]
    trials_saved: int
    missed: list[Missed]
    goal_held: GoalHeld
    trials_with_denial: Rate
    tool_errors: Rate | None
    limits: dict[str, int] | None
    second_reader_objections: int | None
    second_reader: dict[str, int]
    turns: int
    completion_tokens: int | None
    speed: AsServed | None
    arrivals: Arrivals | None
    recovery: AfterDenials
    scenarios: dict[str, OfScenario]
    handshakes: list[Handshake]
    agents: dict[str, Rate]


class Report(TypedDict):
    schema: Literal["agenteval.report/2"]
    simulated: bool
    level: float
    title: str
    about: Estimand
    basis: str
    warnings: list[str]
    sentences: list[str]
    classes: list[ClassText]
    models: list[Model]
    pairs: list[Pair]
    architectures: Architectures | None
    runs: list[RunOf]
