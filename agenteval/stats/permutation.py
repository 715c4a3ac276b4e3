"""Permutation tests of two models: paired where they met the same worlds, else unpaired."""

from collections.abc import Sequence
from math import exp, inf, lgamma, log, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from agenteval.core.counts import Cluster
from agenteval.stats.cluster_variance import Precision, degrees, evenness
from agenteval.stats.p_value import Seed, Tail, Values, exchanged, flipped, itself
from agenteval.stats.rates import PLANNED_ICC, Z, planned_effect, t_quantile
from agenteval.stats.score import EXCHANGES, SETTLED, Evidence, least_p


def tosses(n: int) -> list[float]:
    """How likely each number of heads is, from none to n."""
    return [
        exp(lgamma(n + 1) - lgamma(heads + 1) - lgamma(n - heads + 1) - n * log(2))
        for heads in range(n + 1)
    ]


Counts = NDArray[np.int64]  # of each trial (first axis) and figure (second): how many, of how many
Places = NDArray[np.int64]
Strata = Sequence[int]  # the stratum of each trial; none: all are of one


def paired_test(  # noqa: PLR0913 -- what a test is made of
    ours: Counts,
    theirs: Counts,
    *,
    seed: int,
    strata: Strata = (),
    shares: bool = True,
    exchanges: int = EXCHANGES,
) -> list[Evidence]:
    """Of each figure; `shares` are of so many calls, else they are counts with no upper end."""
    added = _added(ours, theirs, shares=shares)
    labels = [*strata] or [0] * len(ours)
    swapped = [
        flipped(added[places], seed=_seed(seed, at), exchanges=exchanges)
        for at, places in enumerate(_places(labels))
    ]
    return _judged(ours, theirs, swapped, labels, shares=shares)


def paired_once(ours: Counts, theirs: Counts) -> list[Evidence]:
    """Of one figure that a trial has or has not, so that nothing needs to be drawn.

    The worlds where the two differ are tossed coins: McNemar's test, its ties by half (Fagerland
    2013).
    """
    differ = int(np.count_nonzero(_added(ours, theirs, shares=True)))
    swapped = (2 * np.arange(differ + 1) - differ)[:, None] / len(ours)
    weights = np.array([0.0, *tosses(differ)])
    return _judged(ours, theirs, [swapped], [0] * len(ours), weights=weights)


def _places(strata: Strata) -> list[Places]:
    """Those of each stratum."""
    return [np.flatnonzero(np.asarray(strata) == one) for one in dict.fromkeys(strata)]


def _seed(seed: int, at: int) -> Seed:
    """Of one stratum: no two are exchanged alike."""
    return [seed, at] if at else seed


def spread(rate: Values, *, shares: bool) -> Values:
    """The variance of one draw: of a share, or of a count."""
    variance: Values = rate * (1 - rate * shares)
    return variance


def planned(trials: Counts) -> float:
    """The design effect of one figure where nothing counted, or all did."""
    clusters = [(count, size) for count, size in trials.tolist() if size]
    return planned_effect(clusters, PLANNED_ICC)


def _added(ours: Counts, theirs: Counts, *, shares: bool) -> Values:
    """What each world adds to the difference.

    It is free of how many calls each model makes there, or a model of few calls would stand out by
    them; then swapping only turns its sign. It is nothing where no call counts, or every one does:
    what sizes alone add there would break the ties elsewhere.
    """
    both = ours + theirs
    rates = both[..., 0].sum(axis=0) / both[..., 1].sum(axis=0)
    mixed = (both[..., 0] > 0) & ((both[..., 0] < both[..., 1]) | (not shares))
    return np.where(mixed, _around(ours, rates) - _around(theirs, rates), 0.0)


def _around(trials: Counts, rates: Values) -> Values:
    """What each trial adds to the rate of its side, beyond these rates."""
    around: Values = (trials[..., 0] - rates * trials[..., 1]) / trials[..., 1].sum(axis=0)
    return around


