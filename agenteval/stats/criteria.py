"""The criteria of a gate, and the figures of a candidate that it compares with its limits.

A criterion is one entry of `_ENTRIES`, or comes from a plug-in; `Rules` are the limits of gate.toml
that name them. `measures` counts what the rules limit, and gives each figure its test.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Flag, auto
from typing import TYPE_CHECKING, Any

from agenteval import plugins
from agenteval.stats.limits import Groups, LimitTest, comparison, rate_test
from agenteval.stats.rates import (
    NOTHING,
    PLANNED_ICC,
    Clusters,
    Estimand,
    Layout,
    Strata,
    met_strata,
    strata,
    summed,
    total,
)
from agenteval.trial.call import Outcome
from agenteval.trial.recovery import NO_DENIALS
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


class Drawn(Flag):
    """The parts of a simulated trial that a rehearsal draws before any criterion is asked."""

    OUTCOME = auto()
    DENIED_CALLS = auto()


@dataclass(frozen=True, slots=True)
class Criterion:
    """A share of something undesirable that a gate can limit in a candidate.

    `name` is its key under [budgets] in gate.toml. `unit` is the unit of its n. `meaning` describes
    the limited quantity, as in "fewer than 15 MEANING".

    `counts` returns how many out of how many for one trial. `moved_by` names what of a trial moves
    that count: the outcome, the denied calls, or both. Of any other count it is a function that
    returns a simulated trial in which each of them happens with the given chance. Raises ValueError
    if what is named does not move the count, or something else does: a rehearsal would misstate it.

    `of_void` counts void trials too. `in_tables` marks a criterion that a table of counts also has.
    """

    name: str
    unit: str
    meaning: str
    counts: Counted
    moved_by: Drawn | Simulated
    of_void: bool = False
    in_tables: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.moved_by, Drawn):
            return
        named = {_WORDS[kind] for kind in self.moved_by}
        for difference, series in _SERIES.items():
            is_moved = any(self._tells_apart(trials) for trials in series)
            if is_moved and difference not in named:
                raise ValueError(
                    f"criterion {self.name!r} is moved by {difference} too, which it does not "
                    f"say: {_CURE}"
                )
            if difference in named and not is_moved:
                raise ValueError(
                    f"criterion {self.name!r} is said to be moved by {difference}, and counts "
                    f"trials alike that differ in nothing else: {_CURE}"
                )

    def _tells_apart(self, trials: Iterable[TrialSummary]) -> bool:
        return len({int(self.counts(trial)[0]) for trial in trials}) > 1

    @property
    def is_drawn(self) -> bool:
        """True if the trials that a rehearsal draws have the count already."""
        return isinstance(self.moved_by, Drawn)

    def simulate(
        self, trial: TrialSummary, share: float, rng: "np.random.Generator"
    ) -> TrialSummary:
        """Return the simulated trial with what this counts, which happens with this chance."""
        if isinstance(self.moved_by, Drawn):
            return trial
        return self.moved_by(trial, share, rng)

    def counted(self, trials: Iterable[TrialSummary]) -> Iterator[tuple[TrialSummary, Cluster]]:
        """Yield the trials that the figure is computed from, with the counts of each."""
        for trial in trials:
            if self.of_void or not trial.void:
                cluster = self.counts(trial)
                if cluster[1] > 0:
                    yield trial, cluster


# What a criterion is tried on when it is made: series of trials that differ in one thing alone.
_MANY = 1000
_WORDS = {Drawn.OUTCOME: "the outcome", Drawn.DENIED_CALLS: "denied calls"}
_CURE = "let it count what moves it alone, or give it a function that simulates it"
# What a rehearsal never draws, or only so that a worse candidate has as much of it.
_UNDRAWN: Mapping[str, Any] = {
    "executed": _MANY,
    "crashed": _MANY,
    "retries": _MANY,
    "prompt_tokens": _MANY,
    "goal_turn": 1,
    "stretched": 2.0,
    "recovery": replace(NO_DENIALS, turns_burned=(0, _MANY)),
}


class _EveryClass(Mapping[str, int]):
    """A count of errors that is the same for whatever failure class is asked for."""

    def __getitem__(self, name: str) -> int:
        return _MANY

    def __iter__(self) -> Iterator[str]:
        return iter(["any"])

    def __len__(self) -> int:
        return 1


def _series() -> dict[str, list[list[TrialSummary]]]:
    """Return, by what they differ in, series of trials of which all else is the same."""
    idle = [TrialSummary("", 1, 0, outcome) for outcome in Outcome]
    busy = [replace(trial, calls=_MANY, executed=_MANY) for trial in idle]
    denied = [replace(trial, calls=_MANY, errors=_EveryClass()) for trial in idle]
    series = {
        "the outcome": [idle, busy, denied],
        "denied calls": [list(pair) for pair in zip(busy, denied, strict=True)],
        "calls": [list(pair) for pair in zip(idle, busy, strict=True)],
    }
    for name, value in _UNDRAWN.items():
        series[name] = [[trial, replace(trial, **{name: value})] for trial in (*busy, *denied)]
    return series


_SERIES = _series()


def _count_errors(trial: TrialSummary) -> Cluster:
    return trial.all_errors


def _count_not_completed(trial: TrialSummary) -> Cluster:
    return trial.observed and not trial.completed, int(trial.observed)


def _count_missed_handshakes(trial: TrialSummary) -> Cluster:
    return (not trial.closed, 1) if trial.handshake else (0, 0)


def _miss_handshake(trial: TrialSummary, share: float, rng: "np.random.Generator") -> TrialSummary:
    if not trial.handshake:
        return trial
    reached = rng.random() >= share
    return replace(trial, handshake=(HandshakeStep(trial.handshake[0].name, reached=reached),))


def _count_crashes(trial: TrialSummary) -> Cluster:
    return trial.crashed, trial.executed


def _crash(trial: TrialSummary, share: float, rng: "np.random.Generator") -> TrialSummary:
    return replace(trial, crashed=int(rng.binomial(trial.executed, share)))


def _ended(outcome: Outcome, meaning: str) -> Criterion:
    """Return the criterion of trials that end so, which has the name of the outcome."""

    def count(trial: TrialSummary) -> Cluster:
        return trial.outcome is outcome, int(trial.observed)

    name = outcome.replace("-", "_")
    return Criterion(name, TRIALS, f"{meaning}, per 100", count, Drawn.OUTCOME)


_ENTRIES = (
    Criterion(
        NOT_COMPLETED,
        TRIALS,
        "trials whose goal was not reached, however they ended, per 100",
        _count_not_completed,
        Drawn.OUTCOME,
    ),
    Criterion(
        "errors",
        CALLS,
        "denied calls, per 100 calls",
        _count_errors,
        Drawn.DENIED_CALLS,
        in_tables=True,
    ),
    Criterion(
        "handshake_missed",
        HANDSHAKES,
        "trials whose handshake is not closed in order, per 100 that have one",
        _count_missed_handshakes,
        _miss_handshake,
    ),
    _ended(Outcome.CLAIMED_DONE, "trials that end with words of success and the goal unmet"),
    _ended(Outcome.GAVE_UP, "trials that the model ends after a denial, with the goal unmet"),
    _ended(Outcome.STALLED, "trials that end alive and without the transition asked for"),
    _ended(Outcome.LOOPED, "trials in which the model does the same again and again"),
    _ended(Outcome.OUT_OF_TURNS, "trials that use up their turns or tokens"),
    _ended(Outcome.TIMED_OUT, "trials that use up their time"),
    _ended(Outcome.OUT_OF_CONTEXT, "trials whose conversation outgrows the model's context"),
    Criterion(
        "crashed",
        COMMANDS,
        "executed commands that a limit or a signal ended, per 100",
        _count_crashes,
        _crash,
    ),
    replace(
        _ended(Outcome.VOID, "trials that our side or the server broke"),
        meaning="trials that our side or the server broke, per 100: left out, they flatter",
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
        Drawn.DENIED_CALLS,
    )


def _no_error_of(failure_class: str) -> Criterion:
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

        def others(limits: Mapping[str, float], prefix: str) -> dict[str, float]:
            return {of: limit for of, limit in limits.items() if f"{prefix}.{of}" not in names}

        return replace(
            self,
            budgets=others(self.budgets, "budgets"),
            classes=others(self.classes, "budgets.classes"),
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
    baseline: RunSummary,
    candidate: RunSummary,
    pairing: Pairing,
    rules: Rules,
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
        yield f"never.{name}", _no_error_of(name), rules.never_below


def _budget(
    name: str,
    criterion: Criterion,
    limit: float,
    counted: Sequence[tuple[TrialSummary, Cluster]],
    rules: Rules,
) -> Measure:
    layout = Layout(rules.about, [trial.scenario for trial, _ in counted])
    clusters = [cluster for _, cluster in counted]
    count, n = total(clusters)
    test = rate_test(*layout.grouped(clusters), icc=rules.icc)
    return Measure(name, criterion, limit, count, n, test, forbidden=name.startswith("never."))


def _margin(
    name: str,
    criterion: Criterion,
    limit: float,
    pairing: Pairing,
    rules: Rules,
) -> Measure:
    """Return the measure of the candidate relative to the baseline, in the compared trials."""
    sides = pairing.first, pairing.second
    columns = [[criterion.counts(trial) for trial in side] for side in sides]
    names = [[trial.scenario for trial in side] for side in sides]
    (_, baseline_n), (count, n) = map(total, columns)
    test = None
    if baseline_n and n and pairing.alike:
        groups, strata = _groups(columns, names, rules.about, paired=pairing.paired)
        test = comparison(groups, strata, limit=limit, ratio=rules.ratio, icc=rules.icc)
    compared = pairing.second
    return Measure(name, criterion, limit, count, n, test, paired=True, compared=compared)


def _groups(
    columns: Sequence[Clusters],
    names: Sequence[Sequence[str]],
    about: Estimand,
    *,
    paired: bool,
) -> tuple[Groups, Strata]:
    """Return the groups of counts of both sides, and the stratum of each.

    A group is a scenario, a task instance that both met, or a trial of one side.
    """
    if about is Estimand.LIKE:
        scenarios = sorted({*names[0], *names[1]})
        nothing = [NOTHING] * len(scenarios)
        # Both sides get a group for each scenario, also for one that they did not play.
        sides = [
            summed([*clusters, *nothing], [*own_names, *scenarios])
            for clusters, own_names in zip(columns, names, strict=True)
        ]
        return [*zip(*sides, strict=True)], ()
    baseline, candidate = columns
    if paired:
        return [*zip(baseline, candidate, strict=True)], strata(names[0])
    groups = [(cluster, NOTHING) for cluster in baseline]
    groups += [(NOTHING, cluster) for cluster in candidate]
    baseline_strata, candidate_strata = met_strata(*names)
    # Below 0: a stratum of the candidate's is none of the baseline's.
    return groups, [*baseline_strata, *(-1 - stratum for stratum in candidate_strata)]
