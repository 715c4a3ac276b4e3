"""Tests that no error of the candidate helps, and the bounds that follow from them.

Each is a test of the errors as they are, and of runs with fewer of them (`stats.fewer_errors`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, tee
from math import inf
from operator import itemgetter
from typing import TypeVar

from agenteval.core.counts import Cluster
from agenteval.stats.cluster_variance import Precision, degrees
from agenteval.stats.fewer_errors import Fewer, Group, evenest, widest
from agenteval.stats.limit_tests import ByItself, Comparison, LimitTest, RateTest
from agenteval.stats.quantiles import falling
from agenteval.stats.rates import Z, planned_effect, t_quantile, widened

FEW = 3  # trials that bear errors: of so many a design effect is widened as far as it may be
LIKELY = 0.5  # what is seen so often shows nothing
EXACT = 1e-12  # of a bound
SURE = 1e-12  # what is seen so seldom is below any level, and need not be told apart

Groups = Sequence[tuple[Cluster, Cluster]]  # of baseline and candidate, what belongs together


@dataclass(frozen=True, slots=True)
class Guarded:
    """A test that no error of the candidate helps (`stats.fewer_errors`).

    It is passed when the `weaker` ones are, of fewer errors that lie further apart, and failed when
    any of `fewer` errors is that lie closer together than any with more.
    """

    whole: ByItself
    weaker: Sequence[ByItself]
    fewer: Callable[[], Iterator[tuple[float, ByItself]]]  # design effect and test, from all down

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

    def weakest(self, limit: float) -> list[ByItself]:
        """Those that can be the least sure to lie below the limit."""
        ranked = [(one.nearness(limit), one) for one in (self.whole, *self.weaker)]
        return _nearest(ranked, self.whole.slack)

    def lightest(self, limit: float) -> list[ByItself]:
        """Those that can be the surest to lie above the limit."""
        return [one for _, one in self._lightest(limit)]

    def _lightest(self, limit: float) -> list[tuple[float, ByItself]]:
        nearest, smallest, found = -inf, inf, []
        for effect, one in self.fewer():
            alone = one.scaled(effect)  # as if no two of its errors were alike
            if alone.nearness(limit) < nearest - one.slack or smallest == 1:
                break  # none with fewer errors can be surer
            if effect < smallest:
                smallest, near = effect, one.nearness(limit)
                nearest = max(nearest, near)
                found.append((near, (effect, one)))
        return _nearest(found, self.whole.slack)

    def near(self, limit: float) -> "Guarded":
        """What it says about this limit, however many times as many trials there were.

        With the trials, tests come to lie further apart: what is too far away remains so.
        """
        fewer = sorted(self._lightest(limit), key=itemgetter(0), reverse=True)
        return Guarded(self.whole, self.weakest(limit), lambda: iter(fewer))

    def scaled(self, times: float) -> "Guarded":
        return self._each(lambda one: one.scaled(times))

    def nearer(self, limit: float) -> "Guarded":
        return self._each(lambda one: one.nearer(limit))

    def _each(self, change: Callable[[ByItself], ByItself]) -> "Guarded":
        def fewer() -> Iterator[tuple[float, ByItself]]:
            return ((effect, change(one)) for effect, one in self.fewer())

        return Guarded(change(self.whole), [*map(change, self.weaker)], fewer)


Of = TypeVar("Of")


def _nearest(ranked: Sequence[tuple[float, Of]], slack: float) -> list[Of]:
    """Those that can lie furthest above the limit, beginning with the one that seems to."""
    ranked = sorted(ranked, key=itemgetter(0), reverse=True)
    return [one for near, one in ranked if near >= ranked[0][0] - slack]


def rate_test(clusters: Sequence[Cluster], strata: Sequence[int] = (), *, icc: float) -> LimitTest:
    """Of a rate in clusters; exact where each is one yes or no, as then nothing is clustered."""
    placed = zip(clusters, strata or [0] * len(clusters), strict=True)
    used = [(*cluster, stratum) for cluster, stratum in placed if cluster[1]]
    sizes = [size for _, size, _ in used]
    n = sum(sizes)
    if n == len(used):
        return RateTest(sum([errors for errors, *_ in used]), n)
    known = Precision.of(sizes, [stratum for *_, stratum in used], icc=icc)
    by_t = (t_quantile(known.df) / Z) ** 2

    def made(fewer: Fewer) -> tuple[float, RateTest]:
        if not known.share or fewer.count in {0, n}:
            effect = planned_effect(clusters, icc) * by_t
        else:
            rate = fewer.count / n
            seen = fewer.spread / known.share / (n * rate * (1 - rate))
            effect = widened(seen * by_t, max(fewer.bearing, FEW))
        return effect, RateTest(fewer.count / effect, n / effect)

    groups = [Group(errors, size, stratum=stratum) for errors, size, stratum in used]
    return _guarded(groups, made)


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
    weight, before = (limit if ratio else 1.0), others / of
    scale = weight * n / of
    ours = [
        Group(*after, scale * (errors - before * size), bears=errors > 0, stratum=stratum)
        for (errors, size), after, stratum in used
    ]
    planned = planned_effect(
        [side for one, other, _ in used for side in (one, other) if side[1]], icc
    )
    parts = [stratum for *_, stratum in used]
    sides = [([one[1] for one, *_ in used], scale), ([other[1] for _, other, _ in used], 1.0)]
    known = Precision.of_sides(sides, parts, icc=icc)
    strangers = len({*parts}) == 1 and not all(one[1] and other[1] for one, other, _ in used)
    df = max(min(known.df, degrees(parts) - strangers), 1)

    def made(fewer: Fewer) -> tuple[float, Comparison]:
        rate = fewer.count / n
        expected = rate * (1 - rate) / n + weight * weight * before * (1 - before) / of
        if not known.share or not expected:
            effect = planned
        else:
            seen = fewer.spread / known.share / (n * n) / expected
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
    kept: Iterator[tuple[float, ByItself]] = chain([(seen, whole)], map(made, evenest(groups)))

    def again() -> Iterator[tuple[float, ByItself]]:
        nonlocal kept
        kept, copy = tee(kept)  # what was made once is not made again
        return copy

    return Guarded(whole, weaker, again)


def _summed(clusters: Sequence[Cluster]) -> Cluster:
    return sum(count for count, _ in clusters), sum(size for _, size in clusters)


def upper_bound(test: LimitTest, level: float) -> float:
    """Below what the truth lies, unless something of this chance has happened."""
    high = test.ends[1]

    def raised(found: float, tests: Iterable[LimitTest]) -> float:
        chance, one = max(((one.below(found), one) for one in tests), key=itemgetter(0))
        return _falling(one, level, found, high) if chance > level else found

    return _raised(test, min(test.estimate, high), raised, Guarded.weakest)


def lower_bound(test: LimitTest, level: float) -> float:
    """Above what the truth lies, unless something of this chance has happened."""
    low, high = test.ends[0], min(test.estimate, test.ends[1])

    def raised(found: float, tests: Iterable[LimitTest]) -> float:
        chance, one = min(((one.above(found), one) for one in tests), key=itemgetter(0))
        return _rising(one, level, found, high) if chance < level else found

    return _raised(test, low, raised, Guarded.lightest)


def _raised(
    test: LimitTest,
    found: float,
    raised: Callable[[float, Iterable[LimitTest]], float],
    others: Callable[[Guarded, float], Iterable[LimitTest]],
) -> float:
    """A bound as the test raises it by itself, and then as the one does that is furthest from it.

    Until that one raises it no more: then none does.
    """
    if not isinstance(test, Guarded):
        return raised(found, [test])
    found, before = raised(found, [test.whole]), -inf
    while found - before > EXACT:
        before, found = found, raised(found, others(test, found))
    return found


def _falling(test: LimitTest, level: float, low: float, high: float) -> float:
    return falling(lambda limit: test.below(limit) - level, 0.0, low, high)


def _rising(test: LimitTest, level: float, low: float, high: float) -> float:
    return falling(lambda limit: 1 - test.above(limit), 1 - level, low, high)
