"""Permutation tests of two models: paired where they met the same task instances, else unpaired.

The p value of a permutation test, and the permutations.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import comb, exp, inf, lgamma, log, prod, sqrt
from statistics import NormalDist
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from agenteval.stats.rates import (
    PLANNED_ICC,
    Precision,
    Z,
    degrees,
    evenness,
    planned_effect,
    t_quantile,
)
from agenteval.stats.score import EXCHANGES, SETTLED, Evidence, least_p
from agenteval.trial.trial import Cluster

_DIGITS = 9  # values that agree so far are the same one, computed twice
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tail:
    """The upper tail of a null distribution: mid-p values (Lancaster 1961).

    The chance of each value is that of all larger values and half of its own. Ties are frequent
    where errors are few: counted in full, they make a test reject 2 % and not 5. Between two values
    the chance is interpolated linearly, so that each chance has one value as well.
    """

    values: Values
    chances: Values

    @classmethod
    def of(cls, values: Values, weights: Values | None = None) -> Self:
        """Return the tail of the null distribution of `values`, equally likely or by `weights`."""
        distinct, at = np.unique(np.round(values, _DIGITS), return_inverse=True)
        times = np.bincount(at, weights)
        chances = (times[::-1].cumsum()[::-1] - times / 2) / times.sum()
        chances[0] = 1.0  # nothing is nearer: that is no evidence at all
        return cls(distinct, chances)

    def p(self, observed: float) -> float:
        return float(np.interp(round(observed, _DIGITS), self.values, self.chances))

    def judged(
        self, observed: float, *, df: int, more: float = 0.0, least: float = 0.0
    ) -> tuple[float, float]:
        """Return the p of the observed value, and the critical value at which p is 0.05.

        The critical value is that of Student's t where no value has such a p. `more` is added to
        every p, and none is below `least`.
        """
        wanted = SETTLED - more
        critical = t_quantile(df)
        if least < SETTLED and self.chances[-1] < wanted:
            critical = float(np.interp(wanted, self.chances[::-1], self.values[::-1]))
        return min(max(self.p(observed) + more, least), 1.0), critical


def itself(*sides: tuple[int, int]) -> float:
    """Return the share of the observed labelling among all exchanges of trials.

    `sides` are the numbers of trials of both sides in each stratum. With equal numbers on both
    sides, the mirror image has the same distance and counts too.
    """
    is_balanced = all(n_first == n_second for n_first, n_second in sides)
    return (1 + is_balanced) / prod(
        comb(n_first + n_second, n_first) for n_first, n_second in sides
    )


AT_ONCE = 4_000_000  # weights in memory
MANY = 1_000  # trials, from which on drawing row by row is quicker than sorting
ALIKE = 20  # trials of each kind, on average, from which on kinds are drawn and not trials
EXACT = 2**24  # whole numbers below it are exact in 32 bits, which are twice as fast
Sums = tuple[NDArray[np.float64], NDArray[np.float64]]  # one row for each exchange
Seed = int | Sequence[int]


def exchanged(
    first: NDArray[np.int64], second: NDArray[np.int64], *, seed: Seed, exchanges: int = EXCHANGES
) -> Sums:
    """Return the sums of both sides after each random exchange of independent trials.

    Equal trials are interchangeable. Where many are equal, the number of each kind on a side is
    drawn (multivariate hypergeometric), which has the same distribution.
    """
    rng, trials = np.random.default_rng(seed), np.vstack([first, second])
    kinds, many = np.unique(trials, axis=0, return_counts=True)
    if len(trials) >= MANY and len(kinds) < len(trials) / ALIKE:
        weights = kinds.astype(np.float64)
        drawn = [
            rng.multivariate_hypergeometric(many, len(first), batch.stop - batch.start, "marginals")
            for batch in _in_parts(exchanges, len(kinds))
        ]
        first_sums = np.vstack([part @ weights for part in drawn])
        return first_sums, trials.sum(axis=0) - first_sums

    def subsets(many: int) -> NDArray[np.float32]:
        if len(trials) < MANY:
            keys, last = rng.random((many, len(trials))), len(first) - 1
            return (keys <= np.partition(keys, last)[:, [last]]).astype(np.float32)
        weights = np.zeros((many, len(trials)), dtype=np.float32)
        for row in weights:
            row[rng.choice(len(trials), len(first), replace=False, shuffle=False)] = 1
        return weights

    small = abs(trials).sum(axis=0).max() < EXACT
    columns: NDArray[Any] = trials.astype(np.float32 if small else np.float64)
    parts = [
        subsets(batch.stop - batch.start) @ columns for batch in _in_parts(exchanges, len(trials))
    ]
    first_sums = np.vstack(parts).astype(np.float64)
    return first_sums, trials.sum(axis=0) - first_sums


def flipped(
    shares: NDArray[np.float64], *, seed: Seed, exchanges: int = EXCHANGES
) -> NDArray[np.float64]:
    """Return the sums of the contributions to a difference, each with a random sign.

    `shares` are the contributions of the task instances; swapping its two trials turns the sign of
    one. A contribution must not depend on how many calls each model makes there, or a model of few
    calls would stand out by them.
    """
    rng = np.random.default_rng(seed)
    octets = -(-len(shares) // 8)  # one draw is the signs of eight worlds
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    padded = np.zeros((8 * octets, shares.shape[1]))
    padded[: len(shares)] = shares
    added = (1 - 2 * bits.astype(np.float64)) @ padded.reshape(octets, 8, -1)  # of each draw
    sums = np.zeros((exchanges, shares.shape[1]))
    for many in _in_parts(exchanges, octets * 8):
        drawn = rng.integers(0, 256, size=(many.stop - many.start, octets), dtype=np.uint8)
        for of_eight, signs in zip(added, drawn.T, strict=True):
            # A third of the time of of_eight[signs].
            sums[many] += of_eight.take(signs, axis=0, mode="clip")
    return sums


def _in_parts(exchanges: int, trials: int) -> Iterator[slice]:
    at_once = max(1, AT_ONCE // trials)
    for start in range(0, exchanges, at_once):
        yield slice(start, min(start + at_once, exchanges))


def tosses(n: int) -> list[float]:
    """Return the probability of each number of heads in n tosses of a coin, from none to n."""
    return [
        exp(lgamma(n + 1) - lgamma(heads + 1) - lgamma(n - heads + 1) - n * log(2))
        for heads in range(n + 1)
    ]


Counts = NDArray[np.int64]  # of each trial (first axis) and figure (second): how many, of how many
Places = NDArray[np.int64]
Strata = Sequence[int]  # the stratum of each trial; none: all are of one


def paired_test(  # noqa: PLR0913 -- what a test is made of
    first: Counts,
    second: Counts,
    *,
    seed: int,
    strata: Strata = (),
    shares: bool = True,
    exchanges: int = EXCHANGES,
) -> list[Evidence]:
    """Return the paired test of each figure.

    With `shares`, figures are shares of calls; else they are counts without an upper end.
    """
    added = _added(first, second, shares=shares)
    labels = [*strata] or [0] * len(first)
    swapped = [
        flipped(added[places], seed=_seed(seed, at), exchanges=exchanges)
        for at, places in enumerate(_places(labels))
    ]
    return _judged(first, second, swapped, labels, shares=shares)


def paired_once(first: Counts, second: Counts) -> list[Evidence]:
    """Return the exact paired test of one yes-or-no figure of trials.

    Task instances in which the two sides differ are tossed coins: McNemar's test with mid-p
    (Fagerland 2013). So nothing needs to be drawn.
    """
    differ = int(np.count_nonzero(_added(first, second, shares=True)))
    swapped = (2 * np.arange(differ + 1) - differ)[:, None] / len(first)
    weights = np.array([0.0, *tosses(differ)])
    return _judged(first, second, [swapped], [0] * len(first), weights=weights)


def _places(strata: Strata) -> list[Places]:
    """Return the positions of the trials of each stratum."""
    return [np.flatnonzero(np.asarray(strata) == one) for one in dict.fromkeys(strata)]


def _seed(seed: int, at: int) -> Seed:
    """Return the seed of one stratum: no two have the same exchanges."""
    return [seed, at] if at else seed


def spread(rate: Values, *, shares: bool) -> Values:
    """Return the variance of one draw: of a share, or of a count."""
    variance: Values = rate * (1 - rate * shares)
    return variance


def planned(trials: Counts) -> float:
    """Return the planned design effect of a figure whose counts show none: all 0, or all full."""
    clusters = [(count, size) for count, size in trials.tolist() if size]
    return planned_effect(clusters, PLANNED_ICC)


def _added(first: Counts, second: Counts, *, shares: bool) -> Values:
    """Return the contribution of each task instance to the difference.

    It does not depend on how many calls each model makes there, or a model of few calls would stand
    out by them. So swapping the trials only turns its sign. It is 0 where no call counts, or every
    one does: the contribution of sizes alone would break ties elsewhere.
    """
    both = first + second
    rates = both[..., 0].sum(axis=0) / both[..., 1].sum(axis=0)
    mixed = (both[..., 0] > 0) & ((both[..., 0] < both[..., 1]) | (not shares))
    return np.where(mixed, _around(first, rates) - _around(second, rates), 0.0)


def _around(trials: Counts, rates: Values) -> Values:
    """Return the contribution of each trial to its side's deviation from these rates."""
    around: Values = (trials[..., 0] - rates * trials[..., 1]) / trials[..., 1].sum(axis=0)
    return around