def _judged(  # noqa: PLR0913 -- what a test is made of
    ours: Counts,
    theirs: Counts,
    swapped: Sequence[Values],
    strata: Strata,
    *,
    shares: bool = True,
    weights: Values | None = None,
) -> list[Evidence]:
    """Of what worlds add, from the sums of it in each stratum when they are swapped."""
    added = _added(ours, theirs, shares=shares)
    sums = variances = np.zeros((1, 1))
    for places, drawn in zip(_places(strata), swapped, strict=True):
        k, of = len(places), added[places]
        flipped_sums = np.concatenate([of.sum(axis=0)[None], drawn])
        # One world more, which adds nothing, keeps the variance above 0.
        variances = variances + (k + 1) / k * ((of**2).sum(axis=0) - flipped_sums**2 / (k + 1))
        sums = sums + flipped_sums
    distances = abs(sums) / np.sqrt(np.where(variances > 0, variances, 1.0))
    effects, same, shifts = _effects(ours, theirs, added, strata, shares=shares)
    found, df = [], degrees(strata)
    for at, shift in enumerate(shifts - sums[0]):
        tail, variance = Tail.of(distances[:, at], weights), variances[0, at]
        p, critical = tail.judged(distances[0, at], df=df)
        effect = effect_if_same = planned((ours + theirs)[:, at])
        if variance:
            effect, effect_if_same = float(effects[at]), float(variance / same[at])
        if p >= SETTLED:
            effect_if_same = max(effect, effect_if_same)
        found.append(Evidence(p, critical, effect, effect_if_same, float(shift)))
    return found


def _effects(
    ours: Counts, theirs: Counts, added: Values, strata: Strata, *, shares: bool
) -> tuple[Values, Values, Values]:
    """How many times more the difference varies than over independent draws, at the rates seen.

    And the variance of such draws, and the difference. As few worlds may by luck not vary at all,
    two more are thought of that vary like independent draws at one rate.
    """
    (count, n), (other, m) = (np.moveaxis(side.sum(axis=0), -1, 0) for side in (ours, theirs))
    rate, rates = (count + other) / (n + m), (count / n, other / m)
    same = spread(rate, shares=shares) * (1 / n + 1 / m)
    alone = spread(rates[0], shares=shares) / n + spread(rates[1], shares=shares) / m
    around = _around(ours, rates[0]) - _around(theirs, rates[1])
    seen = np.sum([_varied(around[places]) for places in _places(strata)], axis=0)
    seen /= _shown(ours, theirs, strata)
    worlds = np.count_nonzero(added, axis=0)
    more = np.where(same > 0, 2 * same, 1.0)
    return (worlds * seen + more) / (worlds * alone + more), same, rates[0] - rates[1]


def _shown(ours: Counts, theirs: Counts, strata: Strata) -> Values:
    """Of each figure: as which share of its variance worlds of these sizes let it be taken.

    By few large ones it is known no better than a few squares are; 1 where they show nothing.
    """
    columns = zip(ours[..., 1].T, theirs[..., 1].T, strict=True)
    each = [[(side.tolist(), 1 / side.sum()) for side in sides] for sides in columns]
    found = [Precision.of_sides(sides, strata, icc=PLANNED_ICC) for sides in each]
    usual = t_quantile(degrees(strata))
    return np.array([one.share * (usual / t_quantile(one.df)) ** 2 or 1.0 for one in found])


def _varied(values: Values) -> Values:
    """The variance of their sum; the only one varies around 0."""
    k = len(values)
    return np.asarray(k * values.var(axis=0, ddof=1) if k > 1 else (values**2).sum(axis=0))


def unpaired_test(  # noqa: PLR0913 -- what a test is made of
    ours: Counts,
    theirs: Counts,
    *,
    seed: int,
    strata: tuple[Strata, Strata] = ((), ()),
    shares: bool = True,
    exchanges: int = EXCHANGES,
) -> list[Evidence]:
    """Of each figure; `shares` are of so many calls, else they are counts with no upper end."""
    labels = [[*(of or [0] * len(side))] for of, side in zip(strata, (ours, theirs), strict=True)]
    parts = _met(*labels)
    both, sizes = np.concatenate([ours, theirs]), [(len(one), len(other)) for one, other in parts]
    drawn = [
        _exchanged(ours[one], theirs[other], seed=_seed(seed, at), exchanges=exchanges)
        for at, (one, other) in enumerate(parts)
    ]
    sums = [np.sum(side, axis=0) for side in zip(*drawn, strict=True)]
    least = _evenness(both, labels[0] + labels[1]) if shares else np.ones(both.shape[1])
    distances, effects = _distances(sums[0], sums[1], least=least, shares=shares)
    df, found = sum(max(k - 1, min(k, 1)) for side in sizes for k in side), []
    for at, effect in enumerate(effects):
        bearing, seen = _bearing(both[:, at], shares=shares), distances[0, at]
        p, critical = Tail.of(distances[:, at]).judged(
            seen, df=df, more=itself(*sizes) / 2, least=least_p(bearing)
        )
        if effect < least[at] * _too_even(df):
            p, critical = max(p, 2 * NormalDist().cdf(-seen)), max(critical, Z)
        relied_on = max(effect, least[at]) if bearing else planned(both[:, at])
        found.append(Evidence(p, critical, relied_on, relied_on))
    return found


