"""How many denials had come to which end after so many turns, when each can come to one only.

The estimate is that of Aalen and Johansen: a denial that was lost from sight (our side broke the
trial) counts until then, and is neither a recovery nor a failure. statsmodels has it too and is the
oracle of the tests, but takes seconds to import, and knows no clusters.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import nan
from typing import NamedTuple

from agenteval.stats.estimand import UNKNOWN, Layout
from agenteval.stats.rates import clustered, wilson

ROUNDING = 1e-12  # what may be missing of a whole after a product of many shares


class Followed(NamedTuple):
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
    seen = [tuple(trial) for trial in trials]
    denials = Counter(chain.from_iterable(seen))
    counted = {  # once where many trials went alike
        trial: (
            sum([of == end and turns <= within for turns, of in trial]),
            sum([bool(of) or turns > within for turns, of in trial]),
        )
        for trial in set(seen)
    }
    known = clustered([counted[trial] for trial in seen], layout)
    n = denials.total()
    count = sum(many for (turns, of), many in denials.items() if of == end and turns <= within)
    if not known.n or known.effective is None:
        return Incidence(count, n, nan, 0.0, 1.0)
    value = _aalen_johansen(denials, end, within)
    value = 1.0 if value > 1 - ROUNDING else value
    return Incidence(count, n, value, *wilson(value, known.effective))


def _aalen_johansen(denials: Mapping[Followed, int], end: str, within: float) -> float:
    """From how many denials were followed for so many turns to which end."""
    still_open, share, at_risk = 1.0, 0.0, sum(denials.values())
    followed: dict[int, dict[str, int]] = defaultdict(dict)
    for (turns, of), many in denials.items():
        followed[turns][of] = many
    for turns in sorted(turns for turns in followed if turns <= within):
        here = followed[turns]
        ended = sum(many for of, many in here.items() if of)
        share += still_open * here.get(end, 0) / at_risk
        still_open *= 1 - ended / at_risk
        at_risk -= sum(here.values())
    return share
