"""The p value of a permutation test, and the permutations."""

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
