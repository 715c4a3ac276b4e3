"""Tests of a rate, or of a difference or ratio of two rates, against a limit.

Both tests take their variance at the limit and not at the observed counts. A lucky model would
otherwise look less variable than it is, and be promoted too often.

First the two tests by themselves. Then the guarded tests, which an additional error of the
candidate never helps to pass: each tests the observed errors, and runs with fewer of them
(`stats.fewer_errors`). Last their bounds, and Holm's correction for several tests.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, tee
from math import inf, sqrt
from operator import itemgetter
from statistics import NormalDist
from typing import TypeVar

from agenteval.stats.fewer_errors import Fewer, Group, evenest, widest
from agenteval.stats.quantiles import RootSearch, incomplete_beta, t_tail
from agenteval.stats.rates import (
    POWER,
    Clusters,
    Precision,
    Strata,
    Z,
    degrees,
    planned_effect,
    t_quantile,
    total,
    widened,
)
from agenteval.trial.trial import Cluster

FEW_ERRORS = 5  # up to which they are nothing like normal
MAX_RATIO = 1000.0  # the largest ratio of two rates that is looked for
MAX_TRIAL_FACTOR = 1000.0  # how many times more trials are ever suggested


@dataclass(frozen=True, slots=True)
class RateTest:
    """The test of one rate: exact binomial on the effective sample (Korn and Graubard 1998).

    `count` and `n` are divided by the design effect.
    """

    count: float
    n: float
    ends = (0.0, 1.0)  # the smallest and the largest possible value

    @property
    def slack(self) -> float:
        """The largest discrepancy between `z_score` and the test itself, in standard errors."""
        if self.count <= FEW_ERRORS:
            return inf
        return min(6 / sqrt(self.count), 1.0)

    @property
    def estimate(self) -> float:
        return self.count / self.n

    def below(self, limit: float) -> float:
        """Return the one-sided p of the null hypothesis that the truth is not below the limit.

        It is the chance of an estimate this low if the truth were at the limit.
        """
        misses = self.n - self.count
        if misses <= 0:
            return 1.0
        return 1 - incomplete_beta(self.count + 1, misses, limit)

    def above(self, limit: float) -> float:
        """Return the one-sided p of the null hypothesis that the truth is not above the limit.

        It is the chance of an estimate this high if the truth were at the limit.
        """
        if self.count <= 0:
            return 1.0
        return incomplete_beta(self.count, self.n - self.count + 1, limit)

    def z_score(self, limit: float) -> float:
        """Return how many standard errors the figure lies above the limit.

        It orders tests by `below`.
        """
        variance = self.n * limit * (1 - limit)
        excess = self.count - self.n * limit
        return excess / sqrt(variance) if variance else 0.0

    def scaled(self, times: float) -> "RateTest":
        """Return this test scaled to `times` as many trials."""
        return RateTest(self.count * times, self.n * times)

    def halfway_to(self, limit: float) -> "RateTest":
        """Return this test with its estimate half as far from the limit."""
        return RateTest((self.count + self.n * limit) / 2, self.n)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The test of a candidate's rate compared with a baseline's: a difference, or a ratio.

    A score test whose variance is multiplied by `effect`, on Student's t with `df` degrees of
    freedom. The common rate under a limit is that of all errors together (Dunnett and Gent 1977).
    Properties and methods are those of `RateTest`.
    """

    baseline: tuple[float, float]
    candidate: tuple[float, float]
    effect: float
    df: float
    ratio: bool
    slack = 0.0

    @property
    def estimate(self) -> float:
        baseline_count, baseline_n = self.baseline
        count, n = self.candidate
        baseline_rate = baseline_count / baseline_n
        rate = count / n
        if not self.ratio:
            return rate - baseline_rate
        return rate / baseline_rate if baseline_rate else inf

    @property
    def ends(self) -> tuple[float, float]:
        return (0.0, MAX_RATIO) if self.ratio else (-1.0, 1.0)

    def below(self, limit: float) -> float:
        return 1 - self.above(limit)

    def above(self, limit: float) -> float:
        return t_tail(self.z_score(limit), self.df)

    def scaled(self, times: float) -> "Comparison":
        baseline_count, baseline_n = self.baseline
        count, n = self.candidate
        return replace(
            self,
            baseline=(baseline_count * times, baseline_n * times),
            candidate=(count * times, n * times),
            df=self.df * times,
        )

    def halfway_to(self, limit: float) -> "Comparison":
        baseline_count, baseline_n = self.baseline
        count, n = self.candidate
        baseline_rate = baseline_count / baseline_n
        rate = baseline_rate * limit if self.ratio else baseline_rate + limit
        count_at_limit = n * min(max(rate, 0.0), 1.0)
        return replace(self, candidate=((count + count_at_limit) / 2, n))

    def z_score(self, limit: float) -> float:
        baseline_count, baseline_n = self.baseline
        count, n = self.candidate
        errors = count + baseline_count
        # The two rates at the limit are the likeliest ones.
        if self.ratio:
            weight = limit
            pooled = errors / (baseline_n + limit * n)
            restricted_baseline = min(pooled, 1 / max(limit, 1))
            restricted = limit * restricted_baseline
            gap = count / n - weight * baseline_count / baseline_n
        else:
            weight = 1.0
            pooled = (errors - limit * n) / (baseline_n + n)
            restricted_baseline = min(max(pooled, -limit, 0), 1 - limit, 1)
            restricted = restricted_baseline + limit
            gap = count / n - weight * baseline_count / baseline_n - limit
        variance = restricted * (1 - restricted) / n
        variance += weight * weight * restricted_baseline * (1 - restricted_baseline) / baseline_n
        if variance <= 0:  # only where a rate of 0 or 1 is all there is
            return inf * gap if gap else 0.0
        return gap / sqrt(variance * self.effect)


