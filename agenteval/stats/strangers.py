"""Two models whose trials have nothing to do with each other: all trials are exchanged.

An exchange is judged by how many of its own standard errors it makes the difference: so p holds as
well where trials of the two differ in size, or in how much their calls resemble each other (Janssen
1997, Chung and Romano 2013), and the interval can stand on the same figure.
"""

from math import inf, sqrt
from statistics import NormalDist

import numpy as np

from agenteval.stats.exchange import EXCHANGES, exchanged
from agenteval.stats.rates import Z
from agenteval.stats.score import Evidence, least_p
from agenteval.stats.tail import Tail, Values, itself
from agenteval.stats.worlds import Counts, planned, spread


def strangers(
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
