"""Comparison of two models in a figure: the difference with its confidence interval, and p.

Both rest on one statistic: the interval excludes 0, and that of the ratio 1, exactly where p is
below 0.05. Where both models met the same task instances (same scenario, number and seed), the two
trials of an instance are compared; else all trials of the two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, nan, sqrt
from operator import sub
from statistics import NormalDist, fmean, variance
from typing import Any, Self

from agenteval.stats.quantiles import t_tail
from agenteval.stats.rates import (
    PLANNED_ICC,
    POWER,
    UNKNOWN,
    Clusters,
    Layout,
    Mean,
    Precision,
    Rate,
    Z,
    clustered,
    met_strata,
    per_trial,
    planned_effect,
    strata,
    summed,
    t_quantile,
    total,
    varied,
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

Layouts = tuple[Layout, Layout]  # of the trials of both models
ALONE: Layouts = (UNKNOWN, UNKNOWN)


@dataclass(frozen=True, slots=True)
class Difference:
    """`first` minus `second` with its 95 % confidence interval, and the two-sided p.

    The null hypothesis is no difference. `paired` is set when both models met the same task
    instances. `effect` is the variance inflation of the difference over independent draws.
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
    def of(
        cls,
        first: Rate,
        second: Rate,
        evidence: Evidence,
        *,
        paired: bool,
    ) -> Self:
        low, high = rates_differ_by(first, second, evidence)
        times = ratio(first, second, evidence)
        return cls(first, second, low, high, times, evidence.p, paired, evidence.effect)

    @property
    def value(self) -> float:
        return self.first.value - self.second.value

    @property
    def calls_needed(self) -> float:
        """The calls per model with which a new run detects this difference with 80 % power.

        Infinite when the rates are equal.
        """
        return self.calls_for(abs(self.value))

    def calls_for(self, gap: float, *, family_size: int = 1) -> float:
        """Return the calls per model that detect the difference `gap` with 80 % power.

        The two rates lie around the mean of the observed ones. `family_size` is the number of
        claims that p is corrected for: Bonferroni's level stands for Holm's. The width of the
        interval is used where the counts alone would have found significance that the test did
        not, as counts do not know that trials are few.
        """
        if not gap:
            return inf
        # The standard errors from which a difference is significant, and those for the power.
        critical = NormalDist().inv_cdf(1 - SETTLED / 2 / family_size)
        for_power = NormalDist().inv_cdf(POWER)

        def calls_by_counts(gap: float) -> float:
            # The sample size of two proportions (Fleiss, Levin and Paik 2003), times the effect.
            first = min(max((self.first.value + self.second.value - gap) / 2, 0.0), 1 - gap)
            second = first + gap
            mean = (first + second) / 2
            spread = critical * sqrt(2 * mean * (1 - mean))
            spread += for_power * sqrt(first * (1 - first) + second * (1 - second))
            return float((spread / gap) ** 2 * self.effect)

        calls = calls_by_counts(gap)
        observed = abs(self.value)
        is_settled = self.p * family_size < SETTLED
        if not observed or is_settled:
            return ceil(calls)
        # Two equal runs of so many calls carry as much information as these two.
        equal_calls = 2 * self.first.n * self.second.n / max(self.first.n + self.second.n, 1)
        if calls_by_counts(observed) <= equal_calls:
            reach = self.value - self.low if self.value > 0 else self.high - self.value
            standard_error = reach / Z  # that the interval implies towards no difference
            factor = ((critical + for_power) * standard_error / gap) ** 2
            calls = max(calls, equal_calls * factor)
        return ceil(calls)


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """The difference of two means, as in `Difference` but without a ratio."""

    first: Mean
    second: Mean
    low: float
    high: float
    p: float
    paired: bool

    @property
    def value(self) -> float:
        return self.first.value - self.second.value


def compare(first: Clusters, second: Clusters, *, seed: int) -> Difference:
    """Compare two models whose trials are independent. Both must have made calls."""
    return compare_all([first], [second], seed=seed)[0]


def compare_all(  # noqa: PLR0913 -- what a test is made of
    first: Sequence[Clusters],
    second: Sequence[Clusters],
    *,
    seed: int,
    paired: bool = False,
    layouts: Layouts = ALONE,
    exchanges: int = EXCHANGES,
) -> list[Difference]:
    """Compare two models in several figures at once, under the same permutations of trials.

    Each column holds all trials of its model; with `paired`, equal positions hold the trials of one
    task instance.
    """
    evidences = _permute(first, second, layouts, paired=paired, seed=seed, exchanges=exchanges)
    differences = []
    for own, other, evidence in zip(first, second, evidences, strict=True):
        first_rate = clustered(own, layouts[0])
        second_rate = clustered(other, layouts[1])
        differences.append(Difference.of(first_rate, second_rate, evidence, paired=paired))
    return differences


def _permute(
    first: Sequence[Clusters],
    second: Sequence[Clusters],
    layouts: Layouts,
    *,
    paired: bool,
    **options: Any,
) -> list[Evidence]:
    """Run the permutation test: by scenario where that is one draw, else by trial.

    Draws are paired by scenario if both models played the same scenarios.
    """
    from agenteval.stats import permutation  # noqa: PLC0415 -- start-up: numpy

    names = layouts[0].scenarios
    other_names = layouts[1].scenarios
    if all(layout.by_scenario for layout in layouts):
        first = [summed(column, names) for column in first]
        second = [summed(column, other_names) for column in second]
        paired = set(names) == set(other_names)
        names = other_names = ()
    draws = permutation.by_trial(first), permutation.by_trial(second)
    if paired:
        return permutation.paired_test(*draws, strata=strata(names), **options)
    both_strata = met_strata(names, other_names)
    return permutation.unpaired_test(*draws, strata=both_strata, **options)


