"""Permutation tests of two models: paired where they met the same task instances, else unpaired.

First the p value of a permutation test, then the permutations, and then the two tests.
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


# The permutations.

AT_ONCE = 4_000_000  # weights in memory
MANY = 1_000  # trials, from which on drawing row by row is quicker than sorting
ALIKE = 20  # trials of each kind, on average, from which on kinds are drawn and not trials
EXACT = 2**24  # whole numbers below it are exact in 32 bits, which are twice as fast
Counts = NDArray[np.int64]  # of each trial (first axis) and figure (second): how many, of how many
Sums = tuple[Values, Values]  # one row for each exchange
Seed = int | Sequence[int]
_Weights = NDArray[np.float32]


def exchanged(first: Counts, second: Counts, *, seed: Seed, exchanges: int = EXCHANGES) -> Sums:
    """Return the sums of both sides after each random exchange of independent trials.

    Equal trials are interchangeable. Where many are equal, the number of each kind on a side is
    drawn (multivariate hypergeometric), which has the same distribution.
    """
    rng = np.random.default_rng(seed)
    trials = np.vstack([first, second])
    kinds, multiplicities = np.unique(trials, axis=0, return_counts=True)
    parts: list[Values] = []
    if len(trials) >= MANY and len(kinds) < len(trials) / ALIKE:
        weights = kinds.astype(np.float64)
        for batch in _batches(exchanges, len(kinds)):
            drawn = rng.multivariate_hypergeometric(
                multiplicities, len(first), batch.stop - batch.start, "marginals"
            )
            parts.append(drawn @ weights)
    else:
        is_small = abs(trials).sum(axis=0).max() < EXACT
        columns: NDArray[Any] = trials.astype(np.float32 if is_small else np.float64)
        for batch in _batches(exchanges, len(trials)):
            subsets = _draw_subsets(rng, batch.stop - batch.start, len(trials), len(first))
            parts.append(subsets @ columns)
    first_sums = np.vstack(parts).astype(np.float64)
    return first_sums, trials.sum(axis=0) - first_sums


def _draw_subsets(rng: np.random.Generator, rows: int, trials: int, size: int) -> _Weights:
    """Return rows of ones and zeros, each with `size` ones at random places."""
    if trials < MANY:
        keys = rng.random((rows, trials))
        last = size - 1
        return (keys <= np.partition(keys, last)[:, [last]]).astype(np.float32)
    weights = np.zeros((rows, trials), dtype=np.float32)
    for row in weights:
        row[rng.choice(trials, size, replace=False, shuffle=False)] = 1
    return weights


def flipped(shares: Values, *, seed: Seed, exchanges: int = EXCHANGES) -> Values:
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
    for batch in _batches(exchanges, octets * 8):
        size = batch.stop - batch.start, octets
        drawn = rng.integers(0, 256, size=size, dtype=np.uint8)
        for of_eight, signs in zip(added, drawn.T, strict=True):
            # A third of the time of of_eight[signs].
            sums[batch] += of_eight.take(signs, axis=0, mode="clip")
    return sums


def _batches(exchanges: int, trials: int) -> Iterator[slice]:
    at_once = max(1, AT_ONCE // trials)
    for start in range(0, exchanges, at_once):
        yield slice(start, min(start + at_once, exchanges))


def _tosses(n: int) -> list[float]:
    """Return the probability of each number of heads in n tosses of a coin, from none to n."""
    return [
        exp(lgamma(n + 1) - lgamma(heads + 1) - lgamma(n - heads + 1) - n * log(2))
        for heads in range(n + 1)
    ]


# The paired test.

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
    swapped = []
    for number, places in enumerate(_places(labels)):
        of_stratum = _seed(seed, number)
        swapped.append(flipped(added[places], seed=of_stratum, exchanges=exchanges))
    return _judged(first, second, swapped, labels, shares=shares)


def paired_once(first: Counts, second: Counts) -> list[Evidence]:
    """Return the exact paired test of one yes-or-no figure of trials.

    Task instances in which the two sides differ are tossed coins: McNemar's test with mid-p
    (Fagerland 2013). So nothing needs to be drawn.
    """
    differ = int(np.count_nonzero(_added(first, second, shares=True)))
    swapped = (2 * np.arange(differ + 1) - differ)[:, None] / len(first)
    weights = np.array([0.0, *_tosses(differ)])
    return _judged(first, second, [swapped], [0] * len(first), weights=weights)


def _places(strata: Strata) -> list[Places]:
    """Return the positions of the trials of each stratum."""
    return [np.flatnonzero(np.asarray(strata) == one) for one in dict.fromkeys(strata)]


def _seed(seed: int, number: int) -> Seed:
    """Return the seed of one stratum: no two have the same exchanges."""
    return [seed, number] if number else seed


def _draw_variance(rate: Values, *, shares: bool) -> Values:
    """Return the variance of one draw: of a share, or of a count."""
    return rate * (1 - rate * shares)


def _planned(trials: Counts) -> float:
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
    is_not_full = (both[..., 0] < both[..., 1]) | (not shares)
    mixed = (both[..., 0] > 0) & is_not_full
    return np.where(mixed, _around(first, rates) - _around(second, rates), 0.0)


def _around(trials: Counts, rates: Values) -> Values:
    """Return the contribution of each trial to its side's deviation from these rates."""
    counts = trials[..., 0]
    sizes = trials[..., 1]
    return np.asarray((counts - rates * sizes) / sizes.sum(axis=0))


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
        k = len(places)
        of_stratum = added[places]
        flipped_sums = np.concatenate([of_stratum.sum(axis=0)[None], drawn])
        # One world more, which adds nothing, keeps the variance above 0.
        squares = (of_stratum**2).sum(axis=0) - flipped_sums**2 / (k + 1)
        variances = variances + (k + 1) / k * squares
        sums = sums + flipped_sums
    distances = abs(sums) / np.sqrt(np.where(variances > 0, variances, 1.0))
    effects, same, shifts = _effects(first, second, added, strata, shares=shares)
    df = degrees(strata)
    evidences = []
    for figure, shift in enumerate(shifts - sums[0]):
        tail = Tail.of(distances[:, figure], weights)
        p, critical = tail.judged(distances[0, figure], df=df)
        variance = variances[0, figure]
        if variance:
            effect = float(effects[figure])
            effect_if_same = float(variance / same[figure])
        else:
            effect = effect_if_same = _planned((first + second)[:, figure])
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
    count, n = np.moveaxis(first.sum(axis=0), -1, 0)
    other, m = np.moveaxis(second.sum(axis=0), -1, 0)
    rate = (count + other) / (n + m)
    first_rate = count / n
    second_rate = other / m
    same = _draw_variance(rate, shares=shares) * (1 / n + 1 / m)
    alone = _draw_variance(first_rate, shares=shares) / n
    alone = alone + _draw_variance(second_rate, shares=shares) / m
    around = _around(first, first_rate) - _around(second, second_rate)
    varied = [_varied(around[places]) for places in _places(strata)]
    observed_variance = np.sum(varied, axis=0) / _estimated_share(first, second, strata)
    worlds = np.count_nonzero(added, axis=0)
    more = np.where(same > 0, 2 * same, 1.0)
    inflation = (worlds * observed_variance + more) / (worlds * alone + more)
    return inflation, same, first_rate - second_rate


