"""The figures of a candidate that a gate holds against its limits, each with its test."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from agenteval.core.counts import Cluster
from agenteval.core.pairing import Pairing
from agenteval.core.summary import RunSummary, TrialSummary
from agenteval.stats.criteria import CRITERIA, NOT_COMPLETED, Criterion, Over, Rules, errors_of
from agenteval.stats.limit_tests import LimitTest, comparison, rate_test

_NOTHING = (0, 0)
MARGIN, MARGIN_COMPLETED = "margin", "margin.completed"


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of the candidate, from `count` of `n` of what its criterion counts.

    `name` is as in gate.toml. `test` is None when a side has nothing to count. `paired` is a figure
    beside the baseline's, made from the trials that are `compared`. `forbidden`: one occurrence is
    one too many.
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
    """The margins over the pairing, and every budget of which anything was counted."""
    yield _margin(MARGIN, CRITERIA["errors"], rules.margin, pairing, rules)
    if rules.completed is not None and not (baseline.of_counts and NOT_COMPLETED in rules.budgets):
        known = replace(pairing, first=()) if baseline.of_counts else pairing
        absolute, criterion = replace(rules, ratio=False), CRITERIA[NOT_COMPLETED]
        yield _margin(MARGIN_COMPLETED, criterion, rules.completed, known, absolute)
    for name, criterion, limit in _limited(rules):
        trials = [trial for trial in candidate.trials if criterion.applies(trial)]
        if trials:
            yield _budget(name, criterion, limit, trials, rules)


def _limited(rules: Rules) -> Iterator[tuple[str, Criterion, float]]:
    for budget, limit in rules.budgets.items():
        yield f"budgets.{budget}", CRITERIA[budget], limit
    for name, limit in rules.classes.items():
        yield f"budgets.classes.{name}", errors_of(name), limit
    for name in rules.never:
        yield f"never.{name}", errors_of(name), rules.never_below


def _budget(
    name: str, criterion: Criterion, limit: float, trials: Iterable[TrialSummary], rules: Rules
) -> Measure:
    groups: dict[object, Cluster] = {}
    for at, trial in enumerate(trials):
        key = trial.scenario if rules.over is Over.SCENARIOS else at
        groups[key] = _added(groups.get(key, _NOTHING), criterion.counts(trial))
    count, n = map(sum, zip(*groups.values(), strict=True))
    test = rate_test([*groups.values()], icc=rules.icc)
    return Measure(name, criterion, limit, count, n, test, forbidden=name.startswith("never."))


def _margin(
    name: str, criterion: Criterion, limit: float, pairing: Pairing, rules: Rules
) -> Measure:
    """The candidate beside the baseline, in the trials that are compared."""
    groups: dict[object, tuple[Cluster, Cluster]] = {}
    for side, trials in enumerate((pairing.first, pairing.second)):
        for at, trial in enumerate(trials):
            alone = at if pairing.paired else (side, at)
            key = trial.scenario if rules.over is Over.SCENARIOS else alone
            before, after = groups.get(key, (_NOTHING, _NOTHING))
            counted = criterion.counts(trial)
            groups[key] = (
                (before, _added(after, counted)) if side else (_added(before, counted), after)
            )
    sides = [[group[side] for group in groups.values()] for side in (0, 1)]
    sizes = [sum(size for _, size in clusters) for clusters in sides]
    count, test = sum(count for count, _ in sides[1]), None
    if all(sizes):
        test = comparison([*groups.values()], limit=limit, ratio=rules.ratio, icc=rules.icc)
    compared = pairing.second
    return Measure(name, criterion, limit, count, sizes[1], test, paired=True, compared=compared)


def _added(one: Cluster, other: Cluster) -> Cluster:
    return one[0] + other[0], one[1] + other[1]
