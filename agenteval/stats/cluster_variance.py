"""The variance of a sum of clusters (trials, or scenarios), from how they vary in their strata.

A large cluster pulls the rate that it is held against: beside it the sum looks surer than it is. By
how much, and as of how many degrees of freedom, follows from the sizes and from how much the draws
of one cluster are taken to resemble each other (Bell and McCaffrey 2002).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Self, TypeVar

from agenteval.core.counts import Cluster

# Below it Student's t would take a rate for something without ends (docs/validation.md).
LEAST_DF = 4
_NOTHING = 1e-9
Of = TypeVar("Of")
Sizes = Sequence[float]
Places = Sequence[Sequence[int]]  # of each stratum: where its clusters stand


def degrees(strata: Sequence[int]) -> int:
    """Of freedom: one less than the clusters of each stratum, but of one that has a single one."""
    return sum(k - 1 if k > 1 else 1 for k in Counter(strata).values())


def varied(values: Sequence[float], strata: Sequence[int]) -> float:
    """The variance of the sum of these values, from how they vary within their strata.

    The only value of a stratum varies around 0.
    """
    total = 0.0
    for of in _by_stratum(values, strata):
        mean = sum(of) / len(of) if len(of) > 1 else 0.0
        total += weight(len(of)) * sum([(value - mean) ** 2 for value in of])
    return total


def evenness(clusters: Sequence[Cluster], strata: Sequence[int]) -> float:
    """Variance within strata divided by the variance of one pooled sample; at most 1.

    One error and one call without are added to each stratum (Laplace), as one that shows no spread
    may well have some.
    """
    counts, sizes = [count for count, _ in clusters], [size for _, size in clusters]
    count, n = sum(counts), sum(sizes)
    if not 0 < count < n or len(set(strata)) < 2:
        return 1.0
    rate = count / n
    spread = 0.0
    ours = _by_stratum(counts, strata), _by_stratum(sizes, strata)
    for errors, size in zip(*(map(sum, of) for of in ours), strict=True):
        spread += (errors + 1) * (size - errors + 1) / (size + 2)
    return min(spread / (n * rate * (1 - rate)), 1.0)


@dataclass(frozen=True, slots=True)
class Precision:
    """What `varied` tells of clusters whose errors are held against the rate of all.

    In the mean it finds this `share` of the variance, and it knows it as well as `df` independent
    squares do (Satterthwaite). A share of 0 is that it tells nothing.
    """

    share: float
    df: float

    @classmethod
    def of(cls, sizes: Sizes, strata: Sequence[int], *, icc: float) -> Self:
        return cls.of_sides([(sizes, 1.0)], strata, icc=icc)

    @classmethod
    def of_sides(
        cls, sides: Iterable[tuple[Sizes, float]], strata: Sequence[int], *, icc: float
    ) -> Self:
        """Of sides that are each held against their own rate, then multiplied and added up.

        A size is 0 where a side has no calls in the cluster of another.
        """
        each = tuple((tuple(sizes), times) for sizes, times in sides)
        share, df = _precision(each, tuple(strata), icc)
        return cls(share, min(max(df, LEAST_DF), degrees(strata)))


@lru_cache(maxsize=64)  # all figures of a run have the same trials
def _precision(
    sides: tuple[tuple[Sizes, float], ...], strata: tuple[int, ...], icc: float
) -> tuple[float, float]:
    """Mean and variance of a quadratic form: the trace of its matrix, and of the square of that.

    The matrix is a diagonal one centred in each stratum, and for each side p a' + a p'.
    """
    places = _places(strata)
    own = [[times**2 * size * (1 + icc * (size - 1)) for size in of] for of, times in sides]
    pulls = [_pull(of, variances, places) for (of, _), variances in zip(sides, own, strict=True)]
    each = [sum(variances) for variances in zip(*own, strict=True)]
    there = sum(each)
    found = there + 2 * sum(_dot(p, a) for p, a in pulls)
    if found < _NOTHING * there:
        return 0.0, 0.0
    square = sum(_squared([each[at] for at in of]) for of in places)
    for p, a in pulls:
        square += 4 * sum(
            weight(len(of)) * sum([each[at] * p[at] * a[at] for at in of]) for of in places
        )
        square += 2 * sum(_dot(a, q) * _dot(p, b) + _dot(a, b) * _dot(p, q) for q, b in pulls)
    if square <= 0:  # one cluster is all there is, but for rounding
        return 0.0, 0.0
    return found / there, found * found / square


def _pull(sizes: Sizes, variances: Sizes, places: Places) -> tuple[Sizes, Sizes]:
    """What each cluster does to the others as the rate of all follows it: p and a."""
    n, half = sum(sizes), sum(variances) / 2
    a = _centred([size / n for size in sizes], places)
    own = _centred(variances, places)
    return [half * one - other for one, other in zip(a, own, strict=True)], a


def _centred(values: Sizes, places: Places) -> Sizes:
    """Each beside the mean of its stratum, so that their squares add up to what `varied` finds."""
    found = [*values]
    for of in places:
        if len(of) > 1:
            mean, times = sum([values[at] for at in of]) / len(of), sqrt(weight(len(of)))
            for at in of:
                found[at] = times * (values[at] - mean)
    return found


def _squared(variances: Sizes) -> float:
    """The trace of the square of a diagonal, centred and weighed."""
    k, squares = len(variances), sum([one * one for one in variances])
    return squares if k == 1 else (squares * (k - 2) * k + sum(variances) ** 2) / (k - 1) ** 2


def weight(k: int) -> float:
    """Of the square of what each of so many clusters of a stratum has, in the variance."""
    return k / (k - 1) if k > 1 else 1.0


def _dot(one: Sizes, other: Sizes) -> float:
    return sum([a * b for a, b in zip(one, other, strict=True)])


def _by_stratum(values: Sequence[Of], strata: Sequence[int]) -> list[list[Of]]:
    return [[values[place] for place in places] for places in _places(tuple(strata))]


@lru_cache(maxsize=8)
def _places(strata: tuple[int, ...]) -> Places:
    found: dict[int, list[int]] = defaultdict(list)
    for place, stratum in enumerate(strata):
        found[stratum].append(place)
    return list(found.values())
