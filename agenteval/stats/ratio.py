"""The ratio of two rates, with its score interval (Koopman 1984, Miettinen and Nurminen 1985).

Written out because statsmodels, whose interval it is (and which is the oracle in the tests), takes
seconds to import.
"""

from dataclasses import dataclass
from math import inf, nan, sqrt

from agenteval.stats.rates import Rate
from agenteval.stats.score import FARTHEST, Evidence, edge, part


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
        first, second = _likeliest(one, other, theta)
        variance = first * (1 - first) / one.n + theta * theta * second * (1 - second) / other.n
        apart = part(first - second, one.value - other.value)
        return evidence.against(one.value - theta * other.value, variance, apart=apart)

    value = one.value / other.value if other.count else inf
    low = edge(against, 0.0, min(value, FARTHEST)) if one.count else 0.0
    high = edge(against, FARTHEST, value) if other.count else inf
    return Ratio(value, *evidence.around(low, high, value=value, same=1.0))


def _likeliest(one: Rate, other: Rate, theta: float) -> tuple[float, float]:
    """The likeliest rates of which the first is `theta` times the second."""
    a, c = (one.n + other.n) * theta, one.count + other.count
    b = -((one.n + other.count) * theta + one.count + other.n)
    second = (-b - sqrt(max(0.0, b * b - 4 * a * c))) / (2 * a)
    return min(1.0, second * theta), second
