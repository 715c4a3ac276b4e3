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
    Clusters,
    Precision,
    Strata,
    Z,
    degrees,
    evenness,
    planned_effect,
    t_quantile,
)
from agenteval.stats.score import EXCHANGES, SETTLED, Evidence, least_p

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
        distinct, positions = np.unique(np.round(values, _DIGITS), return_inverse=True)
        times = np.bincount(positions, weights)
        as_large = times[::-1].cumsum()[::-1]
        chances = (as_large - times / 2) / times.sum()
        chances[0] = 1.0  # nothing is nearer: that is no evidence at all
        return cls(distinct, chances)

    def p(self, observed: float) -> float:
        return float(np.interp(round(observed, _DIGITS), self.values, self.chances))

    def test(
        self,
        observed: float,
        *,
        df: int,
        more: float = 0.0,
        least: float = 0.0,
    ) -> tuple[float, float]:
        """Return the p of the observed value, and the critical value at which p is 0.05.

        The critical value is that of Student's t where no value has such a p. `more` is added to
        every p, and none is below `least`.
        """
        wanted = SETTLED - more
        critical = t_quantile(df)
        if least < SETTLED and self.chances[-1] < wanted:
            critical = float(np.interp(wanted, self.chances[::-1], self.values[::-1]))
        p = max(self.p(observed) + more, least)
        return min(p, 1.0), critical


def share_of_observed(*sides: tuple[int, int]) -> float:
    """Return the share of the observed labelling among all exchanges of trials.

    `sides` are the numbers of trials of both sides in each stratum. With equal numbers on both
    sides, the mirror image has the same distance and counts too.
    """
    is_balanced = all(n_first == n_second for n_first, n_second in sides)
    labellings = prod(comb(n_first + n_second, n_first) for n_first, n_second in sides)
    return (1 + is_balanced) / labellings


# The permutations.

AT_ONCE = 4_000_000  # weights in memory
MANY = 1_000  # trials, from which on drawing row by row is quicker than sorting
ALIKE = 20  # trials of each kind, on average, from which on kinds are drawn and not trials
EXACT = 2**24  # whole numbers below it are exact in 32 bits, which are twice as fast
Counts = NDArray[np.int64]  # of each trial (first axis) and figure (second): how many, of how many
Sums = tuple[Values, Values]  # one row for each exchange
Seed = int | Sequence[int]


def exchanged(
    first: Counts,
    second: Counts,
    *,
    seed: Seed,
    exchanges: int = EXCHANGES,
) -> Sums:
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
            size = batch.stop - batch.start
            drawn = rng.multivariate_hypergeometric(multiplicities, len(first), size, "marginals")
            parts.append(drawn @ weights)
    else:
        is_small = abs(trials).sum(axis=0).max() < EXACT
        columns: NDArray[Any] = trials.astype(np.float32 if is_small else np.float64)
        for batch in _batches(exchanges, len(trials)):
            subsets = _draw_subsets(rng, batch.stop - batch.start, len(trials), len(first))
            parts.append(subsets @ columns)
    first_sums = np.vstack(parts).astype(np.float64)
    return first_sums, trials.sum(axis=0) - first_sums


def _draw_subsets(
    rng: np.random.Generator,
    rows: int,
    trials: int,
    size: int,
) -> NDArray[np.float32]:
    """Return rows of ones and zeros, each with `size` ones at random places."""
    if trials < MANY:
        keys = rng.random((rows, trials))
        last = size - 1
        highest_chosen = np.partition(keys, last)[:, [last]]
        return (keys <= highest_chosen).astype(np.float32)
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
    figures = shares.shape[1]
    padded = np.zeros((8 * octets, figures))
    padded[: len(shares)] = shares
    bytes_drawn = np.arange(256, dtype=np.uint8)
    bits = np.unpackbits(bytes_drawn[:, None], axis=1)
    signs = 1 - 2 * bits.astype(np.float64)
    sums_by_octet = signs @ padded.reshape(octets, 8, -1)  # for each byte that may be drawn
    sums = np.zeros((exchanges, figures))
    for batch in _batches(exchanges, octets * 8):
        size = (batch.stop - batch.start, octets)
        drawn = rng.integers(0, 256, size=size, dtype=np.uint8)
        for of_octet, column in zip(sums_by_octet, drawn.T, strict=True):
            # A third of the time of of_octet[column].
            sums[batch] += of_octet.take(column, axis=0, mode="clip")
    return sums


