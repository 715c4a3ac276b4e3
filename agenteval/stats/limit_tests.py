"""Whether a rate, or what two rates differ by, lies below a limit: tests and their bounds.

Both tests take their variance at the limit and not where the counts happen to fall: a model that
had luck would else look less variable than it is, and be promoted too often.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Protocol, Self

from agenteval.core.counts import Cluster
from agenteval.stats.estimand import degrees, varied
from agenteval.stats.quantiles import falling, incomplete_beta, t_tail
from agenteval.stats.rates import Rate, planned_effect, widened

MOST = 1000.0  # the largest ratio looked for, and how many times more trials are ever asked for

Groups = Sequence[tuple[Cluster, Cluster]]  # of baseline and candidate, what belongs together


class LimitTest(Protocol):
    """One figure to be held against a limit."""

    @property
    def estimate(self) -> float: ...

    @property
    def ends(self) -> tuple[float, float]:
        """Between what the figure can lie."""
        ...

    def below(self, limit: float) -> float:
        """The chance to see so little if the truth were at the limit."""
        ...

    def above(self, limit: float) -> float:
        """The chance to see so much if the truth were at the limit."""
        ...

    def scaled(self, times: float) -> Self:
        """The same figure from so many times as many trials."""
        ...


@dataclass(frozen=True, slots=True)
class RateTest:
    """One rate: exact binomial on what the design effect leaves (Korn and Graubard 1998)."""

    count: float
    n: float
    ends = (0.0, 1.0)

    @classmethod
    def of(cls, rate: Rate) -> Self:
        effective = rate.n if rate.effective is None else rate.effective
        return cls(rate.value * effective if rate.n else 0.0, effective)

    @property
    def estimate(self) -> float:
        return self.count / self.n

    def below(self, limit: float) -> float:
        misses = self.n - self.count
        return 1 - incomplete_beta(self.count + 1, misses, limit) if misses > 0 else 1.0

    def above(self, limit: float) -> float:
        if self.count <= 0:
            return 1.0
        return incomplete_beta(self.count, self.n - self.count + 1, limit)

    def scaled(self, times: float) -> "RateTest":
        return RateTest(self.count * times, self.n * times)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rate of a candidate beside that of a baseline: a difference, or a ratio.

    A score test whose variance is multiplied by `effect`, on Student's t with `df` degrees of
    freedom. The common rate under a limit is that of all errors together (Dunnett and Gent 1977).
    """

    baseline: tuple[float, float]
    candidate: tuple[float, float]
    effect: float
    df: float
    ratio: bool

    @classmethod
    def of(
        cls,
        groups: Groups,
        strata: Sequence[int] = (),
        *,
        limit: float,
        ratio: bool,
        icc: float,
    ) -> Self:
        """From counts in groups; a group may be empty on one side, where the two never met.

        Each side must have calls. The resemblance within groups is taken from what each adds to
        the figure at the limit, or from the planned `icc` where the counts cannot show it. `strata`
        are those of the groups; without them, all groups are of one.
        """
        places = [at for at, group in enumerate(groups) if group[0][1] or group[1][1]]
        used = [groups[at] for at in places]
        of = [strata[at] if strata else 0 for at in places]
        baseline, candidate = (_summed([group[at] for group in used]) for at in (0, 1))
        bearing = sum(bool(ours[0] or theirs[0]) for ours, theirs in used)
        effect = _effect(used, of, baseline, candidate, weight=limit if ratio else 1.0)
        if effect is None:
            clusters = [cluster for group in used for cluster in group if cluster[1]]
            effect = planned_effect(clusters, icc)
        met = sum(bool(ours[1] and theirs[1]) for ours, theirs in used)
        df = degrees(of) if strata else max(len(used) - (1 if met == len(used) else 2), 1)
        return cls(baseline, candidate, widened(effect, bearing), df, ratio)

    @property
    def estimate(self) -> float:
        ours, theirs = (count / n for count, n in (self.baseline, self.candidate))
        if self.ratio:
            return theirs / ours if ours else inf
        return theirs - ours

    @property
    def ends(self) -> tuple[float, float]:
        return (0.0, MOST) if self.ratio else (-1.0, 1.0)

    def below(self, limit: float) -> float:
        return 1 - self.above(limit)

    def above(self, limit: float) -> float:
        return t_tail(self._statistic(limit), self.df)

    def scaled(self, times: float) -> "Comparison":
        baseline, candidate = (
            (count * times, n * times) for count, n in (self.baseline, self.candidate)
        )
        return Comparison(baseline, candidate, self.effect, self.df * times, self.ratio)

    def _statistic(self, limit: float) -> float:
        """How many standard errors the figure lies above the limit."""
        (count, n), (others, of) = self.candidate, self.baseline
        if self.ratio:
            ours = min((count + others) / (of + limit * n), 1 / max(limit, 1))
            theirs, weight = limit * ours, limit
        else:
            ours = min(max((count + others - limit * n) / (of + n), -limit, 0), 1 - limit, 1)
            theirs, weight = ours + limit, 1.0
        gap = count / n - weight * others / of - (0.0 if self.ratio else limit)
        variance = theirs * (1 - theirs) / n + weight * weight * ours * (1 - ours) / of
        if variance <= 0:  # only where a rate of 0 or 1 is all there is
            return inf * gap if gap else 0.0
        return gap / sqrt(variance * self.effect)


def upper_bound(test: LimitTest, level: float) -> float:
    """Below what the truth lies, unless something of this chance has happened."""
    high = test.ends[1]
    return falling(test.below, level, min(test.estimate, high), high)


def lower_bound(test: LimitTest, level: float) -> float:
    """Above what the truth lies, unless something of this chance has happened."""
    low, high = test.ends
    return falling(lambda limit: 1 - test.above(limit), 1 - level, low, min(test.estimate, high))


def _summed(clusters: Sequence[Cluster]) -> Cluster:
    return sum(count for count, _ in clusters), sum(size for _, size in clusters)


def _effect(
    groups: Groups,
    strata: Sequence[int],
    baseline: Cluster,
    candidate: Cluster,
    *,
    weight: float,
) -> float | None:
    """How many times more the figure varies than over independent calls; None: cannot be seen."""
    ours, theirs = (count / n for count, n in (baseline, candidate))
    expected = (
        theirs * (1 - theirs) / candidate[1] + weight * weight * ours * (1 - ours) / baseline[1]
    )
    k = len(groups)
    if k == 1 or not expected:
        return None
    added = [
        (met[0] - theirs * met[1]) / candidate[1]
        - weight * (before[0] - ours * before[1]) / baseline[1]
        for before, met in groups
    ]
    return varied(added, strata) / expected
