"""A rate over time: one for each week, model or version, and where it changed for good.

A change point is looked for at every boundary of every series that is told, and each such look is a
claim: p is corrected for all of them, and a change that this does not settle is not told.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


def changes(
    series: Mapping[str, Sequence[Cluster]], *, beside: int = 0, seed: int = 0
) -> tuple[Change, ...]:
    """The settled changes of a series in the order of time: the clearest first splits the rest.

    `beside` are the boundaries of other series that are looked at too.
    """
    labels = list(series)
    claims = max(len(labels) - 1 + beside, 1)
    found = _within(labels, series, claims=claims, seed=seed)
    return tuple(sorted(found, key=lambda one: labels.index(one.label)))


def _within(
    labels: Sequence[str], series: Mapping[str, Sequence[Cluster]], *, claims: int, seed: int
) -> list[Change]:
    found: Change | None = None
    for at in range(1, len(labels)):
        sides = [[c for label in part for c in series[label] if c[1]] for part in _cut(labels, at)]
        if min(map(len, sides)) < FEWEST:
            continue
        gap = compare(sides[0], sides[1], seed=seed)
        one = Change(labels[at], labels[0], gap, min(1.0, gap.p * claims))
        if one.adjusted < SETTLED and (found is None or one.adjusted < found.adjusted):
            found = one
    if found is None:
        return []
    parts = _cut(labels, labels.index(found.label))
    return [found, *(c for part in parts for c in _within(part, series, claims=claims, seed=seed))]


def _cut(labels: Sequence[str], at: int) -> tuple[Sequence[str], Sequence[str]]:
    return labels[:at], labels[at:]
