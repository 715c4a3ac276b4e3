"""Cumulative incidence of the ends of denials, by turns, with competing risks.

The estimate is that of Aalen and Johansen: a denial that was censored (our side broke the trial)
counts until then, and is neither a recovery nor a failure. statsmodels has it too and is the oracle
of the tests, but takes seconds to import, and does not support clusters.

A rate over time: one for each week, model or version, and its change points.

A change point is tested at every boundary of every reported series. p is corrected for all of these
tests, and a change that is not significant after correction is not reported.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import log, nan
from typing import NamedTuple

from agenteval.stats.comparison import Difference, compare
from agenteval.stats.rates import UNKNOWN, Layout, Rate, clustered, wilson
from agenteval.trial.trial import Cluster

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


SETTLED = 0.05
FEWEST = 2  # trials on a side, below which nothing can be compared


@dataclass(frozen=True, slots=True)
class Point:
    """One day, week, model or version, with the errors of its calls."""

    label: str
    trials: int
    rate: Rate


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the rate at `label`, from that of the points from `since` until then.

    `adjusted` is p after Bonferroni's correction for all tested boundaries.
    """

    label: str
    since: str
    difference: Difference
    adjusted: float


def points(series: Mapping[str, Sequence[Cluster]]) -> tuple[Point, ...]:
    return tuple(Point(label, len(of), clustered(of)) for label, of in series.items())


def changes(series: Mapping[str, Sequence[Cluster]], *, others: int = 0) -> tuple[Change, ...]:
    """Return the significant changes of a series in the order of time, by binary segmentation.

    The clearest change splits the series first. `others` is the number of boundaries of other
    series that are tested too.
    """
    labels = list(series)
    claims = max(len(labels) - 1 + others, 1)
    found_changes = _significant(labels, series, claims=claims)
    return tuple(sorted(found_changes, key=lambda one: labels.index(one.label)))


def _significant(
    labels: Sequence[str], series: Mapping[str, Sequence[Cluster]], *, claims: int
) -> list[Change]:
    """Return the change that explains most of the spread, and those within the parts it divides.

    It is not chosen by the smallest p: where a change is clear, many boundaries have the least
    possible p.
    """
    gains = {
        at: _gain(*sides) for at in range(1, len(labels)) if (sides := _sides(labels, at, series))
    }
    if not gains:
        return []
    at = max(gains, key=gains.__getitem__)
    gap = compare(*_sides(labels, at, series), seed=0)
    change = Change(labels[at], labels[0], gap, min(1.0, gap.p * claims))
    if change.adjusted >= SETTLED:
        return []
    parts = _cut(labels, at)
    return [change, *(c for part in parts for c in _significant(part, series, claims=claims))]


def _sides(
    labels: Sequence[str], at: int, series: Mapping[str, Sequence[Cluster]]
) -> list[list[Cluster]]:
    """Return the trials with calls before and after a boundary; none if a side has too few."""
    sides = [[c for label in part for c in series[label] if c[1]] for part in _cut(labels, at)]
    return sides if min(map(len, sides)) >= FEWEST else []


def _gain(before: Sequence[Cluster], after: Sequence[Cluster]) -> float:
    """Return the gain of log likelihood of two rates over one."""
    return _likelihood(before) + _likelihood(after) - _likelihood([*before, *after])


def _likelihood(clusters: Sequence[Cluster]) -> float:
    """Return the log likelihood of the errors among all calls at their own rate."""
    count, n = sum(count for count, _ in clusters), sum(size for _, size in clusters)
    return sum(part * log(part / n) for part in (count, n - count) if part)


def _cut(labels: Sequence[str], at: int) -> tuple[Sequence[str], Sequence[str]]:
    return labels[:at], labels[at:]
