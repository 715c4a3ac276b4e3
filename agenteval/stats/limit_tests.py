"""Tests of a rate, or of a difference or ratio of two rates, against a limit.

Both tests take their variance at the limit and not at the observed counts. A lucky model would
otherwise look less variable than it is, and be promoted too often.
"""

from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Protocol, Self

from agenteval.stats.quantiles import incomplete_beta, t_tail

FEW_ERRORS = 5  # up to which they are nothing like normal
MOST = 1000.0  # the largest ratio looked for, and how many times more trials are ever asked for


class LimitTest(Protocol):
    """A test of one figure against a limit."""

    @property
    def estimate(self) -> float: ...

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest possible value of the figure."""
        ...

    def below(self, limit: float) -> float:
        """Return the one-sided p of the null hypothesis that the truth is not below the limit.

        It is the chance of an estimate this low if the truth were at the limit.
        """
        ...

    def above(self, limit: float) -> float:
        """Return the one-sided p of the null hypothesis that the truth is not above the limit.

        It is the chance of an estimate this high if the truth were at the limit.
        """
        ...

    def scaled(self, times: float) -> Self:
        """Return this test scaled to `times` as many trials."""
        ...

    def nearer(self, limit: float) -> Self:
        """Return this test with its estimate half as far from the limit."""
        ...


class ByItself(LimitTest, Protocol):
    """A test of the observed errors."""

    @property
    def slack(self) -> float:
        """The largest discrepancy between `nearness` and the test itself, in standard errors."""
        ...

    def nearness(self, limit: float) -> float:
        """Return how many standard errors the figure lies above the limit.

        It orders tests by `below`.
        """
        ...


@dataclass(frozen=True, slots=True)
class RateTest:
    """The test of one rate: exact binomial on the effective sample (Korn and Graubard 1998).

    `count` and `n` are divided by the design effect.
    """

    count: float
    n: float
    ends = (0.0, 1.0)

    @property
    def slack(self) -> float:
        return min(6 / sqrt(self.count), 1.0) if self.count > FEW_ERRORS else inf

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

    def nearness(self, limit: float) -> float:
        variance = self.n * limit * (1 - limit)
        return (self.count - self.n * limit) / sqrt(variance) if variance else 0.0

    def scaled(self, times: float) -> "RateTest":
        return RateTest(self.count * times, self.n * times)

    def nearer(self, limit: float) -> "RateTest":
        return RateTest((self.count + self.n * limit) / 2, self.n)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The test of a candidate's rate compared with a baseline's: a difference, or a ratio.

    A score test whose variance is multiplied by `effect`, on Student's t with `df` degrees of
    freedom. The common rate under a limit is that of all errors together (Dunnett and Gent 1977).
    """

    baseline: tuple[float, float]
    candidate: tuple[float, float]
    effect: float
    df: float
    ratio: bool
    slack = 0.0

    @property
    def estimate(self) -> float:
        baseline, candidate = (count / n for count, n in (self.baseline, self.candidate))
        if self.ratio:
            return candidate / baseline if baseline else inf
        return candidate - baseline

    @property
    def ends(self) -> tuple[float, float]:
        return (0.0, MOST) if self.ratio else (-1.0, 1.0)

    def below(self, limit: float) -> float:
        return 1 - self.above(limit)

    def above(self, limit: float) -> float:
        return t_tail(self.nearness(limit), self.df)

    def scaled(self, times: float) -> "Comparison":
        baseline, candidate = (
            (count * times, n * times) for count, n in (self.baseline, self.candidate)
        )
        return Comparison(baseline, candidate, self.effect, self.df * times, self.ratio)

    def nearer(self, limit: float) -> "Comparison":
        (count, n), before = self.candidate, self.baseline[0] / self.baseline[1]
        there = n * min(max(before * limit if self.ratio else before + limit, 0.0), 1.0)
        return replace(self, candidate=((count + there) / 2, n))

    def nearness(self, limit: float) -> float:
        (count, n), (others, of) = self.candidate, self.baseline
        if self.ratio:
            baseline = min((count + others) / (of + limit * n), 1 / max(limit, 1))
            candidate, weight = limit * baseline, limit
        else:
            baseline = min(max((count + others - limit * n) / (of + n), -limit, 0), 1 - limit, 1)
            candidate, weight = baseline + limit, 1.0
        gap = count / n - weight * others / of - (0.0 if self.ratio else limit)
        variance = (
            candidate * (1 - candidate) / n + weight * weight * baseline * (1 - baseline) / of
        )
        if variance <= 0:  # only where a rate of 0 or 1 is all there is
            return inf * gap if gap else 0.0
        return gap / sqrt(variance * self.effect)