def _judged(  # noqa: PLR0913 -- what a test is made of
    first: Counts,
    second: Counts,
    swapped: Sequence[Values],
    strata: Strata,
    *,
    shares: bool = True,
    weights: Values | None = None,
) -> list[Evidence]:
    """Return the evidence on each figure from the sums of contributions after random swaps.

    `swapped` has these sums for each stratum; the first axis is the swap, the last the figure.
    """
    added = _added(first, second, shares=shares)
    sums = variances = np.zeros((1, 1))
    for places, drawn in zip(_places(strata), swapped, strict=True):
        k, of = len(places), added[places]
        flipped_sums = np.concatenate([of.sum(axis=0)[None], drawn])
        # One world more, which adds nothing, keeps the variance above 0.
        variances = variances + (k + 1) / k * ((of**2).sum(axis=0) - flipped_sums**2 / (k + 1))
        sums = sums + flipped_sums
    distances = abs(sums) / np.sqrt(np.where(variances > 0, variances, 1.0))
    effects, same, shifts = _effects(first, second, added, strata, shares=shares)
    evidences, df = [], degrees(strata)
    for at, shift in enumerate(shifts - sums[0]):
        tail, variance = Tail.of(distances[:, at], weights), variances[0, at]
        p, critical = tail.judged(distances[0, at], df=df)
        effect = effect_if_same = planned((first + second)[:, at])
        if variance:
            effect, effect_if_same = float(effects[at]), float(variance / same[at])
        if p >= SETTLED:
            effect_if_same = max(effect, effect_if_same)
        evidences.append(Evidence(p, critical, effect, effect_if_same, float(shift)))
    return evidences


