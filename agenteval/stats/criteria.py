"""The criteria of a gate, an entry each, and the rules of gate.toml that limit them.

The figures of a candidate that a gate compares with its limits, each with its test.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agenteval import plugins
from agenteval.stats.limits import Groups, LimitTest, comparison, rate_test
from agenteval.stats.rates import NOTHING, PLANNED_ICC, Estimand, Layout, met_strata, strata, summed
from agenteval.trial.call import Outcome
from agenteval.trial.summary import Pairing, RunSummary, TrialSummary
from agenteval.trial.trial import Cluster, HandshakeStep

if TYPE_CHECKING:
    import numpy as np
Counted = Callable[[TrialSummary], Cluster]
Simulated = Callable[[TrialSummary, float, "np.random.Generator"], TrialSummary]
CALLS, TRIALS, COMMANDS, HANDSHAKES = "calls", "trials", "commands", "handshakes"
NOT_COMPLETED = "not_completed"
VOID = "void"
GROUP = "agenteval.criteria"


@dataclass(frozen=True, slots=True)
class Criterion:
    """A share of something undesirable that a gate can limit in a candidate.

    `name` is its key under [budgets] in gate.toml. `unit` is the unit of its n. `meaning` describes
    the limited quantity, as in "fewer than 15 MEANING".

    `counts` returns how many out of how many for one trial. `simulate` returns a simulated trial in
    which each of them happens with the given chance. It is `as_it_ended` where the outcome, drawn
    before, determines the count, and `as_it_erred` where the denied calls do. Raises ValueError if
    it is `as_it_ended` and no outcome counts: a rehearsal would assume that it never happens.

    `of_void` counts void trials too. `in_tables` marks a criterion that a table of counts also has.
    """

    name: str
    unit: str
    meaning: str
    counts: Counted
    simulate: Simulated
    of_void: bool = False
    in_tables: bool = False

    def __post_init__(self) -> None:
        if self.simulate is as_it_ended and not any(self.counts(end)[0] for end in _ENDS):
            raise ValueError(
                f"criterion {self.name!r} is simulated as_it_ended, and counts no trial, however "
                "that ends: let it count an Outcome that there is, or give it its own `simulate`"
            )

    def counted(self, trials: Iterable[TrialSummary]) -> Iterator[tuple[TrialSummary, Cluster]]:
        """Yield the trials that the figure is computed from, with the counts of each."""
        for trial in trials:
            if self.of_void or not trial.void:
                cluster = self.counts(trial)
                if cluster[1] > 0:
                    yield trial, cluster


def as_it_ended(trial: TrialSummary, share: float, rng: "np.random.Generator") -> TrialSummary:  # noqa: ARG001 -- as all that simulate
    return trial


def as_it_erred(trial: TrialSummary, share: float, rng: "np.random.Generator") -> TrialSummary:  # noqa: ARG001 -- as all that simulate
    return trial


DRAWN = (as_it_ended, as_it_erred)  # before any criterion is asked
# Each end that is drawn: of trials without a call, with many, and with as many that were denied.
_MANY = 1000
_ENDS = [
    made
    for end in Outcome
    for idle in (TrialSummary("", 1, 0, end),)
    for made in (
        idle,
        replace(idle, calls=_MANY, executed=_MANY),
        replace(idle, calls=_MANY, errors={"any": _MANY}),
    )
]


def _errors(trial: TrialSummary) -> Cluster:
    return trial.all_errors


def _ended(outcome: Outcome) -> Counted:
    return lambda trial: (trial.outcome is outcome, int(trial.observed))


def _not_completed(trial: TrialSummary) -> Cluster:
    return trial.observed and not trial.completed, int(trial.observed)


def _handshake_missed(trial: TrialSummary) -> Cluster:
    return (not trial.closed, 1) if trial.handshake else (0, 0)


def _handshakes(trial: TrialSummary, share: float, rng: "np.random.Generator") -> TrialSummary:
    if not trial.handshake:
        return trial
    reached = rng.random() >= share
    return replace(trial, handshake=(HandshakeStep(trial.handshake[0].name, reached=reached),))


def _crashed(trial: TrialSummary) -> Cluster:
    return trial.crashed, trial.executed


def _crashes(trial: TrialSummary, share: float, rng: "np.random.Generator") -> TrialSummary:
    return replace(trial, crashed=int(rng.binomial(trial.executed, share)))


_ENTRIES = (
    Criterion(
        NOT_COMPLETED,
        TRIALS,
        "trials whose goal was not reached, however they ended, per 100",
        _not_completed,
        as_it_ended,
    ),
    Criterion("errors", CALLS, "denied calls, per 100 calls", _errors, as_it_erred, in_tables=True),
    Criterion(
        "handshake_missed",
        HANDSHAKES,
        "trials whose handshake is not closed in order, per 100 that have one",
        _handshake_missed,
        _handshakes,
    ),
    Criterion(
        "claimed_done",
        TRIALS,
        "trials that end with words of success and the goal unmet, per 100",
        _ended(Outcome.CLAIMED_DONE),
        as_it_ended,
    ),
    Criterion(
        "gave_up",
        TRIALS,
        "trials that the model ends after a denial, with the goal unmet, per 100",
        _ended(Outcome.GAVE_UP),
        as_it_ended,
    ),
    Criterion(
        "stalled",
        TRIALS,
        "trials that end alive and without the transition asked for, per 100",
        _ended(Outcome.STALLED),
        as_it_ended,
    ),
    Criterion(
        "looped",
        TRIALS,
        "trials in which the model does the same again and again, per 100",
        _ended(Outcome.LOOPED),
        as_it_ended,
    ),
    Criterion(
        "out_of_turns",
        TRIALS,
        "trials that use up their turns or tokens, per 100",
        _ended(Outcome.OUT_OF_TURNS),
        as_it_ended,
    ),
    Criterion(
        "timed_out",
        TRIALS,
        "trials that use up their time, per 100",
        _ended(Outcome.TIMED_OUT),
        as_it_ended,
    ),
    Criterion(
        "out_of_context",
        TRIALS,
        "trials whose conversation outgrows the model's context, per 100",
        _ended(Outcome.OUT_OF_CONTEXT),
        as_it_ended,
    ),
    Criterion(
        "crashed",
        COMMANDS,
        "executed commands that a limit or a signal ended, per 100",
        _crashed,
        _crashes,
    ),
    Criterion(
        VOID,
        TRIALS,
        "trials that our side or the server broke, per 100: left out, they flatter",
        _ended(Outcome.VOID),
        as_it_ended,
        of_void=True,
    ),
)
SHIPPED: Mapping[str, Criterion] = {one.name: one for one in _ENTRIES}


def _plugged() -> Iterator[Criterion]:
    """Yield the criteria of plug-ins whose names are not taken and are valid in gate.toml."""
    for name, criterion in plugins.load(
        GROUP, lambda plugged: isinstance(plugged, Criterion)
    ).items():
        if criterion.name in SHIPPED or not criterion.name.isidentifier():
            plugins.leave_out(
                GROUP, name, f"{criterion.name}: the name is taken, or no key of gate.toml"
            )
        else:
            yield criterion


CRITERIA: Mapping[str, Criterion] = {**SHIPPED, **{one.name: one for one in _plugged()}}


def errors_of(failure_class: str) -> Criterion:
    """Return the criterion that counts the errors of one failure class, of all calls."""
    return Criterion(
        f"classes.{failure_class}",
        CALLS,
        "errors of this class, per 100 calls",
        lambda trial: trial.errors_of(failure_class),
        as_it_erred,
    )


def no_error_of(failure_class: str) -> Criterion:
    """Return the criterion of a class that must never occur; errors of sub-agents count too."""
    return replace(
        errors_of(failure_class),
        name=f"never.{failure_class}",
        counts=lambda trial: trial.errors_of_anybody(failure_class),
    )


@dataclass(frozen=True, slots=True)
class Rules:
    """The limits of gate.toml.

    All shares are fractions; so is the margin (0.03 is three points), unless it is a ratio.

    `margin` applies to the error rate over all calls. `completed` is how many points fewer trials
    the candidate may complete than the baseline; None means no limit. `budgets` are by the
    criteria's names.

    `never` are classes of which one error of any agent is one too many. Their absence counts only
    when a rate of `never_below` or more can be ruled out.
    """

    margin: float
    ratio: bool = False
    completed: float | None = None
    budgets: Mapping[str, float] = field(default_factory=dict)
    classes: Mapping[str, float] = field(default_factory=dict)
    never: tuple[str, ...] = ()
    never_below: float = 0.01
    trials: int = 0
    calls: int = 0
    icc: float = PLANNED_ICC
    looks: int = 1
    about: Estimand = Estimand.THESE

    def without(self, names: Collection[str]) -> "Rules":
        """Return the rules without these budgets and classes, named as in `stats.measures`."""
        return replace(
            self,
            budgets={of: n for of, n in self.budgets.items() if f"budgets.{of}" not in names},
            classes={
                of: n for of, n in self.classes.items() if f"budgets.classes.{of}" not in names
            },
            never=tuple(of for of in self.never if f"never.{of}" not in names),
        )


MARGIN, MARGIN_COMPLETED = "margin", "margin.completed"


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of the candidate: `count` of `n` units of its criterion.

    `name` is as in gate.toml. `test` is None when a side has nothing to count. `paired` marks a
    figure that is compared with the baseline's, from the trials in `compared`. `forbidden`: one
    occurrence is one too many.
    """

    name: str
    criterion: Criterion
    limit: float
    count: int
    n: int
    test: LimitTest | None
    paired: bool = False
    compared: tuple[TrialSummary, ...] = ()
    forbidden: bool = False

    @property
    def of(self) -> str:
        return self.criterion.unit