# Tests that an additional error never helps.

MIN_BEARING = 3  # floor on the number of groups with errors, where a design effect is widened
LIKELY = 0.5  # a p value from which on a test shows nothing
EXACT = 1e-12  # of a bound
SURE = 1e-12  # p values below it are below any level, so they need not be distinguished
Groups = Sequence[tuple[Cluster, Cluster]]  # of baseline and candidate, what belongs together
_Plain = RateTest | Comparison  # a test of the observed errors
_Weighed = tuple[float, _Plain]  # a design effect, and the test that has it


@dataclass(frozen=True, slots=True)
class _Guarded:
    """A test that an additional error of the candidate never helps (`stats.fewer_errors`).

    It passes when `whole` and all `weaker` tests pass: those of fewer errors with a larger spread.
    It fails when any test of `fewer` errors fails whose spread is smaller than with more of them.
    """

    whole: _Plain
    weaker: Sequence[_Plain]
    fewer: Callable[[], Iterator[_Weighed]]  # from all errors down

    @property
    def estimate(self) -> float:
        return self.whole.estimate

    @property
    def ends(self) -> tuple[float, float]:
        return self.whole.ends

    def below(self, limit: float) -> float:
        return max(test.below(limit) for test in self.weakest(limit))

    def above(self, limit: float) -> float:
        by_itself = self.whole.above(limit)
        if by_itself > LIKELY or by_itself < SURE:
            return by_itself
        return min(test.above(limit) for test in self.lightest(limit))

    def weakest(self, limit: float) -> list[_Plain]:
        """Return the tests that might have the largest p of lying below the limit."""
        ranked = [(test.z_score(limit), test) for test in (self.whole, *self.weaker)]
        return _keep_highest(ranked, self.whole.slack)

    def lightest(self, limit: float) -> list[_Plain]:
        """Return the tests that might have the smallest p of lying above the limit."""
        return [test for _, test in self._lightest(limit)]

    def _lightest(self, limit: float) -> list[_Weighed]:
        nearest = -inf
        smallest = inf
        candidates = []
        for effect, test in self.fewer():
            alone = test.scaled(effect)  # as if no two of its errors were alike
            if alone.z_score(limit) < nearest - test.slack or smallest == 1:
                break  # none with fewer errors can be surer
            if effect < smallest:
                smallest = effect
                z_score = test.z_score(limit)
                nearest = max(nearest, z_score)
                candidates.append((z_score, (effect, test)))
        return _keep_highest(candidates, self.whole.slack)

    def pruned_at(self, limit: float) -> "_Guarded":
        """Return the part of this test that matters at this limit, however it is scaled.

        Tests move further apart as trials are added, so that a test too far away remains so.
        """
        fewer = sorted(self._lightest(limit), key=itemgetter(0), reverse=True)
        return _Guarded(self.whole, self.weakest(limit), lambda: iter(fewer))

    def scaled(self, times: float) -> "_Guarded":
        return self._map_tests(lambda test: test.scaled(times))

    def halfway_to(self, limit: float) -> "_Guarded":
        return self._map_tests(lambda test: test.halfway_to(limit))

    def _map_tests(self, change: Callable[[_Plain], _Plain]) -> "_Guarded":
        def fewer() -> Iterator[_Weighed]:
            return ((effect, change(test)) for effect, test in self.fewer())

        return _Guarded(change(self.whole), [*map(change, self.weaker)], fewer)


