"""Tests of a rate, or of a difference or ratio of two rates, against a limit.

Both tests take their variance at the limit and not at the observed counts. A lucky model would
otherwise look less variable than it is, and be promoted too often.

First the two tests by themselves. Then the guarded tests, which an additional error of the
candidate never helps to pass: each tests the observed errors, and runs with fewer of them
(`stats.fewer_errors`). Last their bounds.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, tee
from math import inf, sqrt
from operator import itemgetter
from typing import Protocol, Self, TypeVar

from agenteval.stats.fewer_errors import Fewer, Group, evenest, widest
from agenteval.stats.quantiles import falling, incomplete_beta, t_tail
from agenteval.stats.rates import Precision, Z, degrees, planned_effect, t_quantile, total, widened
from agenteval.trial.trial import Cluster

FEW_ERRORS = 5  # up to which they are nothing like normal
MOST = 1000.0  # the largest ratio looked for, and how many times more trials are ever asked for


class LimitTest(Protocol):
    """A test of one figure against a limit."""

    @property
    def estimate(self) -> float: ...

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest possible value of the figure."""
        ...

    def below(self, limit: float) -> float:
        """Return the one-sided p of the null hypothesis that the truth is not below the limit.

        It is the chance of an estimate this low if the truth were at the limit.
        """
        ...

    def above(self, limit: float) -> float:
        """Return the one-sided p of the null hypothesis that the truth is not above the limit.

        It is the chance of an estimate this high if the truth were at the limit.
        """
        ...

    def scaled(self, times: float) -> Self:
        """Return this test scaled to `times` as many trials."""
        ...

    def nearer(self, limit: float) -> Self:
        """Return this test with its estimate half as far from the limit."""
        ...


class _ByItself(LimitTest, Protocol):
    """A test of the observed errors."""

    @property
    def slack(self) -> float:
        """The largest discrepancy between `nearness` and the test itself, in standard errors."""
        ...

    def nearness(self, limit: float) -> float:
        """Return how many standard errors the figure lies above the limit.

        It orders tests by `below`.
        """
        ...