def _estimated_share(first: Counts, second: Counts, strata: Strata) -> Values:
    """Return the share of each figure's variance that is estimated from instances of these sizes.

    It includes the loss of degrees of freedom from a few large instances. It is 1 where they carry
    no information.
    """
    usual = t_quantile(degrees(strata))
    shares = []
    for sizes in zip(first[..., 1].T, second[..., 1].T, strict=True):
        sides = [(side.tolist(), 1 / side.sum()) for side in sizes]
        precision = Precision.of_sides(sides, strata, icc=PLANNED_ICC)
        share = precision.share * (usual / t_quantile(precision.df)) ** 2
        shares.append(share or 1.0)
    return np.array(shares)


def _varied(values: Values) -> Values:
    """Return the variance of the sum of these values; a single one varies around 0."""
    k = len(values)
    if k == 1:
        return np.asarray((values**2).sum(axis=0))
    return np.asarray(k * values.var(axis=0, ddof=1))


# The unpaired test.


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
    first_labels = [*strata[0]] or [0] * len(first)
    second_labels = [*strata[1]] or [0] * len(second)
    both = np.concatenate([first, second])
    sizes: list[tuple[int, int]] = []
    drawn: list[list[Values]] = []
    for number, (own, other) in enumerate(_places_on_both_sides(first_labels, second_labels)):
        of_stratum = _seed(seed, number)
        drawn.append(_exchanged(first[own], second[other], seed=of_stratum, exchanges=exchanges))
        sizes.append((len(own), len(other)))
    sums = [np.sum(side, axis=0) for side in zip(*drawn, strict=True)]
    least = _evenness(both, first_labels + second_labels, shares=shares)
    distances, effects = _distances(sums[0], sums[1], least=least, shares=shares)
    # A single trial of a stratum counts as one degree of freedom.
    df = sum(max(k - 1, min(k, 1)) for pair in sizes for k in pair)
    evidences = []
    for figure, effect in enumerate(effects):
        trials = both[:, figure]
        bearing = _bearing(trials, shares=shares)
        distance = distances[0, figure]
        tail = Tail.of(distances[:, figure])
        p, critical = tail.judged(distance, df=df, more=itself(*sizes) / 2, least=least_p(bearing))
        if effect < least[figure] * _too_even(df):
            p = max(p, 2 * NormalDist().cdf(-distance))
            critical = max(critical, Z)
        relied_on = max(effect, least[figure]) if bearing else _planned(trials)
        evidences.append(Evidence(p, critical, relied_on, relied_on))
    return evidences


