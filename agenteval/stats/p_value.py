"""The p value: how far out a figure lies among those that permutations give."""

from dataclasses import dataclass
from math import comb
from typing import Self

import numpy as np
from numpy.typing import NDArray

from agenteval.stats.rates import t_quantile
from agenteval.stats.score import SETTLED

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


def itself(ours: int, theirs: int) -> float:
    """The part of all exchanges of so many trials that what was seen is itself.

    Of as many trials on both sides its mirror image is as far out, too.
    """
    return (1 + (ours == theirs)) / comb(ours + theirs, ours)