LimitTest = RateTest | Comparison | _Guarded
_Value = TypeVar("_Value")


def _keep_highest(ranked: Sequence[tuple[float, _Value]], slack: float) -> list[_Value]:
    """Return the values that might lie furthest above the limit, the highest rank first."""
    ranked = sorted(ranked, key=itemgetter(0), reverse=True)
    highest = ranked[0][0]
    return [value for rank, value in ranked if rank >= highest - slack]


def rate_test(clusters: Clusters, strata: Strata = (), *, icc: float) -> LimitTest:
    """Return the test of a rate in clusters.

    It is exact where each cluster is a single draw, as then nothing is clustered.
    """
    placed = zip(clusters, strata or [0] * len(clusters), strict=True)
    groups = [Group(errors, size, stratum=stratum) for (errors, size), stratum in placed if size]
    count, n = total(clusters)
    if n == len(groups):
        return RateTest(count, n)
    sizes = [group.size for group in groups]
    group_strata = [group.stratum for group in groups]
    precision = Precision.of(sizes, group_strata, icc=icc)
    # The exact test knows no degrees of freedom: Student's t goes into the effective sample.
    by_t = (t_quantile(precision.df) / Z) ** 2

    def test_of(fewer: Fewer) -> _Weighed:
        if not precision.share or fewer.count in {0, n}:
            effect = planned_effect(clusters, icc) * by_t
        else:
            rate = fewer.count / n
            effect_of_errors = fewer.spread / precision.share / (n * rate * (1 - rate))
            effect = widened(effect_of_errors * by_t, max(fewer.bearing, MIN_BEARING))
        return effect, RateTest(fewer.count / effect, n / effect)

    return _guard(groups, test_of)


def comparison(
    groups: Groups, strata: Strata = (), *, limit: float, ratio: bool, icc: float
) -> LimitTest:
    """Return the test of a difference or ratio of two rates, from counts in groups.

    A group may be empty on one side, where the trials are not paired. Each side must have calls.
    The design effect is estimated from the contribution of each group to the figure at the limit,
    or from the planned `icc` where the counts cannot show it.
    """
    placed = zip(groups, strata or [0] * len(groups), strict=True)
    used = [(*both, stratum) for both, stratum in placed if both[0][1] or both[1][1]]
    baseline, candidate, group_strata = zip(*used, strict=True)
    baseline_count, baseline_n = total(baseline)
    _, n = total(candidate)
    weight = limit if ratio else 1.0
    baseline_rate = baseline_count / baseline_n
    baseline_variance = weight * weight * baseline_rate * (1 - baseline_rate) / baseline_n
    scale = weight * n / baseline_n
    candidate_groups = []
    for (errors, size), own, stratum in used:
        shift = scale * (errors - baseline_rate * size)
        candidate_groups.append(Group(*own, shift, bears=errors > 0, stratum=stratum))
    planned = planned_effect([*filter(itemgetter(1), baseline + candidate)], icc)
    sizes = [[size for _, size in side] for side in (baseline, candidate)]
    precision = Precision.of_sides(zip(sizes, (scale, 1.0), strict=True), group_strata, icc=icc)
    is_paired = all(sizes[0] + sizes[1])
    df = _degrees_of_freedom(precision, group_strata, is_paired=is_paired)

    def test_of(fewer: Fewer) -> _Weighed:
        rate = fewer.count / n
        independent_variance = rate * (1 - rate) / n + baseline_variance
        if not precision.share or not independent_variance:
            effect = planned
        else:
            effect_of_errors = fewer.spread / precision.share / (n * n) / independent_variance
            effect = widened(effect_of_errors, max(fewer.bearing, MIN_BEARING))
        sides = (baseline_count, baseline_n), (fewer.count, n)
        return effect, Comparison(*sides, effect, df, ratio)

    return _guard(candidate_groups, test_of)


