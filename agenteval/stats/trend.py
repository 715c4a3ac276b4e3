"""A rate over time: one for each week, model or version, and where it changed for good.

A change point is looked for at every boundary of every series that is told, and each such look is a
claim: p is corrected for all of them, and a change that this does not settle is not told.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

from agenteval.core.counts import Cluster
from agenteval.stats.comparison import Difference, compare
from agenteval.stats.rates import Rate, clustered

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
    """From `label` on the rate is another one than from `since` until then.

    `adjusted` is p after Bonferroni's correction for all boundaries that were looked at.
    """

    label: str
    since: str
    difference: Difference
    adjusted: float


def points(series: Mapping[str, Sequence[Cluster]]) -> tuple[Point, ...]:
    return tuple(Point(label, len(of), clustered(of)) for label, of in series.items())


def changes(series: Mapping[str, Sequence[Cluster]], *, beside: int = 0) -> tuple[Change, ...]:
    """The settled changes of a series in the order of time: the clearest first splits the rest.

    `beside` are the boundaries of other series that are looked at too.
    """
    labels = list(series)
    claims = max(len(labels) - 1 + beside, 1)
    found = _within(labels, series, claims=claims)
    return tuple(sorted(found, key=lambda one: labels.index(one.label)))


def _within(
    labels: Sequence[str], series: Mapping[str, Sequence[Cluster]], *, claims: int
) -> list[Change]:
    """The boundary by which most of the spread is told, and those within what it divides.

    Not the one of the smallest p: where a change is clear, many boundaries have the least that
    there is.
    """
    told = {
        at: _told(*sides) for at in range(1, len(labels)) if (sides := _sides(labels, at, series))
    }
    if not told:
        return []
    at = max(told, key=told.__getitem__)
    gap = compare(*_sides(labels, at, series), seed=0)
    found = Change(labels[at], labels[0], gap, min(1.0, gap.p * claims))
    if found.adjusted >= SETTLED:
        return []
    parts = _cut(labels, at)
    return [found, *(c for part in parts for c in _within(part, series, claims=claims))]


def _sides(
    labels: Sequence[str], at: int, series: Mapping[str, Sequence[Cluster]]
) -> list[list[Cluster]]:
    """The trials with calls before and from a boundary on; none where a side has too few."""
    sides = [[c for label in part for c in series[label] if c[1]] for part in _cut(labels, at)]
    return sides if min(map(len, sides)) >= FEWEST else []


def _told(before: Sequence[Cluster], after: Sequence[Cluster]) -> float:
    """By how much two rates fit the errors better than one: the gain of log likelihood."""
    return _likelihood(before) + _likelihood(after) - _likelihood([*before, *after])


def _likelihood(clusters: Sequence[Cluster]) -> float:
    """Of the errors among all calls at their own rate, as a logarithm."""
    count, n = sum(count for count, _ in clusters), sum(size for _, size in clusters)
    return sum(part * log(part / n) for part in (count, n - count) if part)


def _cut(labels: Sequence[str], at: int) -> tuple[Sequence[str], Sequence[str]]:
    return labels[:at], labels[at:]