@dataclass(frozen=True, slots=True)
class RateTest:
    """The test of one rate: exact binomial on the effective sample (Korn and Graubard 1998).

    `count` and `n` are divided by the design effect.
    """

    count: float
    n: float
    ends = (0.0, 1.0)

    @property
    def slack(self) -> float:
        return min(6 / sqrt(self.count), 1.0) if self.count > FEW_ERRORS else inf

    @property
    def estimate(self) -> float:
        return self.count / self.n

    def below(self, limit: float) -> float:
        misses = self.n - self.count
        return 1 - incomplete_beta(self.count + 1, misses, limit) if misses > 0 else 1.0

    def above(self, limit: float) -> float:
        if self.count <= 0:
            return 1.0
        return incomplete_beta(self.count, self.n - self.count + 1, limit)

    def nearness(self, limit: float) -> float:
        variance = self.n * limit * (1 - limit)
        return (self.count - self.n * limit) / sqrt(variance) if variance else 0.0

    def scaled(self, times: float) -> "RateTest":
        return RateTest(self.count * times, self.n * times)

    def nearer(self, limit: float) -> "RateTest":
        return RateTest((self.count + self.n * limit) / 2, self.n)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The test of a candidate's rate compared with a baseline's: a difference, or a ratio.

    A score test whose variance is multiplied by `effect`, on Student's t with `df` degrees of
    freedom. The common rate under a limit is that of all errors together (Dunnett and Gent 1977).
    """

    baseline: tuple[float, float]
    candidate: tuple[float, float]
    effect: float
    df: float
    ratio: bool
    slack = 0.0

    @property
    def estimate(self) -> float:
        baseline = self.baseline[0] / self.baseline[1]
        candidate = self.candidate[0] / self.candidate[1]
        if self.ratio:
            return candidate / baseline if baseline else inf
        return candidate - baseline

    @property
    def ends(self) -> tuple[float, float]:
        return (0.0, MOST) if self.ratio else (-1.0, 1.0)

    def below(self, limit: float) -> float:
        return 1 - self.above(limit)

    def above(self, limit: float) -> float:
        return t_tail(self.nearness(limit), self.df)

    def scaled(self, times: float) -> "Comparison":
        (others, of), (count, n) = self.baseline, self.candidate
        return replace(
            self,
            baseline=(others * times, of * times),
            candidate=(count * times, n * times),
            df=self.df * times,
        )

    def nearer(self, limit: float) -> "Comparison":
        count, n = self.candidate
        before = self.baseline[0] / self.baseline[1]
        rate = before * limit if self.ratio else before + limit
        at_limit = n * min(max(rate, 0.0), 1.0)
        return replace(self, candidate=((count + at_limit) / 2, n))

    def nearness(self, limit: float) -> float:
        count, n = self.candidate
        others, of = self.baseline
        # The likeliest two rates at the limit.
        if self.ratio:
            weight = limit
            baseline = min((count + others) / (of + limit * n), 1 / max(limit, 1))
            candidate = limit * baseline
            gap = count / n - weight * others / of - 0.0
        else:
            weight = 1.0
            baseline = min(max((count + others - limit * n) / (of + n), -limit, 0), 1 - limit, 1)
            candidate = baseline + limit
            gap = count / n - weight * others / of - limit
        variance = candidate * (1 - candidate) / n
        variance += weight * weight * baseline * (1 - baseline) / of
        if variance <= 0:  # only where a rate of 0 or 1 is all there is
            return inf * gap if gap else 0.0
        return gap / sqrt(variance * self.effect)


# Tests that an additional error never helps.

FEW = 3  # trials that bear errors: of so many a design effect is widened as far as it may be
LIKELY = 0.5  # what is seen so often shows nothing
EXACT = 1e-12  # of a bound
SURE = 1e-12  # what is seen so seldom is below any level, and need not be told apart
Groups = Sequence[tuple[Cluster, Cluster]]  # of baseline and candidate, what belongs together


@dataclass(frozen=True, slots=True)
class Guarded:
    """A test that an additional error of the candidate never helps (`stats.fewer_errors`).

    It passes when `whole` and all `weaker` tests pass: those of fewer errors with a larger spread.
    It fails when any test of `fewer` errors fails whose spread is smaller than with more of them.
    """

    whole: _ByItself
    weaker: Sequence[_ByItself]
    fewer: Callable[[], Iterator[tuple[float, _ByItself]]]  # design effect and test, from all down

    @property
    def estimate(self) -> float:
        return self.whole.estimate

    @property
    def ends(self) -> tuple[float, float]:
        return self.whole.ends

    def below(self, limit: float) -> float:
        return max(one.below(limit) for one in self.weakest(limit))

    def above(self, limit: float) -> float:
        by_itself = self.whole.above(limit)
        if by_itself > LIKELY or by_itself < SURE:
            return by_itself
        return min(one.above(limit) for one in self.lightest(limit))

    def weakest(self, limit: float) -> list[_ByItself]:
        """Return the tests that might have the largest p of lying below the limit."""
        ranked = [(one.nearness(limit), one) for one in (self.whole, *self.weaker)]
        return _nearest(ranked, self.whole.slack)

    def lightest(self, limit: float) -> list[_ByItself]:
        """Return the tests that might have the smallest p of lying above the limit."""
        return [one for _, one in self._lightest(limit)]

    def _lightest(self, limit: float) -> list[tuple[float, _ByItself]]:
        nearest = -inf
        smallest = inf
        candidates = []
        for effect, test in self.fewer():
            alone = test.scaled(effect)  # as if no two of its errors were alike
            if alone.nearness(limit) < nearest - test.slack or smallest == 1:
                break  # none with fewer errors can be surer
            if effect < smallest:
                smallest = effect
                near = test.nearness(limit)
                nearest = max(nearest, near)
                candidates.append((near, (effect, test)))
        return _nearest(candidates, self.whole.slack)

    def near(self, limit: float) -> "Guarded":
        """Return the part of this test that matters at this limit, however it is scaled.

        Tests move further apart as trials are added, so that a test too far away remains so.
        """
        fewer = sorted(self._lightest(limit), key=itemgetter(0), reverse=True)
        return Guarded(self.whole, self.weakest(limit), lambda: iter(fewer))

    def scaled(self, times: float) -> "Guarded":
        return self._map_tests(lambda one: one.scaled(times))

    def nearer(self, limit: float) -> "Guarded":
        return self._map_tests(lambda one: one.nearer(limit))

    def _map_tests(self, change: Callable[[_ByItself], _ByItself]) -> "Guarded":
        def fewer() -> Iterator[tuple[float, _ByItself]]:
            return ((effect, change(one)) for effect, one in self.fewer())

        return Guarded(change(self.whole), [*map(change, self.weaker)], fewer)


Of = TypeVar("Of")


def _nearest(ranked: Sequence[tuple[float, Of]], slack: float) -> list[Of]:
    """Return the values that might lie furthest above the limit, the highest rank first."""
    ranked = sorted(ranked, key=itemgetter(0), reverse=True)
    return [one for near, one in ranked if near >= ranked[0][0] - slack]


def rate_test(clusters: Sequence[Cluster], strata: Sequence[int] = (), *, icc: float) -> LimitTest:
    """Return the test of a rate in clusters.

    It is exact where each cluster is a single draw, as then nothing is clustered.
    """
    placed = zip(clusters, strata or [0] * len(clusters), strict=True)
    groups = [Group(errors, size, stratum=stratum) for (errors, size), stratum in placed if size]
    count, n = total(clusters)
    if n == len(groups):
        return RateTest(count, n)
    sizes = [group.size for group in groups]
    precision = Precision.of(sizes, [group.stratum for group in groups], icc=icc)
    by_t = (t_quantile(precision.df) / Z) ** 2

    def test_of(fewer: Fewer) -> tuple[float, RateTest]:
        if not precision.share or fewer.count in {0, n}:
            effect = planned_effect(clusters, icc) * by_t
        else:
            rate = fewer.count / n
            effect_of_errors = fewer.spread / precision.share / (n * rate * (1 - rate))
            effect = widened(effect_of_errors * by_t, max(fewer.bearing, FEW))
        return effect, RateTest(fewer.count / effect, n / effect)

    return _guarded(groups, test_of)


def comparison(
    groups: Groups, strata: Sequence[int] = (), *, limit: float, ratio: bool, icc: float
) -> LimitTest:
    """Return the test of a difference or ratio of two rates, from counts in groups.

    A group may be empty on one side, where the trials are not paired. Each side must have calls.
    The design effect is estimated from the contribution of each group to the figure at the limit,
    or from the planned `icc` where the counts cannot show it.
    """
    placed = zip(groups, strata or [0] * len(groups), strict=True)
    used = [(*both, stratum) for both, stratum in placed if both[0][1] or both[1][1]]
    baseline, candidate, parts = zip(*used, strict=True)
    others, of = total(baseline)
    _, n = total(candidate)
    weight = limit if ratio else 1.0
    before = others / of
    scale = weight * n / of
    candidate_groups = [
        Group(*after, scale * (errors - before * size), bears=errors > 0, stratum=stratum)
        for (errors, size), after, stratum in used
    ]
    planned = planned_effect([side for *both, _ in used for side in both if side[1]], icc)
    baseline_sizes = [size for _, size in baseline]
    candidate_sizes = [size for _, size in candidate]
    sides = [(baseline_sizes, scale), (candidate_sizes, 1.0)]
    precision = Precision.of_sides(sides, parts, icc=icc)
    side_has_own_mean = len({*parts}) == 1 and not all(baseline_sizes + candidate_sizes)
    df = max(min(precision.df, degrees(parts) - side_has_own_mean), 1)

    def test_of(fewer: Fewer) -> tuple[float, Comparison]:
        rate = fewer.count / n
        expected = rate * (1 - rate) / n + weight * weight * before * (1 - before) / of
        if not precision.share or not expected:
            effect = planned
        else:
            effect_of_errors = fewer.spread / precision.share / (n * n) / expected
            effect = widened(effect_of_errors, max(fewer.bearing, FEW))
        return effect, Comparison((others, of), (fewer.count, n), effect, df, ratio)

    return _guarded(candidate_groups, test_of)


Part = TypeVar("Part", RateTest, Comparison)


def _guarded(groups: Sequence[Group], test_of: Callable[[Fewer], tuple[float, Part]]) -> Guarded:
    """Return the guarded test, without weaker tests that a test of more errors already covers."""
    (observed_effect, whole), *fewer = map(test_of, widest(groups))
    weaker = []
    largest = observed_effect
    for effect, test in fewer:
        if effect > largest:
            largest = effect
            weaker.append(test)
    cached_tests: Iterator[tuple[float, _ByItself]] = chain(
        [(observed_effect, whole)], map(test_of, evenest(groups))
    )

    def again() -> Iterator[tuple[float, _ByItself]]:
        nonlocal cached_tests
        cached_tests, copy = tee(cached_tests)  # what was made once is not made again
        return copy

    return Guarded(whole, weaker, again)


# The bounds.


def upper_bound(test: LimitTest, level: float) -> float:
    """Return the one-sided upper bound: the truth lies above it with chance `level` at most."""
    high = test.ends[1]

    def raised(bound: float, tests: Iterable[LimitTest]) -> float:
        chances = [(one.below(bound), one) for one in tests]
        chance, weakest = max(chances, key=itemgetter(0))
        if chance <= level:
            return bound
        return falling(lambda limit: weakest.below(limit) - level, 0.0, bound, high)

    return _raised(test, min(test.estimate, high), raised, Guarded.weakest)


def lower_bound(test: LimitTest, level: float) -> float:
    """Return the one-sided lower bound: the truth lies below it with chance `level` at most."""
    low, high = test.ends[0], min(test.estimate, test.ends[1])

    def raised(bound: float, tests: Iterable[LimitTest]) -> float:
        chances = [(one.above(bound), one) for one in tests]
        chance, surest = min(chances, key=itemgetter(0))
        if chance >= level:
            return bound
        return falling(lambda limit: 1 - surest.above(limit), 1 - level, bound, high)

    return _raised(test, low, raised, Guarded.lightest)


def _raised(
    test: LimitTest,
    bound: float,
    raised: Callable[[float, Iterable[LimitTest]], float],
    others: Callable[[Guarded, float], Iterable[LimitTest]],
) -> float:
    """Raise a bound by the whole test, and then by the test that is furthest from it.

    It ends when that one does not raise the bound any more: then no test does.
    """
    if not isinstance(test, Guarded):
        return raised(bound, [test])
    before = -inf
    bound = raised(bound, [test.whole])
    while bound - before > EXACT:
        before = bound
        bound = raised(bound, others(test, bound))
    return bound