def measures(
    baseline: RunSummary, candidate: RunSummary, pairing: Pairing, rules: Rules
) -> Iterator[Measure]:
    """Yield the margins over the pairing, and every budget that has anything to count.

    A budget with counts in the baseline but none in the candidate has no test, so it cannot pass.
    """
    yield _margin(MARGIN, CRITERIA["errors"], rules.margin, pairing, rules)
    if rules.completed is not None and not (baseline.of_counts and NOT_COMPLETED in rules.budgets):
        known = replace(pairing, first=()) if baseline.of_counts else pairing
        absolute, criterion = replace(rules, ratio=False), CRITERIA[NOT_COMPLETED]
        yield _margin(MARGIN_COMPLETED, criterion, rules.completed, known, absolute)
    for name, criterion, limit in _limited(rules):
        counted = [*criterion.counted(candidate.trials)]
        if counted:
            yield _budget(name, criterion, limit, counted, rules)
        elif _is_expected(criterion, baseline, candidate):
            never = name.startswith("never.")
            yield Measure(name, criterion, limit, 0, 0, None, forbidden=never)


def _is_expected(criterion: Criterion, baseline: RunSummary, candidate: RunSummary) -> bool:
    """Return True if trials of the baseline, or void ones of the candidate, can be counted."""
    known = () if baseline.of_counts else baseline.trials
    return any(criterion.counts(trial)[1] > 0 for trial in (*known, *candidate.trials))


