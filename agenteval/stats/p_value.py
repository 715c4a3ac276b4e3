"""The p value: how far out a figure lies among those that permutations give."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import comb, prod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from agenteval.stats.rates import t_quantile
from agenteval.stats.score import EXCHANGES, SETTLED

_DIGITS = 9  # values that agree so far are the same one, computed twice

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tail:
    """The chance of what is beyond each value, and half of that of the value (Lancaster 1961).

    Ties are many where errors are few: counted in full, they make a test reject 2 % and not 5.
    Between two values the chance falls in a line, so that each chance has one value as well.
    """

    values: Values
    chances: Values

    @classmethod
    def of(cls, values: Values, weights: Values | None = None) -> Self:
        """Of values as likely as each other, or as their weights."""
        distinct, at = np.unique(np.round(values, _DIGITS), return_inverse=True)
        times = np.bincount(at, weights)
        chances = (times[::-1].cumsum()[::-1] - times / 2) / times.sum()
        chances[0] = 1.0  # nothing is nearer: that is no evidence at all
        return cls(distinct, chances)

    def p(self, seen: float) -> float:
        return float(np.interp(round(seen, _DIGITS), self.values, self.chances))

    def judged(
        self, seen: float, *, df: int, more: float = 0.0, least: float = 0.0
    ) -> tuple[float, float]:
        """The p of what was seen, and where it comes to 0.05; by Student's t where nowhere.

        `more` is added to every p, and none is below `least`.
        """
        wanted = SETTLED - more
        critical = t_quantile(df)
        if least < SETTLED and self.chances[-1] < wanted:
            critical = float(np.interp(wanted, self.chances[::-1], self.values[::-1]))
        return min(max(self.p(seen) + more, least), 1.0), critical


def itself(*sides: tuple[int, int]) -> float:
    """The part of all exchanges, of so many trials in each stratum, that what was seen is itself.

    Of as many trials on both sides its mirror image is as far out, too.
    """
    alike = all(ours == theirs for ours, theirs in sides)
    return (1 + alike) / prod(comb(ours + theirs, ours) for ours, theirs in sides)


AT_ONCE = 4_000_000  # weights in memory
MANY = 1_000  # trials, from which on drawing row by row is quicker than sorting
ALIKE = 20  # trials of each kind, on average, from which on kinds are drawn and not trials
EXACT = 2**24  # whole numbers below it are exact in 32 bits, which are twice as fast

Sums = tuple[NDArray[np.float64], NDArray[np.float64]]  # one row for each exchange
Seed = int | Sequence[int]


def exchanged(
    ours: NDArray[np.int64], theirs: NDArray[np.int64], *, seed: Seed, exchanges: int = EXCHANGES
) -> Sums:
    """The sums of both sides when trials that have nothing to do with each other change sides.

    Trials that are alike stand for each other: where many are, it is drawn how many of each kind
    come to a side (multivariate hypergeometric), which is the same.
    """
    rng, trials = np.random.default_rng(seed), np.vstack([ours, theirs])
    kinds, many = np.unique(trials, axis=0, return_counts=True)
    if len(trials) >= MANY and len(kinds) < len(trials) / ALIKE:
        weights = kinds.astype(np.float64)
        drawn = [
            rng.multivariate_hypergeometric(many, len(ours), one.stop - one.start, "marginals")
            for one in _in_parts(exchanges, len(kinds))
        ]
        kept = np.vstack([part @ weights for part in drawn])
        return kept, trials.sum(axis=0) - kept

    def subsets(many: int) -> NDArray[np.float32]:
        if len(trials) < MANY:
            keys, last = rng.random((many, len(trials))), len(ours) - 1
            return (keys <= np.partition(keys, last)[:, [last]]).astype(np.float32)
        weights = np.zeros((many, len(trials)), dtype=np.float32)
        for row in weights:
            row[rng.choice(len(trials), len(ours), replace=False, shuffle=False)] = 1
        return weights

    small = abs(trials).sum(axis=0).max() < EXACT
    columns: NDArray[Any] = trials.astype(np.float32 if small else np.float64)
    parts = [subsets(one.stop - one.start) @ columns for one in _in_parts(exchanges, len(trials))]
    kept = np.vstack(parts).astype(np.float64)
    return kept, trials.sum(axis=0) - kept


def flipped(
    shares: NDArray[np.float64], *, seed: Seed, exchanges: int = EXCHANGES
) -> NDArray[np.float64]:
    """The sums of what each world adds to a difference, when its two trials are swapped or not.

    What a world adds has to be free of how many calls each model makes there, or a model of few
    calls would stand out by them; then swapping its trials only turns the sign.
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
