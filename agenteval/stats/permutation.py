"""Permutation tests of two models: paired where they met the same worlds, else unpaired."""

from collections.abc import Sequence
from math import exp, inf, lgamma, log, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from agenteval.core.counts import Cluster
from agenteval.stats.p_value import Tail, Values, exchanged, flipped, itself
from agenteval.stats.rates import PLANNED_ICC, Z, planned_effect
from agenteval.stats.score import EXCHANGES, SETTLED, Evidence, least_p


def tosses(n: int) -> list[float]:
    """How likely each number of heads is, from none to n."""
    return [
        exp(lgamma(n + 1) - lgamma(heads + 1) - lgamma(n - heads + 1) - n * log(2))
        for heads in range(n + 1)
    ]


Counts = NDArray[np.int64]  # of each trial (first axis) and figure (second): how many, of how many


def paired_test(
    ours: Counts, theirs: Counts, *, seed: int, shares: bool = True, exchanges: int = EXCHANGES
) -> list[Evidence]:
    """Of each figure; `shares` are of so many calls, else they are counts with no upper end."""
    swapped = flipped(_added(ours, theirs, shares=shares), seed=seed, exchanges=exchanges)
    return _judged(ours, theirs, swapped, shares=shares)


def paired_once(ours: Counts, theirs: Counts) -> list[Evidence]:
    """Of one figure that a trial has or has not, so that nothing needs to be drawn.

    The worlds where the two differ are tossed coins: McNemar's test, its ties by half (Fagerland
    2013).
    """
    differ = int(np.count_nonzero(_added(ours, theirs, shares=True)))
    swapped = (2 * np.arange(differ + 1) - differ)[:, None] / len(ours)
    return _judged(ours, theirs, swapped, weights=np.array([0.0, *tosses(differ)]))


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


def _judged(
    ours: Counts,
    theirs: Counts,
    swapped: Values,
    *,
    shares: bool = True,
    weights: Values | None = None,
) -> list[Evidence]:
    """Of what worlds add, from the sums of it when they are swapped."""
    k, added = len(ours), _added(ours, theirs, shares=shares)
    sums = np.concatenate([added.sum(axis=0)[None], swapped])
    # One world more, which adds nothing, keeps the variance above 0.
    variances = (k + 1) / k * ((added**2).sum(axis=0) - sums**2 / (k + 1))
    distances = abs(sums) / np.sqrt(np.where(variances > 0, variances, 1.0))
    effects, same, shifts = _effects(ours, theirs, added, shares=shares)
    found = []
    for at, shift in enumerate(shifts - sums[0]):
        tail, variance = Tail.of(distances[:, at], weights), variances[0, at]
        p, critical = tail.judged(distances[0, at], df=k - 1)
        effect = effect_if_same = planned((ours + theirs)[:, at])
        if variance:
            effect, effect_if_same = float(effects[at]), float(variance / same[at])
        if p >= SETTLED:
            effect_if_same = max(effect, effect_if_same)
        found.append(Evidence(p, critical, effect, effect_if_same, float(shift)))
    return found


def _effects(
    ours: Counts, theirs: Counts, added: Values, *, shares: bool
) -> tuple[Values, Values, Values]:
    """How many times more the difference varies than over independent draws, at the rates seen.

    And the variance of such draws, and the difference. As few worlds may by luck not vary at all,
    two more are thought of that vary like independent draws at one rate.
    """
    k = len(ours)
    (count, n), (other, m) = (np.moveaxis(side.sum(axis=0), -1, 0) for side in (ours, theirs))
    rate, rates = (count + other) / (n + m), (count / n, other / m)
    same = spread(rate, shares=shares) * (1 / n + 1 / m)
    alone = spread(rates[0], shares=shares) / n + spread(rates[1], shares=shares) / m
    around = ((_around(ours, rates[0]) - _around(theirs, rates[1])) ** 2).sum(axis=0)
    seen, worlds = around * k / max(k - 1, 1), np.count_nonzero(added, axis=0)
    more = np.where(same > 0, 2 * same, 1.0)
    return (worlds * seen + more) / (worlds * alone + more), same, rates[0] - rates[1]


