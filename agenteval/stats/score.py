"""What two figures may differ by: one score test, turned around.

A difference is possible unless what was seen lies too many standard errors away from it: those of
the likeliest figures that differ so (Miettinen and Nurminen 1985), and as many as p needs to be
below 0.05. So the interval leaves out 0 exactly where p says that there is a difference.

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
    """How two figures stand against each other.

    `p` is that of no difference, and `critical` how many standard errors away it is 0.05. `effect`
    is how many times more the difference varies than over independent draws, and `effect_if_same`
    the same if there is none. `shift` is the part of it that the sizes of trials alone make then.
    """

    p: float
    critical: float
    effect: float
    effect_if_same: float
    shift: float = 0.0

    def against(self, gap: float, variance: float, *, apart: float, times: float = 1.0) -> bool:
        """Whether what was seen is too far off, by `gap`, to be like two figures.

        Independent draws of them would give this variance. They are `apart` by this part of what
        was seen, where 0 is no difference: the shift is known there, and nothing is left of it
        where they are as was seen. The gap is to so many `times` the second figure; sizes are
        taken to shift both alike, so that either may be divided by the other.
        """
        apart = min(max(apart, 0.0), 1.0)
        effect = self.effect_if_same + apart * (self.effect - self.effect_if_same)
        shift = self.shift * (1 - apart) * (1 + times) / 2
        return abs(gap - shift) > self.critical * sqrt(max(variance * effect, 0.0))

    def around(self, low: float, high: float, *, value: float, same: float) -> Interval:
        """An interval that holds its value, and what stands for `same` unless p excludes it.

        So that neither rounding nor trials too few to settle anything leave it out.
        """
        held = (value, same) if self.p >= SETTLED else (value,)
        return min(low, *held), max(high, *held)


def least_p(errors: int) -> float:
    """What p cannot be below where there are few errors, or trials that have any.

    Fewer than five settle nothing: fallen like tossed coins, they may well all be on one side. Else
    the sizes of trials would settle it, as no two exchanges make the rates exactly as different.
    """
    chance = 0.5**errors  # of one side and the other, ties by half
    return chance if chance >= SETTLED else 0.0


def rates_differ_by(one: Rate, other: Rate, evidence: Evidence) -> Interval:
    """`one` minus `other`, both of an n above 0. It never has width 0."""
    value = one.value - other.value

    def against(gap: float) -> bool:
        first = _likeliest(one, other, gap)
        second = first - gap
        variance = first * (1 - first) / one.n + second * (1 - second) / other.n
        return evidence.against(value - gap, variance, apart=part(gap, value))

    low, high = edge(against, -1.0, value), edge(against, 1.0, value)
    return evidence.around(low, high, value=value, same=0.0)


def means_differ_by(one: Mean, other: Mean, evidence: Evidence) -> Interval:
    """The same of two means of counts, which vary as much as they are large."""
    value, trials = one.value - other.value, one.n + other.n

    def against(gap: float) -> bool:
        half = (gap - (one.count + other.count) / trials) / 2
        second = max(sqrt(half * half + other.count * gap / trials) - half, -gap, 0.0)
        variance = (second + gap) / one.n + second / other.n
        return evidence.against(value - gap, variance, apart=part(gap, value))

    low, high = edge(against, -FARTHEST, value), edge(against, FARTHEST, value)
    return evidence.around(low, high, value=value, same=0.0)


def part(gap: float, of: float) -> float:
    return gap / of if of else 0.0


def edge(against: Callable[[float], bool], outside: float, inside: float) -> float:
    """Where what is possible ends: between `outside`, which is not, and `inside`, which is."""
    for _ in range(_HALVINGS):
        middle = (outside + inside) / 2
        if against(middle):
            outside = middle
        else:
            inside = middle
    return inside


def _likeliest(one: Rate, other: Rate, gap: float) -> float:
    """The likeliest first rate if it is larger by `gap`: a root of the score's cubic.

    In closed form (Farrington and Manning 1990).
    """
    weight = other.n / one.n
    both = one.value + weight * other.value
    third = (1 + weight + both + gap * (weight + 2)) / (3 * (1 + weight))
    slope = (gap * (gap + 2 * one.value + weight + 1) + both) / (3 * (1 + weight))
    rest = -one.value * gap * (1 + gap) / (2 * (1 + weight))
    v = -(third**3) + 1.5 * third * slope + rest
    u = copysign(sqrt(max(third * third - slope, 0.0)), v)
    cosine = min(max(v / u**3, -1.0), 1.0) if u else 1.0
    root = 2 * u * cos((pi + acos(cosine)) / 3) + third
    return min(max(root, gap, 0.0), 1.0, 1.0 + gap)


@dataclass(frozen=True, slots=True)
class Ratio:
    """`value` is infinite when only the second rate is 0, and nan when both are."""

    value: float
    low: float
    high: float


def ratio(one: Rate, other: Rate, evidence: Evidence) -> Ratio:
    """`one` by `other`, both of an n above 0. It leaves out 1 where their difference does 0."""
    if not one.count and not other.count:
        return Ratio(nan, 0.0, inf)

    def against(theta: float) -> bool:
        first, second = _likeliest_ratio(one, other, theta)
        variance = first * (1 - first) / one.n + theta * theta * second * (1 - second) / other.n
        apart = part(first - second, one.value - other.value)
        gap = one.value - theta * other.value
        return evidence.against(gap, variance, apart=apart, times=theta)

    value = one.value / other.value if other.count else inf
    low = edge(against, 0.0, min(value, FARTHEST)) if one.count else 0.0
    high = edge(against, FARTHEST, value) if other.count else inf
    return Ratio(value, *evidence.around(low, high, value=value, same=1.0))


def _likeliest_ratio(one: Rate, other: Rate, theta: float) -> tuple[float, float]:
    """The likeliest rates of which the first is `theta` times the second."""
    a, c = (one.n + other.n) * theta, one.count + other.count
    b = -((one.n + other.count) * theta + one.count + other.n)
    second = (-b - sqrt(max(0.0, b * b - 4 * a * c))) / (2 * a)
    return min(1.0, second * theta), second
