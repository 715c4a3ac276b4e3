"""Cumulative incidence of the ends of denials, by turns, with competing risks.

The estimate is that of Aalen and Johansen: a denial that was censored (our side broke the trial)
counts until then, and is neither a recovery nor a failure. statsmodels has it too and is the oracle
of the tests, but takes seconds to import, and does not support clusters.
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
    """One denial, followed for `turns` to its end; `end` is empty if it was not observed."""

    turns: int
    end: str


@dataclass(frozen=True, slots=True)
class Incidence:
    """The share of `n` denials that came to an end, with 95 % interval; `count` were observed."""

    count: int
    n: int
    value: float
    low: float
    high: float


def incidence(
    trials: Sequence[Sequence[Followed]], end: str, limit: float, layout: Layout = UNKNOWN
) -> Incidence:
    """Return the incidence of `end` within `limit` turns, over the denials of all trials."""
    histories = [tuple(trial) for trial in trials]
    denials = Counter(chain.from_iterable(histories))
    counted = {  # once where many trials went alike
        trial: (
            sum([of == end and turns <= limit for turns, of in trial]),
            sum([bool(of) or turns > limit for turns, of in trial]),
        )
        for trial in set(histories)
    }
    rate = clustered([counted[trial] for trial in histories], layout)
    n = denials.total()
    count = sum(many for (turns, of), many in denials.items() if of == end and turns <= limit)
    if not rate.n or rate.effective is None:
        return Incidence(count, n, nan, 0.0, 1.0)
    value = _aalen_johansen(denials, end, limit)
    value = 1.0 if value > 1 - ROUNDING else value
    return Incidence(count, n, value, *wilson(value, rate.effective))


def _aalen_johansen(denials: Mapping[Followed, int], end: str, limit: float) -> float:
    """Return the Aalen-Johansen estimate from the number of denials by turns and end."""
    still_open, share, at_risk = 1.0, 0.0, sum(denials.values())
    followed: dict[int, dict[str, int]] = defaultdict(dict)
    for (turns, of), many in denials.items():
        followed[turns][of] = many
    for turns in sorted(turns for turns in followed if turns <= limit):
        here = followed[turns]
        ended = sum(many for of, many in here.items() if of)
        share += still_open * here.get(end, 0) / at_risk
        still_open *= 1 - ended / at_risk
        at_risk -= sum(here.values())
    return share