def _effects(
    first: Counts, second: Counts, added: Values, strata: Strata, *, shares: bool
) -> tuple[Values, Values, Values]:
    """Return variance inflation, variance if the rates are equal, and difference of each figure.

    The inflation is relative to independent draws at the observed rates; the variance is that of
    independent draws at one rate. As few task instances may by luck not vary at all, two more are
    added that vary like independent draws at one rate.
    """
    (count, n), (other, m) = (np.moveaxis(side.sum(axis=0), -1, 0) for side in (first, second))
    rate, rates = (count + other) / (n + m), (count / n, other / m)
    same = spread(rate, shares=shares) * (1 / n + 1 / m)
    alone = spread(rates[0], shares=shares) / n + spread(rates[1], shares=shares) / m
    around = _around(first, rates[0]) - _around(second, rates[1])
    observed_variance = np.sum([_varied(around[places]) for places in _places(strata)], axis=0)
    observed_variance /= _estimated_share(first, second, strata)
    worlds = np.count_nonzero(added, axis=0)
    more = np.where(same > 0, 2 * same, 1.0)
    return (worlds * observed_variance + more) / (worlds * alone + more), same, rates[0] - rates[1]


def _estimated_share(first: Counts, second: Counts, strata: Strata) -> Values:
    """Return the share of each figure's variance that is estimated from instances of these sizes.

    It includes the loss of degrees of freedom from a few large instances. It is 1 where they carry
    no information.
    """
    columns = zip(first[..., 1].T, second[..., 1].T, strict=True)
    each = [[(side.tolist(), 1 / side.sum()) for side in sides] for sides in columns]
    precisions = [Precision.of_sides(sides, strata, icc=PLANNED_ICC) for sides in each]
    usual = t_quantile(degrees(strata))
    return np.array([one.share * (usual / t_quantile(one.df)) ** 2 or 1.0 for one in precisions])


