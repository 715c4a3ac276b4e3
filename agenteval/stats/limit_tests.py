"""Whether a rate, or what two rates differ by, lies below a limit: tests and their bounds.

Both tests take their variance at the limit and not where the counts happen to fall: a model that
had luck would else look less variable than it is, and be promoted too often.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf, sqrt
from typing import Protocol, Self, TypeVar

from agenteval.core.counts import Cluster
from agenteval.stats.cluster_variance import Precision, degrees
from agenteval.stats.fewer_errors import Fewer, Group, evenest, widest
from agenteval.stats.quantiles import incomplete_beta, t_tail
from agenteval.stats.rates import Z, planned_effect, t_quantile, widened

FEW = 3  # trials that bear errors: of so many a design effect is widened as far as it may be
FEW_ERRORS = 5  # up to which they are nothing like normal
LIKELY = 0.5  # what is seen so often shows nothing
MOST = 1000.0  # the largest ratio looked for, and how many times more trials are ever asked for


Groups = Sequence[tuple[Cluster, Cluster]]  # of baseline and candidate, what belongs together


class LimitTest(Protocol):
    """One figure to be held against a limit."""

    @property
    def estimate(self) -> float: ...

    @property
    def ends(self) -> tuple[float, float]:
        """Between what the figure can lie."""
        ...

    def below(self, limit: float) -> float:
        """The chance to see so little if the truth were at the limit."""
        ...

    def above(self, limit: float) -> float:
        """The chance to see so much if the truth were at the limit."""
        ...

    def scaled(self, times: float) -> Self:
        """The same figure from so many times as many trials."""
        ...

    def nearer(self, limit: float) -> Self:
        """The figure if it were half as far from the limit."""
        ...


class ByItself(LimitTest, Protocol):
    """A test of the errors as they are."""

    @property
    def slack(self) -> float:
        """How far `nearness` can be from what the test says, in standard errors."""
        ...

    def nearness(self, limit: float) -> float:
        """How many standard errors the figure lies above the limit: orders tests by `below`."""
        ...


@dataclass(frozen=True, slots=True)
class RateTest:
    """One rate: exact binomial on what the design effect leaves (Korn and Graubard 1998)."""

    count: float
    n: float
    ends = (0.0, 1.0)

    @property
    def slack(self) -> float:
        return 1.0 if self.count > FEW_ERRORS else inf

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
    """The rate of a candidate beside that of a baseline: a difference, or a ratio.

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
        ours, theirs = (count / n for count, n in (self.baseline, self.candidate))
        if self.ratio:
            return theirs / ours if ours else inf
        return theirs - ours

    @property
    def ends(self) -> tuple[float, float]:
        return (0.0, MOST) if self.ratio else (-1.0, 1.0)

    def below(self, limit: float) -> float:
        return 1 - self.above(limit)

    def above(self, limit: float) -> float:
        return t_tail(self.nearness(limit), self.df)

    def scaled(self, times: float) -> "Comparison":
        baseline, candidate = (
            (count * times, n * times) for count, n in (self.baseline, self.candidate)
        )
        return Comparison(baseline, candidate, self.effect, self.df * times, self.ratio)

    def nearer(self, limit: float) -> "Comparison":
        (count, n), before = self.candidate, self.baseline[0] / self.baseline[1]
        there = n * min(max(before * limit if self.ratio else before + limit, 0.0), 1.0)
        return replace(self, candidate=((count + there) / 2, n))

    def nearness(self, limit: float) -> float:
        (count, n), (others, of) = self.candidate, self.baseline
        if self.ratio:
            ours = min((count + others) / (of + limit * n), 1 / max(limit, 1))
            theirs, weight = limit * ours, limit
        else:
            ours = min(max((count + others - limit * n) / (of + n), -limit, 0), 1 - limit, 1)
            theirs, weight = ours + limit, 1.0
        gap = count / n - weight * others / of - (0.0 if self.ratio else limit)
        variance = theirs * (1 - theirs) / n + weight * weight * ours * (1 - ours) / of
        if variance <= 0:  # only where a rate of 0 or 1 is all there is
            return inf * gap if gap else 0.0
        return gap / sqrt(variance * self.effect)


@dataclass(frozen=True, slots=True)
class Guarded:
    """A test that no error of the candidate helps (`stats.fewer_errors`).

    It is passed when the `weaker` ones are, of fewer errors that lie further apart, and failed when
    one of the `lighter` ones is, of fewer errors that lie closer together.
    """

    whole: ByItself
    weaker: Sequence[ByItself]
    lighter: Callable[[], Sequence[ByItself]]

    @property
    def estimate(self) -> float:
        return self.whole.estimate

    @property
    def ends(self) -> tuple[float, float]:
        return self.whole.ends

    def below(self, limit: float) -> float:
        return max(one.below(limit) for one in _nearest(limit, self.whole, self.weaker))

    def above(self, limit: float) -> float:
        by_itself = self.whole.above(limit)
        if by_itself > LIKELY:
            return by_itself
        return min(one.above(limit) for one in _nearest(limit, self.whole, self.lighter()))

    def scaled(self, times: float) -> "Guarded":
        return self._each(lambda one: one.scaled(times))

    def nearer(self, limit: float) -> "Guarded":
        return self._each(lambda one: one.nearer(limit))

    def _each(self, change: Callable[[ByItself], ByItself]) -> "Guarded":
        weaker = [*map(change, self.weaker)]
        return Guarded(change(self.whole), weaker, lambda: [*map(change, self.lighter())])


def _nearest(limit: float, whole: ByItself, others: Sequence[ByItself]) -> Iterator[ByItself]:
    """Those that can lie furthest above the limit."""
    ranked = [(one.nearness(limit), one) for one in (whole, *others)]
    least = max(near for near, _ in ranked) - whole.slack
    return (one for near, one in ranked if near >= least)


def rate_test(clusters: Sequence[Cluster], strata: Sequence[int] = (), *, icc: float) -> LimitTest:
    """Of a rate in clusters; exact where each is one yes or no, as then nothing is clustered."""
    placed = zip(clusters, strata or [0] * len(clusters), strict=True)
    used = [Group(*cluster, stratum=stratum) for cluster, stratum in placed if cluster[1]]
    n = sum(group.size for group in used)
    if all(group.size == 1 for group in used):
        return RateTest(sum(group.errors for group in used), n)
    known = Precision.of([one.size for one in used], [one.stratum for one in used], icc=icc)
    by_t = (t_quantile(known.df) / Z) ** 2

    def made(fewer: Fewer) -> tuple[float, RateTest]:
        if not known.share or fewer.count in {0, n}:
            effect = planned_effect(clusters, icc) * by_t
        else:
            rate = fewer.count / n
            seen = fewer.spread / known.share / (n * rate * (1 - rate))
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