def _batches(exchanges: int, trials: int) -> Iterator[slice]:
    at_once = max(1, AT_ONCE // trials)
    for start in range(0, exchanges, at_once):
        yield slice(start, min(start + at_once, exchanges))


def _tosses(n: int) -> list[float]:
    """Return the probability of each number of heads in n tosses of a coin, from none to n."""
    # By logarithms: 2**n is no float from n = 1024 on.
    log_ways = [lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) for k in range(n + 1)]
    return [exp(log_way - n * log(2)) for log_way in log_ways]


# The paired test.

_Places = NDArray[np.int64]


def paired_test(  # noqa: PLR0913 -- what a test is made of
    first: Counts,
    second: Counts,
    *,
    seed: int,
    strata: Strata = (),
    shares: bool = True,
    exchanges: int = EXCHANGES,
) -> list[Evidence]:
    """Return the paired test of each figure: a share of calls, or a count without an end."""
    contributions = _contributions(first, second, shares=shares)
    strata = strata or [0] * len(first)
    swapped = []
    for number, (places, _) in enumerate(_places(strata)):
        of_stratum = contributions[places]
        stratum_seed = _seed_of_stratum(seed, number)
        swapped.append(flipped(of_stratum, seed=stratum_seed, exchanges=exchanges))
    return _judge_pairs(first, second, swapped, strata, shares=shares)


def paired_once(first: Counts, second: Counts) -> list[Evidence]:
    """Return the exact paired test of one yes-or-no figure of trials.

    Task instances in which the two sides differ are tossed coins: McNemar's test with mid-p
    (Fagerland 2013). So nothing needs to be drawn.
    """
    differ = int(np.count_nonzero(_contributions(first, second, shares=True)))
    heads_less_tails = 2 * np.arange(differ + 1) - differ
    swapped = heads_less_tails[:, None] / len(first)
    weights = np.array([0.0, *_tosses(differ)])  # the observed sum is no toss
    return _judge_pairs(first, second, [swapped], [0] * len(first), weights=weights)


def _places(first: Strata, second: Strata = ()) -> list[tuple[_Places, _Places]]:
    """Return the positions of the trials of each stratum on both sides."""
    places = []
    for stratum in dict.fromkeys([*first, *second]):
        sides = [np.flatnonzero(np.asarray(side) == stratum) for side in (first, second)]
        places.append((sides[0], sides[1]))
    return places


def _seed_of_stratum(seed: int, number: int) -> Seed:
    """Return the seed of one stratum: no two have the same exchanges."""
    return [seed, number] if number else seed


def _draw_variance(rate: Values, *, shares: bool) -> Values:
    """Return the variance of one draw: of a share, or of a count."""
    return rate * (1 - rate * shares)


def _planned(trials: Counts) -> float:
    """Return the planned design effect of a figure whose counts show none: all 0, or all full."""
    clusters = [(count, size) for count, size in trials.tolist() if size]
    return planned_effect(clusters, PLANNED_ICC)


def _contributions(first: Counts, second: Counts, *, shares: bool) -> Values:
    """Return the contribution of each task instance to the difference.

    It does not depend on how many calls each model makes there, or a model of few calls would stand
    out by them. So swapping the trials only turns its sign. It is 0 where no call counts, or every
    one does: the contribution of sizes alone would break ties elsewhere.
    """
    both = first + second
    counts = both[..., 0]
    sizes = both[..., 1]
    rates = counts.sum(axis=0) / sizes.sum(axis=0)
    is_not_full = (counts < sizes) | (not shares)
    is_mixed = (counts > 0) & is_not_full
    return np.where(is_mixed, _deviations(first, rates) - _deviations(second, rates), 0.0)


def _deviations(trials: Counts, rates: Values) -> Values:
    """Return the contribution of each trial to its side's deviation from these rates."""
    counts = trials[..., 0]
    sizes = trials[..., 1]
    return np.asarray((counts - rates * sizes) / sizes.sum(axis=0))


