"""The figures of a candidate that a gate holds against its limits, each with its test."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

from agenteval.core.counts import Cluster
from agenteval.core.pairing import Pairing
from agenteval.core.summary import RunSummary, TrialSummary
from agenteval.stats.criteria import CRITERIA, NOT_COMPLETED, Criterion, Rules, errors_of
from agenteval.stats.estimand import (
    NOTHING,
    Estimand,
    Layout,
    degrees,
    met_strata,
    strata,
    summed,
)
from agenteval.stats.fewer_errors import Fewer, Group, evenest, widest
from agenteval.stats.limit_tests import ByItself, Comparison, Guarded, LimitTest, RateTest
from agenteval.stats.rates import Z, planned_effect, t_quantile, widened

MARGIN, MARGIN_COMPLETED = "margin", "margin.completed"
FEW = 3  # trials that bear errors: of so many a design effect is widened as far as it may be

Groups = Sequence[tuple[Cluster, Cluster]]  # of baseline and candidate, what belongs together


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
    name: str, criterion: Criterion, limit: float, trials: Sequence[TrialSummary], rules: Rules
) -> Measure:
    layout = Layout(rules.about, [trial.scenario for trial in trials])
    counted = [criterion.counts(trial) for trial in trials]
    count, n = map(sum, zip(*counted, strict=True))
    test = rate_test(*layout.grouped(counted), icc=rules.icc)
    return Measure(name, criterion, limit, count, n, test, forbidden=name.startswith("never."))


def _margin(
    name: str, criterion: Criterion, limit: float, pairing: Pairing, rules: Rules
) -> Measure:
    """The candidate beside the baseline, in the trials that are compared."""
    trials = pairing.first, pairing.second
    columns = [[criterion.counts(trial) for trial in side] for side in trials]
    names = [[trial.scenario for trial in side] for side in trials]
    groups, strata = _groups(columns, names, rules.about, paired=pairing.paired)
    sizes = [sum(size for _, size in clusters) for clusters in columns]
    count, test = sum(count for count, _ in columns[1]), None
    if all(sizes):
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
    """What belongs together (a scenario, a world of both, or a trial of one), and its stratum."""
    ours, theirs = columns
    if about is Estimand.LIKE:
        scenarios = sorted({name for side in names for name in side})
        nothing = [NOTHING] * len(scenarios)
        sides = [
            summed([*side, *nothing], [*of, *scenarios])
            for side, of in zip(columns, names, strict=True)
        ]
        return [*zip(*sides, strict=True)], ()
    if paired:
        return [*zip(ours, theirs, strict=True)], strata(names[0])
    own, other = met_strata(*names)
    alone = [*((each, NOTHING) for each in ours), *((NOTHING, each) for each in theirs)]
    return alone, [*own, *(-1 - stratum for stratum in other)]


def rate_test(clusters: Sequence[Cluster], strata: Sequence[int] = (), *, icc: float) -> LimitTest:
    """Of a rate in clusters; exact where each is one yes or no, as then nothing is clustered."""
    placed = zip(clusters, strata or [0] * len(clusters), strict=True)
    used = [Group(*cluster, stratum=stratum) for cluster, stratum in placed if cluster[1]]
    n, k = sum(group.size for group in used), len(used)
    if all(group.size == 1 for group in used):
        return RateTest(sum(group.errors for group in used), n)
    by_t = (t_quantile(degrees([group.stratum for group in used])) / Z) ** 2

    def made(fewer: Fewer) -> tuple[float, RateTest]:
        if k == 1 or fewer.count in {0, n}:
            effect = planned_effect(clusters, icc) * by_t
        else:
            rate = fewer.count / n
            seen = fewer.spread / (n * rate * (1 - rate))
            effect = widened(seen * by_t, max(fewer.bearing, FEW))
        return effect, RateTest(fewer.count / effect, n / effect)

    return _guarded(used, made)


def comparison(
    groups: Groups, strata: Sequence[int] = (), *, limit: float, ratio: bool, icc: float
) -> LimitTest:
    """From counts in groups; a group may be empty on one side, where the two never met.

    Each side must have calls. The resemblance within groups is taken from what each adds to
    the figure at the limit, or from the planned `icc` where the counts cannot show it.
    """
    placed = zip(groups, strata or [0] * len(groups), strict=True)
    used = [(*both, stratum) for both, stratum in placed if both[0][1] or both[1][1]]
    (others, of), (_, n) = map(_summed, zip(*((one, other) for one, other, _ in used), strict=True))
    weight, before, k = (limit if ratio else 1.0), others / of, len(used)
    scale = weight * n / of
    ours = [
        Group(*after, scale * (errors - before * size), bears=errors > 0, stratum=stratum)
        for (errors, size), after, stratum in used
    ]
    planned = planned_effect(
        [side for one, other, _ in used for side in (one, other) if side[1]], icc
    )
    alone = any(not (one[1] and other[1]) for one, other, _ in used)
    one_stratum = len({stratum for *_, stratum in used}) == 1
    df = max(degrees([stratum for *_, stratum in used]) - (alone and one_stratum), 1)

    def made(fewer: Fewer) -> tuple[float, Comparison]:
        rate = fewer.count / n
        expected = rate * (1 - rate) / n + weight * weight * before * (1 - before) / of
        if k == 1 or not expected:
            effect = planned
        else:
            seen = fewer.spread / (n * n) / expected
            effect = widened(seen, max(fewer.bearing, FEW))
        return effect, Comparison((others, of), (fewer.count, n), effect, df, ratio)

    return _guarded(ours, made)


Part = TypeVar("Part", RateTest, Comparison)


def _guarded(groups: Sequence[Group], made: Callable[[Fewer], tuple[float, Part]]) -> Guarded:
    """Of the runs with fewer errors only those that others with more errors do not stand for."""
    (seen, whole), *fewer = map(made, widest(groups))
    weaker, largest = [], seen
    for effect, test in fewer:
        if effect > largest:
            largest = effect
            weaker.append(test)

    @cache
    def lighter() -> Sequence[ByItself]:
        found, smallest = [], seen
        for effect, test in map(made, evenest(groups)):
            if smallest == 1:
                break
            if effect < smallest:
                smallest = effect
                found.append(test)
        return found

    return Guarded(whole, weaker, lighter)


def _summed(clusters: Sequence[Cluster]) -> Cluster:
    return sum(count for count, _ in clusters), sum(size for _, size in clusters)
