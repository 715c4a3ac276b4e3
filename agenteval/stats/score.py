"""Confidence intervals of a difference or ratio of two figures, by inverting one score test.

A difference is in the interval unless the observed one lies too many standard errors away from it.
The standard errors are those of the likeliest figures with that difference (Miettinen and Nurminen
1985), and their number is that at which p is 0.05. So the interval excludes 0 exactly where p is
below 0.05.

Written out because statsmodels takes seconds to import, and because its interval is wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import acos, copysign, cos, inf, nan, pi, sqrt

from agenteval.stats.rates import Mean, Rate

SETTLED = 0.05
EXCHANGES = 9_999  # permutations under a p value
FARTHEST = 1e9  # a mean, or a ratio, beyond is as good as infinite
_HALVINGS = 100
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of a difference between two figures.

    `p` is that of the null hypothesis of no difference. `critical` is the number of standard errors
    at which p is 0.05. `effect` is the variance inflation of the difference over independent draws,
    and `effect_if_same` the same under the null hypothesis. `shift` is the part of the difference
    that the sizes of trials alone cause under the null hypothesis.
    """

    p: float
    critical: float
    effect: float
    effect_if_same: float
    shift: float = 0.0

    def rejects(
        self,
        gap: float,
        variance: float,
        *,
        fraction: float,
        times: float = 1.0,
    ) -> bool:
        """Return True if the observation rejects two hypothetical figures.

        `gap` is the distance of the observed difference from theirs; `variance` is that of
        independent draws of them. `fraction` is their difference as a part of the observed one: at
        0, no difference, the whole shift applies, and at 1 none of it. `gap` is measured to `times`
        the second figure. Sizes are assumed to shift both figures equally, so that either may be
        divided by the other.
        """
        fraction = min(max(fraction, 0.0), 1.0)
        effect = self.effect_if_same + fraction * (self.effect - self.effect_if_same)
        shift = self.shift * (1 - fraction) * (1 + times) / 2
        standard_error = sqrt(max(variance * effect, 0.0))
        return abs(gap - shift) > self.critical * standard_error

    def widen(
        self,
        low: float,
        high: float,
        *,
        value: float,
        same: float,
    ) -> Interval:
        """Return the interval widened to `value`, and to `same` unless p excludes it.

        Neither rounding nor too few trials for significance can then exclude it.
        """
        included = [value, low, high]
        if self.p >= SETTLED:
            included.append(same)
        return min(included), max(included)


def least_p(errors: int) -> float:
    """Return the lower bound of p for few errors, or for few trials with errors.

    Fewer than five are never significant: like tossed coins, they might all be on one side.
    Otherwise the sizes of trials would decide, as no two exchanges give exactly equal differences.
    """
    chance = 0.5**errors  # of one side and the other, ties by half
    return chance if chance >= SETTLED else 0.0


def rates_differ_by(first: Rate, second: Rate, evidence: Evidence) -> Interval:
    """Return the interval of `first` minus `second`, both with n above 0. It has no width of 0."""
    value = first.value - second.value

    def is_rejected(gap: float) -> bool:
        restricted_first = _restricted_rate(first, second, gap)
        variance = _draw_variance(restricted_first) / first.n
        variance += _draw_variance(restricted_first - gap) / second.n
        return evidence.rejects(value - gap, variance, fraction=_fraction(gap, value))

    low = _find_end(is_rejected, -1.0, value)
    high = _find_end(is_rejected, 1.0, value)
    return evidence.widen(low, high, value=value, same=0.0)


def means_differ_by(first: Mean, second: Mean, evidence: Evidence) -> Interval:
    """Return the interval of the difference of two means of counts, with Poisson variance."""
    value = first.value - second.value
    trials = first.n + second.n
    pooled = (first.count + second.count) / trials

    def is_rejected(gap: float) -> bool:
        # The likeliest second mean is a root of the score's quadratic.
        half = (gap - pooled) / 2
        root = sqrt(half * half + second.count * gap / trials) - half
        restricted_second = max(root, -gap, 0.0)
        variance = (restricted_second + gap) / first.n + restricted_second / second.n
        return evidence.rejects(value - gap, variance, fraction=_fraction(gap, value))

    low = _find_end(is_rejected, -FARTHEST, value)
    high = _find_end(is_rejected, FARTHEST, value)
    return evidence.widen(low, high, value=value, same=0.0)


def _draw_variance(rate: float) -> float:
    return rate * (1 - rate)


def _fraction(gap: float, observed: float) -> float:
    return gap / observed if observed else 0.0


def _find_end(is_rejected: Callable[[float], bool], outside: float, inside: float) -> float:
    """Return the end of the interval, between `outside` (rejected) and `inside` (not rejected)."""
    for _ in range(_HALVINGS):  # from 1e9 down to the last bit
        middle = (outside + inside) / 2
        if is_rejected(middle):
            outside = middle
        else:
            inside = middle
    return inside


def _restricted_rate(first: Rate, second: Rate, gap: float) -> float:
    """Return the likeliest first rate if it is larger by `gap`: a root of the score's cubic.

    In closed form (Farrington and Manning 1990, appendix).
    """
    weight = second.n / first.n
    both = first.value + weight * second.value
    leading = 1 + weight
    third = (1 + weight + both + gap * (weight + 2)) / (3 * leading)
    slope = (gap * (gap + 2 * first.value + weight + 1) + both) / (3 * leading)
    constant = -first.value * gap * (1 + gap) / (2 * leading)
    v = -(third**3) + 1.5 * third * slope + constant
    u = copysign(sqrt(max(third * third - slope, 0.0)), v)
    cosine = min(max(v / u**3, -1.0), 1.0) if u else 1.0
    angle = (pi + acos(cosine)) / 3
    root = 2 * u * cos(angle) + third
    return min(max(root, gap, 0.0), 1.0, 1.0 + gap)


@dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio of two rates, with its 95 % confidence interval.

    `value` is infinite when only the second rate is 0, and nan when both are.
    """

    value: float
    low: float
    high: float


def ratio(first: Rate, second: Rate, evidence: Evidence) -> Ratio:
    """Return the ratio of `first` to `second`, both with n above 0.

    The interval excludes 1 where that of their difference excludes 0.
    """
    if not first.count and not second.count:
        return Ratio(nan, 0.0, inf)
    difference = first.value - second.value

    def is_rejected(theta: float) -> bool:
        restricted_second = _restricted_denominator(first, second, theta)
        restricted_first = min(1.0, restricted_second * theta)
        variance = _draw_variance(restricted_first) / first.n
        variance += theta * theta * restricted_second * (1 - restricted_second) / second.n
        fraction = _fraction(restricted_first - restricted_second, difference)
        gap = first.value - theta * second.value
        return evidence.rejects(gap, variance, fraction=fraction, times=theta)

    value = first.value / second.value if second.count else inf
    low = 0.0
    if first.count:
        low = _find_end(is_rejected, 0.0, min(value, FARTHEST))
    high = inf
    if second.count:
        high = _find_end(is_rejected, FARTHEST, value)
    return Ratio(value, *evidence.widen(low, high, value=value, same=1.0))


def _restricted_denominator(first: Rate, second: Rate, theta: float) -> float:
    """Return the likeliest second rate if the first is `theta` times it (the score's quadratic)."""
    a = (first.n + second.n) * theta
    b = -((first.n + second.count) * theta + first.count + second.n)
    c = first.count + second.count
    return (-b - sqrt(max(0.0, b * b - 4 * a * c))) / (2 * a)
