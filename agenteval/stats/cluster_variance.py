"""The variance of a sum of clusters (trials, or scenarios), from how they vary in their strata.

A large cluster pulls the rate that it is compared with, so the variance of the sum looks smaller
than it is. By how much, and with how many degrees of freedom, follows from the cluster sizes and
from the assumed intraclass correlation (Bell and McCaffrey 2002).
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
    """Return the degrees of freedom: one less than the clusters of each stratum.

    A stratum of a single cluster counts as one.
    """
    return sum(k - 1 if k > 1 else 1 for k in Counter(strata).values())


def varied(values: Sequence[float], strata: Sequence[int]) -> float:
    """Return the variance of the sum of these values, from how they vary within their strata.

    The only value of a stratum varies around 0.
    """
    total = 0.0
    for of in _by_stratum(values, strata):
        mean = sum(of) / len(of) if len(of) > 1 else 0.0
        total += weight(len(of)) * sum([(value - mean) ** 2 for value in of])
    return total


def evenness(clusters: Sequence[Cluster], strata: Sequence[int]) -> float:
    """Return the variance within strata divided by that of one pooled sample; at most 1.

    One error and one call without an error are added to each stratum (Laplace), as a stratum that
    shows no spread might well have some.
    """
    counts, sizes = [count for count, _ in clusters], [size for _, size in clusters]
    count, n = sum(counts), sum(sizes)
    if not 0 < count < n or len(set(strata)) < 2:
        return 1.0
    rate = count / n
    spread = 0.0
    sums = _by_stratum(counts, strata), _by_stratum(sizes, strata)
    for errors, size in zip(*(map(sum, of) for of in sums), strict=True):
        spread += (errors + 1) * (size - errors + 1) / (size + 2)
    return min(spread / (n * rate * (1 - rate)), 1.0)


@dataclass(frozen=True, slots=True)
class Precision:
    """The precision of `varied` for clusters whose errors are compared with the pooled rate.

    On average it recovers this `share` of the variance, with `df` degrees of freedom
    (Satterthwaite). A share of 0 means that the clusters carry no information about the variance.
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
        """Return the precision for a weighted sum of sides, each compared with its own rate.

        A side is the sizes of its clusters and its weight. A size is 0 where a side has no calls in
        the cluster of another.
        """
        weighted_sides = tuple((tuple(sizes), times) for sizes, times in sides)
        share, df = _precision(weighted_sides, tuple(strata), icc)
        return cls(share, min(max(df, LEAST_DF), degrees(strata)))


@lru_cache(maxsize=64)  # all figures of a run have the same trials
def _precision(
    sides: tuple[tuple[Sizes, float], ...], strata: tuple[int, ...], icc: float
) -> tuple[float, float]:
    """Return share and degrees of freedom from the mean and variance of a quadratic form.

    These are the trace of its matrix and of the square of that. The matrix is a diagonal one
    centred in each stratum, and for each side p a' + a p'.
    """
    places = _places(strata)
    own = [[times**2 * size * (1 + icc * (size - 1)) for size in of] for of, times in sides]
    pulls = [_pull(of, variances, places) for (of, _), variances in zip(sides, own, strict=True)]
    combined = [sum(variances) for variances in zip(*own, strict=True)]
    there = sum(combined)
    trace = there + 2 * sum(_dot(p, a) for p, a in pulls)
    if trace < _NOTHING * there:
        return 0.0, 0.0
    square = sum(_squared([combined[at] for at in of]) for of in places)
    for p, a in pulls:
        square += 4 * sum(
            weight(len(of)) * sum([combined[at] * p[at] * a[at] for at in of]) for of in places
        )
        square += 2 * sum(_dot(a, q) * _dot(p, b) + _dot(a, b) * _dot(p, q) for q, b in pulls)
    if square <= 0:  # one cluster is all there is, but for rounding
        return 0.0, 0.0
    return trace / there, trace * trace / square


def _pull(sizes: Sizes, variances: Sizes, places: Places) -> tuple[Sizes, Sizes]:
    """Return the effect of each cluster on the others through the pooled rate: p and a."""
    n, half = sum(sizes), sum(variances) / 2
    a = _centred([size / n for size in sizes], places)
    own = _centred(variances, places)
    return [half * one - other for one, other in zip(a, own, strict=True)], a


def _centred(values: Sizes, places: Places) -> Sizes:
    """Centre values on the mean of their stratum; their squares add up to the sum of `varied`."""
    centred = [*values]
    for of in places:
        if len(of) > 1:
            mean, times = sum([values[at] for at in of]) / len(of), sqrt(weight(len(of)))
            for at in of:
                centred[at] = times * (values[at] - mean)
    return centred


def _squared(variances: Sizes) -> float:
    """Return the trace of the square of a diagonal, centred and weighed."""
    k, squares = len(variances), sum([one * one for one in variances])
    return squares if k == 1 else (squares * (k - 2) * k + sum(variances) ** 2) / (k - 1) ** 2


def weight(k: int) -> float:
    """Return the weight of each square in the variance, for a stratum of `k` clusters."""
    return k / (k - 1) if k > 1 else 1.0


def _dot(one: Sizes, other: Sizes) -> float:
    return sum([a * b for a, b in zip(one, other, strict=True)])


def _by_stratum(values: Sequence[Of], strata: Sequence[int]) -> list[list[Of]]:
    return [[values[place] for place in places] for places in _places(tuple(strata))]


@lru_cache(maxsize=8)
def _places(strata: tuple[int, ...]) -> Places:
    places: dict[int, list[int]] = defaultdict(list)
    for place, stratum in enumerate(strata):
        places[stratum].append(place)
    return list(places.values())