def compare_counts(first: Rate, second: Rate) -> Difference:
    """Compare two rates by the chi-squared test with N - 1 (Campbell 2007).

    All calls count as independent, as it is not known which belong to one trial.
    """
    n = first.n + second.n
    errors = first.count + second.count
    pooled = errors / n
    stricter = sqrt(n / (n - 1))  # than the usual test, by its N - 1
    variance = pooled * (1 - pooled) * (1 / first.n + 1 / second.n)
    distance = abs(first.value - second.value) / sqrt(variance) if variance else 0.0
    p = 2 * NormalDist().cdf(-distance / stricter)
    least = least_p(min(errors, n - errors))
    evidence = Evidence(max(p, least), Z * stricter, 1.0, 1.0)
    return Difference.of(first, second, evidence, paired=False)


def compare_shares(
    first: Sequence[bool],
    second: Sequence[bool],
    *,
    paired: bool = False,
    layouts: Layouts = ALONE,
    seed: int = 0,
) -> Difference:
    """Compare two models in a yes-or-no outcome of each trial.

    With `paired`, equal positions hold the trials of one task instance.
    """
    first_column = [(int(did), 1) for did in first]
    second_column = [(int(did), 1) for did in second]
    columns = [first_column], [second_column]
    if all(layout.by_scenario for layout in layouts):
        (difference,) = compare_all(*columns, seed=seed, paired=paired, layouts=layouts)
        return difference
    first_rate = Rate(*total(first_column))
    second_rate = Rate(*total(second_column))
    if not paired:
        return compare_counts(first_rate, second_rate)
    from agenteval.stats import permutation  # noqa: PLC0415 -- start-up: numpy

    (evidence,) = permutation.paired_once(*map(permutation.by_trial, columns))
    return Difference.of(first_rate, second_rate, evidence, paired=True)


def compare_means(
    first: Clusters,
    second: Clusters,
    *,
    seed: int,
    paired: bool = False,
    layouts: Layouts = ALONE,
) -> MeanDifference:
    """Compare two models in their errors per trial."""
    first_column = [(count, 1) for count, _ in first]
    second_column = [(count, 1) for count, _ in second]
    (evidence,) = _permute(
        [first_column], [second_column], layouts, paired=paired, seed=seed, shares=False
    )
    first_mean = per_trial(first, layouts[0])
    second_mean = per_trial(second, layouts[1])
    low, high = means_differ_by(first_mean, second_mean, evidence)
    return MeanDifference(first_mean, second_mean, low, high, evidence.p, paired)


def gap(first: Clusters, second: Clusters, layout: Layout = UNKNOWN) -> tuple[float, float, float]:
    """Return the difference of two rates of the same trials, with its confidence interval.

    Equal positions hold the same trial. The interval is that of Student's t over the contributions
    of the draws.
    """
    first_rate = clustered(first, layout)
    second_rate = clustered(second, layout)
    value = first_rate.value - second_rate.value
    parts = strata(layout.scenarios) or [0] * len(first)
    if layout.by_scenario:
        first = summed(first, layout.scenarios)
        second = summed(second, layout.scenarios)
        parts = [0] * len(first)
    sides = []
    contributions = []
    independent_variance = 0.0
    for column, rate in ((first, first_rate), (second, second_rate)):
        sides.append(([size for _, size in column], 1 / rate.n))
        contributions.append([(count - rate.value * size) / rate.n for count, size in column])
        independent_variance += rate.value * (1 - rate.value) / rate.n
    precision = Precision.of_sides(sides, parts, icc=PLANNED_ICC)
    observed_variance = varied([*map(sub, *contributions)], parts)
    if observed_variance and independent_variance and precision.share:
        effect = observed_variance / precision.share / independent_variance
    else:
        effect = planned_effect([*first, *second], PLANNED_ICC)
    evidence = Evidence(nan, t_quantile(precision.df), effect, effect)  # p is not used
    return value, *rates_differ_by(first_rate, second_rate, evidence)


@dataclass(frozen=True, slots=True)
class ModelsDifference:
    """The difference of the mean rates of two kinds of models, with 95 % interval, and its p."""

    value: float
    low: float
    high: float
    p: float


def compare_models(first: Sequence[Rate], second: Sequence[Rate]) -> ModelsDifference:
    """Compare two kinds of models by Student's t over models.

    Models have equal weights, and each is one draw of its kind. The variance is at least that which
    the trials of each model imply.
    """
    first_values = [rate.value for rate in first]
    second_values = [rate.value for rate in second]
    df = len(first) + len(second) - 2
    squares = variance(first_values) * (len(first) - 1)
    squares += variance(second_values) * (len(second) - 1)
    # Pooled, as of two samples of equal variance.
    between_models = squares / df * (1 / len(first) + 1 / len(second))
    within_models = 0.0
    for side in (first, second):
        for rate in side:
            variance_of_rate = rate.value * (1 - rate.value) / (rate.effective or rate.n)
            within_models += variance_of_rate / len(side) ** 2
    value = fmean(first_values) - fmean(second_values)
    error = sqrt(max(between_models, within_models))
    reach = t_quantile(df) * error
    p = 2 * t_tail(abs(value) / error, df) if error else 1.0
    return ModelsDifference(value, value - reach, value + reach, p)