def _places_on_both_sides(
    first_strata: Strata, second_strata: Strata
) -> list[tuple[Places, Places]]:
    """Return the positions of the trials of each stratum on both sides."""
    names = dict.fromkeys([*first_strata, *second_strata])
    first, second = np.asarray(first_strata), np.asarray(second_strata)
    return [(np.flatnonzero(first == name), np.flatnonzero(second == name)) for name in names]


def _evenness(trials: Counts, strata: Strata, *, shares: bool) -> Values:
    """Return the evenness of each figure over the strata; 1 of counts without an upper end."""
    if not shares:
        return np.ones(trials.shape[1])
    columns = [trials[:, at].tolist() for at in range(trials.shape[1])]
    return np.array([evenness(column, strata) for column in columns])


def _exchanged(first: Counts, second: Counts, *, seed: Seed, exchanges: int) -> list[Values]:
    """Return the sums of both sides of a stratum: as observed in row 0, then after exchanges."""
    sides = _moments(first), _moments(second)
    flat = [side.reshape(len(side), first.shape[1] * _MOMENTS) for side in sides]
    observed = [side.sum(axis=0)[None] for side in flat]
    if len(first) and len(second):
        drawn = exchanged(flat[0], flat[1], seed=seed, exchanges=exchanges)
        rows = [np.concatenate(side) for side in zip(observed, drawn, strict=True)]
    else:
        rows = [np.repeat(side, exchanges + 1, axis=0) for side in observed]
    centred = []
    for row, side in zip(rows, sides, strict=True):
        moments = row.reshape(len(row), *side.shape[1:]).astype(np.float64)
        centred.append(_centred_on_stratum(moments, len(side)))
    return centred


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


_MOMENTS = 5


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
    count, n, around, alone = _side(first, shares=shares)
    other, m, around_other, alone_other = _side(second, shares=shares)
    alone = alone + alone_other
    effects = (around + around_other) / np.where(alone > 0, alone, inf)
    rate = (count + other) / (n + m)
    variance = _draw_variance(rate, shares=shares) * (1 / n + 1 / m)
    variance = variance * np.maximum(effects, least)
    gaps = abs(count / n - other / m)
    return gaps / np.sqrt(np.where(variance > 0, variance, 1.0)), effects[0].tolist()


def _side(sums: Values, *, shares: bool) -> tuple[Values, Values, Values, Values]:
    """Return count, size, and the variance of the rate: over trials, and of independent calls."""
    count, size, squares, products, size_squares = np.moveaxis(sums, -1, 0)
    n = np.maximum(size, 1)  # without a call after an exchange: as without errors
    rate = count / n
    around = np.maximum(squares - 2 * rate * products + rate * rate * size_squares, 0.0)
    return count, n, around / (n * n), _draw_variance(rate, shares=shares) / n


def _bearing(trials: Counts, *, shares: bool) -> int:
    """Return in how many trials any call counts or, if these are fewer, any call does not."""
    count, size = trials.T
    some = int((count > 0).sum())
    return min(some, int((count < size).sum())) if shares else some


def by_trial(columns: Sequence[Sequence[Cluster]]) -> Counts:
    """Return an array of trials, figures, and count and size, from one column for each figure."""
    return np.array(columns).transpose(1, 0, 2)