def _varied(values: Values) -> Values:
    """Return the variance of the sum of these values; a single one varies around 0."""
    k = len(values)
    return np.asarray(k * values.var(axis=0, ddof=1) if k > 1 else (values**2).sum(axis=0))


def unpaired_test(  # noqa: PLR0913 -- what a test is made of
    first: Counts,
    second: Counts,
    *,
    seed: int,
    strata: tuple[Strata, Strata] = ((), ()),
    shares: bool = True,
    exchanges: int = EXCHANGES,
) -> list[Evidence]:
    """Return the unpaired test of each figure.

    With `shares`, figures are shares of calls; else they are counts without an upper end.
    """
    labels = [[*(of or [0] * len(side))] for of, side in zip(strata, (first, second), strict=True)]
    parts = _places_on_both_sides(*labels)
    both, sizes = np.concatenate([first, second]), [(len(one), len(other)) for one, other in parts]
    drawn = [
        _exchanged(first[one], second[other], seed=_seed(seed, at), exchanges=exchanges)
        for at, (one, other) in enumerate(parts)
    ]
    sums = [np.sum(side, axis=0) for side in zip(*drawn, strict=True)]
    least = _evenness(both, labels[0] + labels[1]) if shares else np.ones(both.shape[1])
    distances, effects = _distances(sums[0], sums[1], least=least, shares=shares)
    df, evidences = sum(max(k - 1, min(k, 1)) for side in sizes for k in side), []
    for at, effect in enumerate(effects):
        bearing, distance = _bearing(both[:, at], shares=shares), distances[0, at]
        p, critical = Tail.of(distances[:, at]).judged(
            distance, df=df, more=itself(*sizes) / 2, least=least_p(bearing)
        )
        if effect < least[at] * _too_even(df):
            p, critical = max(p, 2 * NormalDist().cdf(-distance)), max(critical, Z)
        relied_on = max(effect, least[at]) if bearing else planned(both[:, at])
        evidences.append(Evidence(p, critical, relied_on, relied_on))
    return evidences


def _places_on_both_sides(
    first_strata: Strata, second_strata: Strata
) -> list[tuple[Places, Places]]:
    """Return the positions of the trials of each stratum on both sides."""
    names = dict.fromkeys([*first_strata, *second_strata])
    first, second = np.asarray(first_strata), np.asarray(second_strata)
    return [(np.flatnonzero(first == one), np.flatnonzero(second == one)) for one in names]


