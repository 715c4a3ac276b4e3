"""The figures of a candidate that a gate compares with its limits, each with its test."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agenteval.core.counts import Cluster
from agenteval.core.pairing import Pairing
from agenteval.core.summary import RunSummary, TrialSummary
from agenteval.stats.criteria import (
    CRITERIA,
    NOT_COMPLETED,
    Criterion,
    Rules,
    errors_of,
    no_error_of,
)
from agenteval.stats.estimand import (
    NOTHING,
    Estimand,
    Layout,
    met_strata,
    strata,
    summed,
)
from agenteval.stats.guarded_tests import Groups, comparison, rate_test
from agenteval.stats.limit_tests import LimitTest

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