def _met(ours: Strata, theirs: Strata) -> list[tuple[Places, Places]]:
    """The places of each stratum on both sides."""
    names = dict.fromkeys([*ours, *theirs])
    first, second = np.asarray(ours), np.asarray(theirs)
    return [(np.flatnonzero(first == one), np.flatnonzero(second == one)) for one in names]


def _evenness(trials: Counts, strata: Strata) -> Values:
    """Of each figure."""
    columns = [trials[:, at].tolist() for at in range(trials.shape[1])]
    return np.array([evenness(column, strata) for column in columns])


def _exchanged(ours: Counts, theirs: Counts, *, seed: Seed, exchanges: int) -> list[Values]:
    """The sums of both sides of a stratum as they are, then as exchanges make them."""
    sides = _moments(ours), _moments(theirs)
    flat = [side.reshape(len(side), ours.shape[1] * MOMENTS) for side in sides]
    seen = [side.sum(axis=0)[None] for side in flat]
    if len(ours) and len(theirs):
        drawn = exchanged(flat[0], flat[1], seed=seed, exchanges=exchanges)
        rows = [np.concatenate(side) for side in zip(seen, drawn, strict=True)]
    else:
        rows = [np.repeat(side, exchanges + 1, axis=0) for side in seen]
    return [
        _within(of.reshape(len(of), *side.shape[1:]).astype(np.float64), len(side))
        for of, side in zip(rows, sides, strict=True)
    ]


def _within(sums: Values, k: int) -> Values:
    """Squares and products as they are around the stratum's own mean, times what k leaves out."""
    if k > 1:
        count, size = sums[..., 0], sums[..., 1]
        means = np.stack([count * count, count * size, size * size], axis=-1) / k
        sums[..., 2:] = (sums[..., 2:] - means) * (k / (k - 1))
    return sums


def _too_even(df: int) -> float:
    """The design effect below which one in a hundred is, at most, when calls are independent.

    Errors so even are no chance any more: they are laid out so, and no evidence beyond their calls.
    """
    return 1 - NormalDist().inv_cdf(0.99) * sqrt(2 / max(df, 1))


MOMENTS = 5


def _moments(trials: Counts) -> Counts:
    """Of each trial and figure, what its sums give the difference and its standard error."""
    count, size = np.moveaxis(trials, -1, 0)
    return np.stack([count, size, count * count, count * size, size * size], axis=-1)


def _distances(
    first: Values, second: Values, *, least: Values, shares: bool
) -> tuple[Values, list[float]]:
    """How many standard errors apart two sides are; and the design effect of the first row.

    The standard error is that of independent calls at the rate of all, times the design effect if
    above the least: how many times more the trials vary, around their stratum, than such calls.
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
    """Count and size; the variance of the rate as its trials have it, and of independent calls."""
    count, size, squares, products, size_squares = np.moveaxis(sums, -1, 0)
    n = np.maximum(size, 1)  # without a call after an exchange: as without errors
    rate = count / n
    around = np.maximum(squares - 2 * rate * products + rate * rate * size_squares, 0.0)
    return count, n, around / (n * n), spread(rate, shares=shares) / n


def _bearing(trials: Counts, *, shares: bool) -> int:
    """In how many trials something counts; or something does not, if those are fewer."""
    count, size = trials.T
    some = int((count > 0).sum())
    return min(some, int((count < size).sum())) if shares else some


def by_trial(columns: Sequence[Sequence[Cluster]]) -> Counts:
    """Trials, then figures, then count and size, from one column for each figure."""
    return np.array(columns).transpose(1, 0, 2)