def _limited(rules: Rules) -> Iterator[tuple[str, Criterion, float]]:
    for budget, limit in rules.budgets.items():
        yield f"budgets.{budget}", CRITERIA[budget], limit
    for name, limit in rules.classes.items():
        yield f"budgets.classes.{name}", errors_of(name), limit
    for name in rules.never:
        yield f"never.{name}", no_error_of(name), rules.never_below


def _budget(
    name: str,
    criterion: Criterion,
    limit: float,
    counted: Sequence[tuple[TrialSummary, Cluster]],
    rules: Rules,
) -> Measure:
    layout = Layout(rules.about, [trial.scenario for trial, _ in counted])
    clusters = [cluster for _, cluster in counted]
    count, n = map(sum, zip(*clusters, strict=True))
    test = rate_test(*layout.grouped(clusters), icc=rules.icc)
    return Measure(name, criterion, limit, count, n, test, forbidden=name.startswith("never."))


def _margin(
    name: str, criterion: Criterion, limit: float, pairing: Pairing, rules: Rules
) -> Measure:
    """Return the measure of the candidate relative to the baseline, in the compared trials."""
    trials = pairing.first, pairing.second
    columns = [[criterion.counts(trial) for trial in side] for side in trials]
    names = [[trial.scenario for trial in side] for side in trials]
    groups, strata = _groups(columns, names, rules.about, paired=pairing.paired)
    sizes = [sum(size for _, size in clusters) for clusters in columns]
    count, test = sum(count for count, _ in columns[1]), None
    if all(sizes) and pairing.alike:
        test = comparison(groups, strata, limit=limit, ratio=rules.ratio, icc=rules.icc)
    compared = pairing.second
    return Measure(name, criterion, limit, count, sizes[1], test, paired=True, compared=compared)


def _groups(
    columns: Sequence[Sequence[Cluster]],
    names: Sequence[Sequence[str]],
    about: Estimand,
    *,
    paired: bool,
) -> tuple[Groups, Sequence[int]]:
    """Return the groups of counts of both sides, and the stratum of each.

    A group is a scenario, a task instance that both met, or a trial of one side.
    """
    baseline_column, candidate_column = columns
    if about is Estimand.LIKE:
        scenarios = sorted({name for side in names for name in side})
        nothing = [NOTHING] * len(scenarios)
        sides = [
            summed([*side, *nothing], [*of, *scenarios])
            for side, of in zip(columns, names, strict=True)
        ]
        return [*zip(*sides, strict=True)], ()
    if paired:
        return [*zip(baseline_column, candidate_column, strict=True)], strata(names[0])
    own, other = met_strata(*names)
    alone = [
        *((each, NOTHING) for each in baseline_column),
        *((NOTHING, each) for each in candidate_column),
    ]
    return alone, [*own, *(-1 - stratum for stratum in other)]
