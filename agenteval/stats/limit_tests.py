"""Whether a rate, or what two rates differ by, lies below a limit: tests and their bounds.

Both tests take their variance at the limit and not where the counts happen to fall: a model that
had luck would else look less variable than it is, and be promoted too often.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Protocol, Self

from agenteval.stats.quantiles import falling, incomplete_beta, t_tail

FEW_ERRORS = 5  # up to which they are nothing like normal
LIKELY = 0.5  # what is seen so often shows nothing
MOST = 1000.0  # the largest ratio looked for, and how many times more trials are ever asked for


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

    def nearer(self, limit: float) -> Self:
        """The figure if it were half as far from the limit."""
        ...


class ByItself(LimitTest, Protocol):
    """A test of the errors as they are."""

    @property
    def slack(self) -> float:
        """How far `nearness` can be from what the test says, in standard errors."""
        ...

    def nearness(self, limit: float) -> float:
        """How many standard errors the figure lies above the limit: orders tests by `below`."""
        ...


@dataclass(frozen=True, slots=True)
class RateTest:
    """One rate: exact binomial on what the design effect leaves (Korn and Graubard 1998)."""

    count: float
    n: float
    ends = (0.0, 1.0)

    @property
    def slack(self) -> float:
        return 1.0 if self.count > FEW_ERRORS else inf

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
    """The rate of a candidate beside that of a baseline: a difference, or a ratio.

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


@dataclass(frozen=True, slots=True)
class Guarded:
    """A test that no error of the candidate helps (`stats.fewer_errors`).

    It is passed when the `weaker` ones are, of fewer errors that lie further apart, and failed when
    one of the `lighter` ones is, of fewer errors that lie closer together.
    """

    whole: ByItself
    weaker: Sequence[ByItself]
    lighter: Callable[[], Sequence[ByItself]]

    @property
    def estimate(self) -> float:
        return self.whole.estimate

    @property
    def ends(self) -> tuple[float, float]:
        return self.whole.ends

    def below(self, limit: float) -> float:
        return max(one.below(limit) for one in _nearest(limit, self.whole, self.weaker))

    def above(self, limit: float) -> float:
        by_itself = self.whole.above(limit)
        if by_itself > LIKELY:
            return by_itself
        return min(one.above(limit) for one in _nearest(limit, self.whole, self.lighter()))

    def scaled(self, times: float) -> "Guarded":
        weaker = [one.scaled(times) for one in self.weaker]
        return Guarded(
            self.whole.scaled(times),
            weaker,
            lambda: [one.scaled(times) for one in self.lighter()],
        )

    def nearer(self, limit: float) -> "Guarded":
        weaker = [one.nearer(limit) for one in self.weaker]
        return Guarded(
            self.whole.nearer(limit),
            weaker,
            lambda: [one.nearer(limit) for one in self.lighter()],
        )


def _nearest(limit: float, whole: ByItself, others: Sequence[ByItself]) -> Iterator[ByItself]:
    """Those that can lie furthest above the limit."""
    ranked = [(one.nearness(limit), one) for one in (whole, *others)]
    least = max(near for near, _ in ranked) - whole.slack
    return (one for near, one in ranked if near >= least)


def upper_bound(test: LimitTest, level: float) -> float:
    """Below what the truth lies, unless something of this chance has happened."""
    high = test.ends[1]
    found = min(test.estimate, high)
    for one in (test.whole, *test.weaker) if isinstance(test, Guarded) else (test,):
        if one.below(found) > level:
            found = falling(one.below, level, found, high)
    return found


def lower_bound(test: LimitTest, level: float) -> float:
    """Above what the truth lies, unless something of this chance has happened."""
    found, high = test.ends[0], min(test.estimate, test.ends[1])
    for one in (test.whole, *test.lighter()) if isinstance(test, Guarded) else (test,):
        if one.above(found) < level:
            found = _rising(one, level, found, high)
    return found


def _rising(test: LimitTest, level: float, low: float, high: float) -> float:
    return falling(lambda limit: 1 - test.above(limit), 1 - level, low, high)
