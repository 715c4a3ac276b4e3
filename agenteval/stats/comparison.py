"""Whether two models differ in a figure: the difference with its interval, and p.

Both stand on one statistic: the interval leaves out 0, and that of the ratio 1, exactly where p is
below 0.05. Where both models met the same worlds (same scenario, number and seed), the two trials
of a world are compared; else all trials of the two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, nan, sqrt
from statistics import NormalDist, fmean, variance
from typing import Any, Self

from agenteval import stats
from agenteval.core.counts import Cluster
from agenteval.stats.cluster_variance import Precision, varied
from agenteval.stats.estimand import (
    UNKNOWN,
    Layout,
    met_strata,
    strata,
    summed,
)
from agenteval.stats.quantiles import t_tail
from agenteval.stats.rates import (
    PLANNED_ICC,
    Mean,
    Rate,
    Z,
    clustered,
    per_trial,
    planned_effect,
    t_quantile,
)
from agenteval.stats.score import (
    EXCHANGES,
    SETTLED,
    Evidence,
    Ratio,
    least_p,
    means_differ_by,
    rates_differ_by,
    ratio,
)

POWER = 0.8

Column = Sequence[Cluster]  # of each trial: how many, out of how many
Layouts = tuple[Layout, Layout]  # of the trials of both models
ALONE: Layouts = (UNKNOWN, UNKNOWN)


@dataclass(frozen=True, slots=True)
class Difference:
    """`first` minus `second` with its 95 % interval, and the two-sided p of no difference.

    `paired` when both models met the same worlds. `effect` is how many times more the difference
    varies than it would over independent draws.
    """

    first: Rate
    second: Rate
    low: float
    high: float
    ratio: Ratio
    p: float
    paired: bool
    effect: float

    @classmethod
    def of(cls, one: Rate, other: Rate, evidence: Evidence, *, paired: bool) -> Self:
        low, high = rates_differ_by(one, other, evidence)
        times = ratio(one, other, evidence)
        return cls(one, other, low, high, times, evidence.p, paired, evidence.effect)

    @property
    def value(self) -> float:
        return self.first.value - self.second.value

    @property
    def calls_needed(self) -> float:
        """Calls per model with which a new run finds this difference in 80 % of repetitions.

        Infinite when the rates are equal.
        """
        return self.calls_for(abs(self.value))

    def calls_for(self, gap: float, *, among: int = 1) -> float:
        """The same of another difference, between rates around the mean of those seen.

        `among` is of how many claims it is one: Bonferroni's level stands for Holm's. By the
        interval where counts would have settled what is not: they know nothing of few trials.
        """
        if not gap:
            return inf
        counted, seen = self._counted(gap, among), abs(self.value)
        is_settled = self.p * among < SETTLED
        if seen and not is_settled and self._counted(seen, among) <= self._calls:
            sure = NormalDist().inv_cdf(1 - SETTLED / 2 / among) + NormalDist().inv_cdf(POWER)
            counted = max(counted, self._calls * (sure * self._error / gap) ** 2)
        return ceil(counted)

    def _counted(self, gap: float, among: int) -> float:
        one = min(max((self.first.value + self.second.value - gap) / 2, 0.0), 1 - gap)
        other = one + gap
        mean = (one + other) / 2
        spread = NormalDist().inv_cdf(1 - SETTLED / 2 / among) * sqrt(2 * mean * (1 - mean))
        spread += NormalDist().inv_cdf(POWER) * sqrt(one * (1 - one) + other * (1 - other))
        return float((spread / gap) ** 2 * self.effect)

    @property
    def _calls(self) -> float:
        """Of each model, that tell as much as those of both do."""
        return 2 * self.first.n * self.second.n / max(self.first.n + self.second.n, 1)

    @property
    def _error(self) -> float:
        """What the interval leaves open towards no difference, as a standard error."""
        return (self.value - self.low if self.value > 0 else self.high - self.value) / Z


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """The same of two means, without a ratio."""

    first: Mean
    second: Mean
    low: float
    high: float
    p: float
    paired: bool

    @property
    def value(self) -> float:
        return self.first.value - self.second.value


def compare(first: Column, second: Column, *, seed: int) -> Difference:
    """Two models whose trials have nothing to do with each other. Both must have made calls."""
    return compare_all([first], [second], seed=seed)[0]


def compare_all(  # noqa: PLR0913 -- what a test is made of
    first: Sequence[Column],
    second: Sequence[Column],
    *,
    seed: int,
    paired: bool = False,
    layouts: Layouts = ALONE,
    exchanges: int = EXCHANGES,
) -> list[Difference]:
    """Two models in several figures at once, under the same exchanges of trials.

    Each column holds all trials of its model; with `paired`, place by place those of one world.
    """
    found = _tested(first, second, layouts, paired=paired, seed=seed, exchanges=exchanges)
    return [
        Difference.of(
            clustered(one, layouts[0]), clustered(other, layouts[1]), evidence, paired=paired
        )
        for one, other, evidence in zip(first, second, found, strict=True)
    ]


def _tested(
    first: Sequence[Column],
    second: Sequence[Column],
    layouts: Layouts,
    *,
    paired: bool,
    **asked: Any,
) -> list[Evidence]:
    """By scenario where that is one draw, of models that played the same ones; else by trial."""
    tests, (one, other) = stats.permutation, (of.scenarios for of in layouts)
    if all(of.by_scenario for of in layouts):
        first, second = [summed(of, one) for of in first], [summed(of, other) for of in second]
        paired, one, other = set(one) == set(other), (), ()
    ours, theirs = tests.by_trial(first), tests.by_trial(second)
    if paired:
        return tests.paired_test(ours, theirs, strata=strata(one), **asked)
    return tests.unpaired_test(ours, theirs, strata=met_strata(one, other), **asked)


def compare_counts(one: Rate, other: Rate) -> Difference:
    """Two rates alone: which calls belong to one trial is not known, so all are independent.

    The chi-squared test with N - 1 (Campbell 2007).
    """
    n, errors = one.n + other.n, one.count + other.count
    rate, stricter = errors / n, sqrt(n / (n - 1))
    variance = rate * (1 - rate) * (1 / one.n + 1 / other.n)
    distance = abs(one.value - other.value) / sqrt(variance) if variance else 0.0
    p = max(2 * NormalDist().cdf(-distance / stricter), least_p(min(errors, n - errors)))
    return Difference.of(one, other, Evidence(p, Z * stricter, 1.0, 1.0), paired=False)


def compare_shares(
    first: Sequence[bool],
    second: Sequence[bool],
    *,
    paired: bool = False,
    layouts: Layouts = ALONE,
    seed: int = 0,
) -> Difference:
    """Two models in what a trial did or did not.

    With `paired`, place by place the trials of one world.
    """
    ours, theirs = ([(int(did), 1) for did in side] for side in (first, second))
    if all(of.by_scenario for of in layouts):
        return compare_all([ours], [theirs], seed=seed, paired=paired, layouts=layouts)[0]
    one, other = Rate(sum(first), len(first)), Rate(sum(second), len(second))
    if not paired:
        return compare_counts(one, other)
    tests = stats.permutation
    (evidence,) = tests.paired_once(tests.by_trial([ours]), tests.by_trial([theirs]))
    return Difference.of(one, other, evidence, paired=True)


def compare_means(
    first: Column, second: Column, *, seed: int, paired: bool = False, layouts: Layouts = ALONE
) -> MeanDifference:
    """Two models in their errors per trial."""
    ours, theirs = ([(count, 1) for count, _ in side] for side in (first, second))
    (evidence,) = _tested([ours], [theirs], layouts, paired=paired, seed=seed, shares=False)
    one, other = per_trial(first, layouts[0]), per_trial(second, layouts[1])
    low, high = means_differ_by(one, other, evidence)
    return MeanDifference(one, other, low, high, evidence.p, paired)


def gap(first: Column, second: Column, layout: Layout = UNKNOWN) -> tuple[float, float, float]:
    """The difference of two rates of the same trials, row by row, with its interval.

    Student's t over what each draw adds to it.
    """
    one, other = clustered(first, layout), clustered(second, layout)
    value = one.value - other.value
    parts = strata(layout.scenarios) or [0] * len(first)
    if layout.by_scenario:
        first, second = summed(first, layout.scenarios), summed(second, layout.scenarios)
        parts = [0] * len(first)
    sides = [
        ([size for _, size in side], 1 / rate.n) for side, rate in ((first, one), (second, other))
    ]
    known = Precision.of_sides(sides, parts, icc=PLANNED_ICC)
    alone = sum(rate.value * (1 - rate.value) / rate.n for rate in (one, other))
    added = [
        (count - one.value * size) / one.n - (others - other.value * of) / other.n
        for (count, size), (others, of) in zip(first, second, strict=True)
    ]
    seen = varied(added, parts)
    if seen and alone and known.share:
        effect = seen / known.share / alone
    else:
        effect = planned_effect([*first, *second], PLANNED_ICC)
    evidence = Evidence(nan, t_quantile(known.df), effect, effect)  # nobody asks for this p
    return value, *rates_differ_by(one, other, evidence)


@dataclass(frozen=True, slots=True)
class ModelsDifference:
    """What the mean rates of two kinds of models differ by, with 95 % interval, and its p."""

    value: float
    low: float
    high: float
    p: float


def compare_models(first: Sequence[Rate], second: Sequence[Rate]) -> ModelsDifference:
    """Two kinds of models, weighted alike, each one draw of its kind: Student's t over models.

    Models vary at least as much as their own trials let them seem to.
    """
    sides = [[rate.value for rate in side] for side in (first, second)]
    df = len(first) + len(second) - 2
    pooled = sum(variance(side) * (len(side) - 1) for side in sides) / df
    seen = pooled * (1 / len(first) + 1 / len(second))
    alone = sum(_own_variance(rate) / len(side) ** 2 for side in (first, second) for rate in side)
    value, error = fmean(sides[0]) - fmean(sides[1]), sqrt(max(seen, alone))
    reach = t_quantile(df) * error
    p = 2 * t_tail(abs(value) / error, df) if error else 1.0
    return ModelsDifference(value, value - reach, value + reach, p)


def _own_variance(rate: Rate) -> float:
    return rate.value * (1 - rate.value) / (rate.effective or rate.n)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted so that any false claim among them stays at the level of one: to decide by."""
    adjusted, floor = [0.0] * len(p_values), 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = floor
    return adjusted