def _degrees_of_freedom(
    precision: Precision,
    group_strata: Sequence[int],
    *,
    is_paired: bool,
) -> float:
    df = degrees(group_strata)
    is_single_stratum = len({*group_strata}) == 1
    if is_single_stratum and not is_paired:
        df -= 1  # each side has a mean of its own
    return max(min(precision.df, df), 1)


def _guard(groups: Sequence[Group], test_of: Callable[[Fewer], _Weighed]) -> _Guarded:
    """Return the guarded test, without weaker tests that a test of more errors already covers."""
    observed, *fewer = map(test_of, widest(groups))
    largest, whole = observed
    weaker = []
    for effect, test in fewer:
        if effect > largest:
            largest = effect
            weaker.append(test)
    cached_tests: Iterator[_Weighed] = chain([observed], map(test_of, evenest(groups)))

    def copy_tests() -> Iterator[_Weighed]:
        nonlocal cached_tests
        cached_tests, copy = tee(cached_tests)  # what was made once is not made again
        return copy

    return _Guarded(whole, weaker, copy_tests)


# The bounds.


def upper_bound(test: LimitTest, level: float) -> float:
    """Return the one-sided upper bound: the truth lies above it with chance `level` at most."""
    high = test.ends[1]

    def raised(bound: float, tests: Iterable[LimitTest]) -> float:
        chances = [(test.below(bound), test) for test in tests]
        chance, weakest = max(chances, key=itemgetter(0))
        if chance <= level:
            return bound
        search = RootSearch(level, bound, high)
        while search.is_open:
            search.note(weakest.below(search.place))
        return search.root

    return _raise_bound(test, min(test.estimate, high), raised, _Guarded.weakest)


def lower_bound(test: LimitTest, level: float) -> float:
    """Return the one-sided lower bound: the truth lies below it with chance `level` at most."""
    low, high = test.ends
    high = min(test.estimate, high)

    def raised(bound: float, tests: Iterable[LimitTest]) -> float:
        chances = [(test.above(bound), test) for test in tests]
        chance, surest = min(chances, key=itemgetter(0))
        if chance >= level:
            return bound
        # `above` rises with the limit, and the search is for a falling function.
        search = RootSearch(1 - level, bound, high)
        while search.is_open:
            search.note(1 - surest.above(search.place))
        return search.root

    return _raise_bound(test, low, raised, _Guarded.lightest)


def _raise_bound(
    test: LimitTest,
    bound: float,
    raised: Callable[[float, Iterable[LimitTest]], float],
    others: Callable[[_Guarded, float], Iterable[LimitTest]],
) -> float:
    """Raise a bound by the whole test, and then by the test that is furthest from it.

    It ends when that one does not raise the bound any more: then no test does.
    """
    if not isinstance(test, _Guarded):
        return raised(bound, [test])
    before = -inf
    bound = raised(bound, [test.whole])
    while bound - before > EXACT:
        before = bound
        bound = raised(bound, others(test, bound))
    return bound


def settling_factor(test: LimitTest, limit: float, level: float) -> float:
    """Return the factor in trials with which the test settles on its side, with 80 % power.

    The truth is taken to be the estimate. Infinite where no practical number suffices.
    """
    normal = NormalDist()
    is_below = test.estimate < limit
    near = test.pruned_at(limit) if isinstance(test, _Guarded) else test
    distance = normal.inv_cdf(1 - level) + normal.inv_cdf(POWER)
    search = RootSearch(1 - normal.cdf(distance), 1.0, MAX_TRIAL_FACTOR)
    while search.is_open:
        scaled = near.scaled(search.place)
        search.note(scaled.below(limit) if is_below else scaled.above(limit))
    # A search that ends at its upper end found no number that is enough.
    return inf if search.root > MAX_TRIAL_FACTOR * 0.999 else search.root


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values adjusted by Holm's method, which bounds the family-wise error rate."""
    adjusted = [0.0] * len(p_values)
    floor = 0.0
    ranked = sorted(enumerate(p_values), key=itemgetter(1))
    for rank, (position, p) in enumerate(ranked):
        # No p is below one that was smaller before the correction.
        floor = max(floor, min(1.0, (len(p_values) - rank) * p))
        adjusted[position] = floor
    return adjusted