def _evenness(trials: Counts, strata: Strata) -> Values:
    """Return the evenness of each figure over the strata."""
    columns = [trials[:, at].tolist() for at in range(trials.shape[1])]
    return np.array([evenness(column, strata) for column in columns])


def _exchanged(first: Counts, second: Counts, *, seed: Seed, exchanges: int) -> list[Values]:
    """Return the sums of both sides of a stratum: as observed in row 0, then after exchanges."""
    sides = _moments(first), _moments(second)
    flat = [side.reshape(len(side), first.shape[1] * MOMENTS) for side in sides]
    observed = [side.sum(axis=0)[None] for side in flat]
    if len(first) and len(second):
        drawn = exchanged(flat[0], flat[1], seed=seed, exchanges=exchanges)
        rows = [np.concatenate(side) for side in zip(observed, drawn, strict=True)]
    else:
        rows = [np.repeat(side, exchanges + 1, axis=0) for side in observed]
    return [
        _centred_on_stratum(of.reshape(len(of), *side.shape[1:]).astype(np.float64), len(side))
        for of, side in zip(rows, sides, strict=True)
    ]


def _centred_on_stratum(sums: Values, k: int) -> Values:
    """Centre squares and products on the stratum's mean, with Bessel's correction for k trials."""
    if k > 1:
        count, size = sums[..., 0], sums[..., 1]
        means = np.stack([count * count, count * size, size * size], axis=-1) / k
        sums[..., 2:] = (sums[..., 2:] - means) * (k / (k - 1))
    return sums


def _too_even(df: int) -> float:
    """Return the 1 % quantile, at most, of the design effect of independent calls.

    Errors more even than that are not due to chance. They are no evidence beyond their calls.
    """
    return 1 - NormalDist().inv_cdf(0.99) * sqrt(2 / max(df, 1))


MOMENTS = 5


def _moments(trials: Counts) -> Counts:
    """Return the moments of each trial and figure, of which the sums make up the standard error."""
    count, size = np.moveaxis(trials, -1, 0)
    return np.stack([count, size, count * count, count * size, size * size], axis=-1)


def _distances(
    first: Values, second: Values, *, least: Values, shares: bool
) -> tuple[Values, list[float]]:
    """Return the distance of two sides in standard errors, and the design effect of the first row.

    The squared standard error is that of independent calls at the pooled rate, times the design
    effect or, if that is larger, `least`. The design effect is the variance inflation of trials
    around their stratum over such calls.
    """
    (count, n, around, alone), (other, m, around_other, alone_other) = (
        _side(side, shares=shares) for side in (first, second)
    )
    alone = alone + alone_other
    effects = (around + around_other) / np.where(alone > 0, alone, inf)
    rate = (count + other) / (n + m)
    variance = spread(rate, shares=shares) * (1 / n + 1 / m) * np.maximum(effects, least)
    gaps = abs(count / n - other / m)
    return gaps / np.sqrt(np.where(variance > 0, variance, 1.0)), effects[0].tolist()


def _side(sums: Values, *, shares: bool) -> tuple[Values, Values, Values, Values]:
    """Return count, size, and the variance of the rate: over trials, and of independent calls."""
    count, size, squares, products, size_squares = np.moveaxis(sums, -1, 0)
    n = np.maximum(size, 1)  # without a call after an exchange: as without errors
    rate = count / n
    around = np.maximum(squares - 2 * rate * products + rate * rate * size_squares, 0.0)
    return count, n, around / (n * n), spread(rate, shares=shares) / n


def _bearing(trials: Counts, *, shares: bool) -> int:
    """Return in how many trials any call counts or, if these are fewer, any call does not."""
    count, size = trials.T
    some = int((count > 0).sum())
    return min(some, int((count < size).sum())) if shares else some


def by_trial(columns: Sequence[Sequence[Cluster]]) -> Counts:
    """Return an array of trials, figures, and count and size, from one column for each figure."""
    return np.array(columns).transpose(1, 0, 2)
