"""Figures over time: the ends of denials by turns, and the changes of a rate by weeks.

The cumulative incidence of an end, with competing risks, is the estimate of Aalen and Johansen: a
denial that was censored (our side broke the trial) counts until then, and is neither a recovery nor
a failure. statsmodels has it too and is the oracle of the tests, but takes seconds to import, and
does not support clusters.

A change point is tested at every boundary of every reported series of weeks, models or versions. p
is corrected for all of these tests, and what is not significant then is not reported.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import log, nan
from typing import NamedTuple

from agenteval.stats.comparison import Difference, compare
from agenteval.stats.rates import UNKNOWN, Clusters, Layout, Rate, clustered, total, wilson
from agenteval.stats.score import SETTLED

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
    trials: Sequence[Sequence[Followed]],
    end: str,
    limit: float,
    layout: Layout = UNKNOWN,
) -> Incidence:
    """Return the incidence of `end` within `limit` turns, over the denials of all trials."""
    clusters = []
    for trial in trials:
        in_time = sum([denial.end == end and denial.turns <= limit for denial in trial])
        known = sum([bool(denial.end) or denial.turns > limit for denial in trial])
        clusters.append((in_time, known))
    rate = clustered(clusters, layout)
    denials = Counter(chain.from_iterable(trials))
    n = denials.total()
    count, _ = total(clusters)
    if not rate.n or rate.effective is None:
        return Incidence(count, n, nan, 0.0, 1.0)
    value = _aalen_johansen(denials, end, limit)
    if value > 1 - ROUNDING:
        value = 1.0
    return Incidence(count, n, value, *wilson(value, rate.effective))


def _aalen_johansen(denials: Mapping[Followed, int], end: str, limit: float) -> float:
    """Return the Aalen-Johansen estimate from the number of denials by turns and end."""
    still_open = 1.0
    share = 0.0
    at_risk = sum(denials.values())
    by_turns: dict[int, Counter[str]] = defaultdict(Counter)
    for (turns, ending), number in denials.items():
        by_turns[turns][ending] = number
    for turns in sorted(by_turns):
        if turns > limit:
            break
        here = by_turns[turns]
        ended = here.total() - here[""]
        # Who is still open may come to this end now; who was censored is at risk no longer.
        share += still_open * here[end] / at_risk
        still_open *= 1 - ended / at_risk
        at_risk -= here.total()
    return share


Series = Mapping[str, Clusters]  # of each label, in the order of time: the trials
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


def points(series: Series) -> tuple[Point, ...]:
    return tuple(Point(label, len(of), clustered(of)) for label, of in series.items())


def changes(series: Series, *, others: int = 0) -> tuple[Change, ...]:
    """Return the significant changes of a series in the order of time, by binary segmentation.

    The clearest change splits the series first. `others` is the number of boundaries of other
    series that are tested too.
    """
    labels = list(series)
    claims = max(len(labels) - 1 + others, 1)
    significant = _significant(labels, series, claims=claims)
    return tuple(sorted(significant, key=lambda change: labels.index(change.label)))


def _significant(labels: Sequence[str], series: Series, *, claims: int) -> list[Change]:
    """Return the change that explains most of the spread, and those within the parts it divides.

    It is not chosen by the smallest p: where a change is clear, many boundaries have the least
    possible p.
    """
    gains: dict[int, float] = {}  # of log likelihood, of two rates over one
    for boundary in range(1, len(labels)):
        before, after = _sides(labels, boundary, series)
        if min(len(before), len(after)) >= FEWEST:
            of_two_rates = _log_likelihood(before) + _log_likelihood(after)
            gains[boundary] = of_two_rates - _log_likelihood([*before, *after])
    if not gains:
        return []
    boundary = max(gains, key=gains.__getitem__)
    gap = compare(*_sides(labels, boundary, series), seed=0)
    adjusted = min(1.0, gap.p * claims)
    if adjusted >= SETTLED:
        return []
    change = Change(labels[boundary], labels[0], gap, adjusted)
    earlier = _significant(labels[:boundary], series, claims=claims)
    later = _significant(labels[boundary:], series, claims=claims)
    return [change, *earlier, *later]


def _sides(labels: Sequence[str], boundary: int, series: Series) -> list[Clusters]:
    """Return the trials with calls before and after a boundary."""
    sides: list[Clusters] = []
    for part in (labels[:boundary], labels[boundary:]):
        trials = chain.from_iterable(series[label] for label in part)
        sides.append([cluster for cluster in trials if cluster[1]])
    return sides


def _log_likelihood(clusters: Clusters) -> float:
    """Return the log likelihood of the errors among all calls at their own rate."""
    count, n = total(clusters)
    return sum(part * log(part / n) for part in (count, n - count) if part)