def _judge_pairs(  # noqa: PLR0913 -- what a test is made of
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
    contributions = _contributions(first, second, shares=shares)
    sums, variances = _add_strata(contributions, swapped, strata)
    standard_errors = np.sqrt(np.where(variances > 0, variances, 1.0))
    distances = abs(sums) / standard_errors
    effects, variances_if_same, differences = _effects(
        first, second, contributions, strata, shares=shares
    )
    df = degrees(strata)
    evidences = []
    for figure, shift in enumerate(differences - sums[0]):
        tail = Tail.of(distances[:, figure], weights)
        p, critical = tail.test(distances[0, figure], df=df)
        variance = variances[0, figure]
        if variance:
            effect = float(effects[figure])
            effect_if_same = float(variance / variances_if_same[figure])
        else:
            effect = effect_if_same = _planned((first + second)[:, figure])
        if p >= SETTLED:
            effect_if_same = max(effect, effect_if_same)
        evidences.append(Evidence(p, critical, effect, effect_if_same, float(shift)))
    return evidences


def _add_strata(contributions: Values, swapped: Sequence[Values], strata: Strata) -> Sums:
    """Return the sums of contributions, as observed in row 0 and after each swap, and variances."""
    sums = variances = np.zeros((1, 1))
    for (places, _), drawn in zip(_places(strata), swapped, strict=True):
        k = len(places)
        of_stratum = contributions[places]
        observed = of_stratum.sum(axis=0)
        stratum_sums = np.concatenate([observed[None], drawn])
        # One world more, which adds nothing, keeps the variance above 0.
        squares = (of_stratum**2).sum(axis=0) - stratum_sums**2 / (k + 1)
        variances = variances + (k + 1) / k * squares
        sums = sums + stratum_sums
    return sums, variances


def _effects(
    first: Counts,
    second: Counts,
    contributions: Values,
    strata: Strata,
    *,
    shares: bool,
) -> tuple[Values, Values, Values]:
    """Return variance inflation, variance if the rates are equal, and difference of each figure.

    The inflation is relative to independent draws at the observed rates; the variance is that of
    independent draws at one rate. As few task instances may by luck not vary at all, two more are
    added that vary like independent draws at one rate.
    """
    first_count, first_n = np.moveaxis(first.sum(axis=0), -1, 0)
    second_count, second_n = np.moveaxis(second.sum(axis=0), -1, 0)
    rate = (first_count + second_count) / (first_n + second_n)
    first_rate = first_count / first_n
    second_rate = second_count / second_n
    if_same = _draw_variance(rate, shares=shares) * (1 / first_n + 1 / second_n)
    first_variance = _draw_variance(first_rate, shares=shares) / first_n
    second_variance = _draw_variance(second_rate, shares=shares) / second_n
    independent = first_variance + second_variance
    deviations = _deviations(first, first_rate) - _deviations(second, second_rate)
    variances = [_variance_of_sum(deviations[places]) for places, _ in _places(strata)]
    observed = np.sum(variances, axis=0) / _estimated_share(first, second, strata)
    worlds = np.count_nonzero(contributions, axis=0)
    of_two_more = np.where(if_same > 0, 2 * if_same, 1.0)
    inflation = (worlds * observed + of_two_more) / (worlds * independent + of_two_more)
    return inflation, if_same, first_rate - second_rate


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


def _variance_of_sum(values: Values) -> Values:
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
    """Return the unpaired test of each figure: a share of calls, or a count without an end."""
    first_strata = [*strata[0]] or [0] * len(first)
    second_strata = [*strata[1]] or [0] * len(second)
    both = np.concatenate([first, second])
    places = _places(first_strata, second_strata)
    sizes = [(len(own), len(other)) for own, other in places]
    drawn = []
    for number, (own, other) in enumerate(places):
        stratum_seed = _seed_of_stratum(seed, number)
        sides = first[own], second[other]
        drawn.append(_exchange_moments(*sides, seed=stratum_seed, exchanges=exchanges))
    first_sums, second_sums = (np.sum(side, axis=0) for side in zip(*drawn, strict=True))
    least_effects = _least_effects(both, first_strata + second_strata, shares=shares)
    distances, effects = _distances(first_sums, second_sums, least_effects, shares=shares)
    # A single trial of a stratum counts as one degree of freedom.
    df = sum(max(k - 1, min(k, 1)) for pair in sizes for k in pair)
    more = share_of_observed(*sizes) / 2
    evidences = []
    for figure, (effect, least_effect) in enumerate(zip(effects, least_effects, strict=True)):
        trials = both[:, figure]
        bearing = _count_bearing(trials, shares=shares)
        distance = distances[0, figure]
        tail = Tail.of(distances[:, figure])
        p, critical = tail.test(distance, df=df, more=more, least=least_p(bearing))
        # Errors more even than by chance are no evidence beyond their calls.
        if effect < least_effect * _too_even(df):
            p = max(p, 2 * NormalDist().cdf(-distance))
            critical = max(critical, Z)
        relied_on = max(effect, least_effect) if bearing else _planned(trials)
        evidences.append(Evidence(p, critical, relied_on, relied_on))
    return evidences


def _too_even(df: int) -> float:
    """Return the 1 % quantile, at most, of the design effect of independent calls."""
    return 1 - NormalDist().inv_cdf(0.99) * sqrt(2 / max(df, 1))


def _least_effects(trials: Counts, strata: Strata, *, shares: bool) -> Values:
    """Return the evenness of each figure over the strata; 1 of counts without an upper end."""
    figures = trials.shape[1]
    if not shares:
        return np.ones(figures)
    return np.array([evenness(trials[:, at].tolist(), strata) for at in range(figures)])


def _exchange_moments(
    first: Counts,
    second: Counts,
    *,
    seed: Seed,
    exchanges: int,
) -> tuple[Values, Values]:
    """Return the sums of both sides of a stratum: as observed in row 0, then after exchanges."""
    figures = first.shape[1]
    flat = [_moments(side).reshape(len(side), figures * _MOMENTS) for side in (first, second)]
    observed = [side.sum(axis=0)[None] for side in flat]
    if len(first) and len(second):
        drawn = exchanged(flat[0], flat[1], seed=seed, exchanges=exchanges)
        rows = [np.concatenate(side) for side in zip(observed, drawn, strict=True)]
    else:
        rows = [np.repeat(side, exchanges + 1, axis=0) for side in observed]
    sums = [side.reshape(len(side), figures, _MOMENTS).astype(np.float64) for side in rows]
    _centre_on_stratum(sums[0], len(first))
    _centre_on_stratum(sums[1], len(second))
    return sums[0], sums[1]


def _centre_on_stratum(sums: Values, k: int) -> None:
    """Centre squares and products on the stratum's mean, with Bessel's correction for k trials."""
    if k > 1:
        count, size = sums[..., 0], sums[..., 1]
        means = np.stack([count * count, count * size, size * size], axis=-1) / k
        sums[..., 2:] = (sums[..., 2:] - means) * (k / (k - 1))


_MOMENTS = 5


def _moments(trials: Counts) -> Counts:
    """Return the moments of each trial and figure, of which the sums make up the standard error."""
    count, size = np.moveaxis(trials, -1, 0)
    return np.stack([count, size, count * count, count * size, size * size], axis=-1)


def _distances(
    first: Values,
    second: Values,
    least_effects: Values,
    *,
    shares: bool,
) -> tuple[Values, list[float]]:
    """Return the distance of two sides in standard errors, and the design effect of the first row.

    The squared standard error is that of independent calls at the pooled rate, times the design
    effect or, if that is larger, the least one. The design effect is the variance inflation of
    trials around their stratum over such calls.
    """
    first_count, first_n, first_variance, independent = _variances(first, shares=shares)
    second_count, second_n, second_variance, second_independent = _variances(second, shares=shares)
    independent = independent + second_independent
    effects = (first_variance + second_variance) / np.where(independent > 0, independent, inf)
    rate = (first_count + second_count) / (first_n + second_n)
    variance = _draw_variance(rate, shares=shares) * (1 / first_n + 1 / second_n)
    variance = variance * np.maximum(effects, least_effects)
    gaps = abs(first_count / first_n - second_count / second_n)
    standard_errors = np.sqrt(np.where(variance > 0, variance, 1.0))
    return gaps / standard_errors, effects[0].tolist()


def _variances(sums: Values, *, shares: bool) -> tuple[Values, Values, Values, Values]:
    """Return count, size, and the variance of the rate: over trials, and of independent calls."""
    count, size, squares, products, size_squares = np.moveaxis(sums, -1, 0)
    n = np.maximum(size, 1)  # without a call after an exchange: as without errors
    rate = count / n
    # The sum of (count - rate * size)**2 over trials; by rounding it may fall below 0.
    around = np.maximum(squares - 2 * rate * products + rate * rate * size_squares, 0.0)
    over_trials = around / (n * n)
    independent = _draw_variance(rate, shares=shares) / n
    return count, n, over_trials, independent


def _count_bearing(trials: Counts, *, shares: bool) -> int:
    """Return in how many trials any call counts or, if these are fewer, any call does not."""
    count, size = trials.T
    with_some = int((count > 0).sum())
    if not shares:
        return with_some
    return min(with_some, int((count < size).sum()))


def by_trial(columns: Sequence[Clusters]) -> Counts:
    """Return an array of trials, figures, and count and size, from one column for each figure."""
    return np.array(columns).transpose(1, 0, 2)