def unpaired_test(
    ours: Counts, theirs: Counts, *, seed: int, shares: bool = True, exchanges: int = EXCHANGES
) -> list[Evidence]:
    """Of each figure; `shares` are of so many calls, else they are counts with no upper end."""
    k, both = (len(ours), len(theirs)), np.concatenate([ours, theirs])
    sides = _moments(ours), _moments(theirs)
    sums = exchanged(
        *(side.reshape(len(side), -1) for side in sides), seed=seed, exchanges=exchanges
    )
    seen_first = [
        np.concatenate([side.sum(axis=0)[None], drawn.reshape(len(drawn), *side.shape[1:])])
        for side, drawn in zip(sides, sums, strict=True)
    ]
    distances, effects = _distances(*seen_first, k=k, shares=shares)
    df, found = sum(k) - 2, []
    for at, effect in enumerate(effects):
        bearing, seen = _bearing(both[:, at], shares=shares), distances[0, at]
        p, critical = Tail.of(distances[:, at]).judged(
            seen, df=df, more=itself(*k) / 2, least=least_p(bearing)
        )
        if effect < _too_even(df):
            p, critical = max(p, 2 * NormalDist().cdf(-seen)), max(critical, Z)
        relied_on = max(effect, 1.0) if bearing else planned(both[:, at])
        found.append(Evidence(p, critical, relied_on, relied_on))
    return found


def _too_even(df: int) -> float:
    """The design effect below which one in a hundred is, at most, when calls are independent.

    Errors so even are no chance any more: they are laid out so, and no evidence beyond their calls.
    """
    return 1 - NormalDist().inv_cdf(0.99) * sqrt(2 / max(df, 1))


def _moments(trials: Counts) -> Counts:
    """Of each trial and figure, what its sums give the difference and its standard error."""
    count, size = np.moveaxis(trials, -1, 0)
    return np.stack([count, size, count * count, count * size, size * size], axis=-1)


def _distances(
    first: Values, second: Values, *, k: tuple[int, int], shares: bool
) -> tuple[Values, list[float]]:
    """How many standard errors apart two sides are; and the design effect of the first row.

    The standard error is that of independent calls at the rate of all, times the design effect if
    above 1: how many times more the trials vary, around their side's rate, than such calls would.
    """
    (count, n, around, alone), (other, m, around_other, alone_other) = (
        _side(side, trials, shares=shares) for side, trials in zip((first, second), k, strict=True)
    )
    alone = alone + alone_other
    effects = (around + around_other) / np.where(alone > 0, alone, inf)
    rate = (count + other) / (n + m)
    variance = spread(rate, shares=shares) * (1 / n + 1 / m) * np.maximum(effects, 1.0)
    gaps = abs(count / n - other / m)
    return gaps / np.sqrt(np.where(variance > 0, variance, 1.0)), effects[0].tolist()


def _side(sums: Values, trials: int, *, shares: bool) -> tuple[Values, Values, Values, Values]:
    """Count and size; the variance of the rate as its trials have it, and of independent calls."""
    count, size, squares, products, size_squares = np.moveaxis(sums, -1, 0)
    n = np.maximum(size, 1)  # without a call after an exchange: as without errors
    rate = count / n
    around = squares - 2 * rate * products + rate * rate * size_squares
    around = trials / max(trials - 1, 1) * np.maximum(around, 0.0)
    return count, n, around / (n * n), spread(rate, shares=shares) / n


def _bearing(trials: Counts, *, shares: bool) -> int:
    """In how many trials something counts; or something does not, if those are fewer."""
    count, size = trials.T
    some = int((count > 0).sum())
    return min(some, int((count < size).sum())) if shares else some


def by_trial(columns: Sequence[Sequence[Cluster]]) -> Counts:
    """Trials, then figures, then count and size, from one column for each figure."""
    return np.array(columns).transpose(1, 0, 2)
