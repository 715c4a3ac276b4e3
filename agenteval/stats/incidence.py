"""How many denials had come to which end after so many turns, when each can come to one only.

The estimate is that of Aalen and Johansen: a denial that was lost from sight (our side broke the
trial) counts until then, and is neither a recovery nor a failure. statsmodels has it too and is the
oracle of the tests, but takes seconds to import, and knows no clusters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

from agenteval.stats.estimand import UNKNOWN, Layout
from agenteval.stats.rates import clustered, wilson


@dataclass(frozen=True, slots=True)
class Followed:
    """One denial, followed for so many turns to its end; the end is empty when it was not seen."""

    turns: int
    end: str


@dataclass(frozen=True, slots=True)
class Incidence:
    """The share of `n` denials that came to an end, `count` of them seen, with 95 % interval."""

    count: int
    n: int
    value: float
    low: float
    high: float


def incidence(
    trials: Sequence[Sequence[Followed]], end: str, within: float, layout: Layout = UNKNOWN
) -> Incidence:
    """Of the denials of all trials, those that came to `end` within so many turns."""
    denials = [one for trial in trials for one in trial]
    known = clustered(
        [
            (
                sum(_came(one, end, within) for one in trial),
                sum(bool(one.end) or one.turns > within for one in trial),
            )
            for trial in trials
        ],
        layout,
    )
    count = sum(_came(one, end, within) for one in denials)
    if not known.n or known.effective is None:
        return Incidence(count, len(denials), nan, 0.0, 1.0)
    value = min(1.0, _aalen_johansen(denials, end, within))
    return Incidence(count, len(denials), value, *wilson(value, known.effective))


def _came(one: Followed, end: str, within: float) -> bool:
    return one.end == end and one.turns <= within


def _aalen_johansen(denials: Sequence[Followed], end: str, within: float) -> float:
    still_open, share = 1.0, 0.0
    for turn in sorted({one.turns for one in denials if one.turns <= within}):
        at_risk = sum(one.turns >= turn for one in denials)
        here = [one.end for one in denials if one.turns == turn and one.end]
        share += still_open * here.count(end) / at_risk
        still_open *= 1 - len(here) / at_risk
    return share
