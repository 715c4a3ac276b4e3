"""Two models that met the same worlds, in the same order: the two trials of a world are swapped."""

import numpy as np
from numpy.typing import NDArray

from agenteval.stats.exact import tosses
from agenteval.stats.exchange import EXCHANGES, flipped
from agenteval.stats.rates import PLANNED_ICC, planned_effect
from agenteval.stats.score import SETTLED, Evidence
from agenteval.stats.tail import Tail, Values

Counts = NDArray[np.int64]  # of each trial (first axis) and figure (second): how many, of how many


def same_worlds(
    ours: Counts, theirs: Counts, *, seed: int, shares: bool = True, exchanges: int = EXCHANGES
) -> list[Evidence]:
    """Of each figure; `shares` are of so many calls, else they are counts with no upper end."""
    swapped = flipped(_added(ours, theirs, shares=shares), seed=seed, exchanges=exchanges)
    return _judged(ours, theirs, swapped, shares=shares)


def same_worlds_once(ours: Counts, theirs: Counts) -> list[Evidence]:
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
