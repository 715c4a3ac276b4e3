"""The ratio of two rates, with its score interval (Koopman 1984, Miettinen and Nurminen 1985).

Written out because statsmodels, whose interval it is (and which is the oracle in the tests), takes
seconds to import. Clusters come in through what their calls are worth: a rate's `effective` draws.
"""

from dataclasses import dataclass
from math import inf, nan, sqrt

from agenteval.stats.rates import Rate, Z

FARTHEST = 1e9  # a ratio beyond is as good as infinite
_HALVINGS = 100


@dataclass(frozen=True, slots=True)
class Ratio:
    """`value` is infinite when only the second rate is 0, and nan when both are."""

    value: float
    low: float
    high: float


def ratio(one: Rate, other: Rate) -> Ratio:
    """`one` by `other`. A world that both met is not taken into account: the cautious side."""
    if not one.n or not other.n:
        return Ratio(nan, 0.0, inf)
    if not other.count:
        value = inf if one.count else nan
        return Ratio(value, _bound(one, other, 0.0, FARTHEST) if one.count else 0.0, inf)
    value = one.value / other.value
    high = _bound(one, other, FARTHEST, value)
    return Ratio(value, _bound(one, other, 0.0, value) if one.count else 0.0, high)


def _bound(one: Rate, other: Rate, outside: float, inside: float) -> float:
    """The edge of the interval between a ratio outside of it and one inside."""
    for _ in range(_HALVINGS):
        middle = (outside + inside) / 2 if outside * inside == 0 else sqrt(outside * inside)
        if _score(one, other, middle) > Z:
            outside = middle
        else:
            inside = middle
    return inside


def _score(one: Rate, other: Rate, theta: float) -> float:
    """How many standard errors what was seen is away from a ratio of `theta`."""
    n, m = _worth(one), _worth(other)
    x, y = one.value * n, other.value * m
    a, b, c = (n + m) * theta, -(n * theta + x + m + y * theta), x + y
    second = (-b - sqrt(max(0.0, b * b - 4 * a * c))) / (2 * a)
    first = min(1.0, second * theta)
    variance = first * (1 - first) / n + theta * theta * second * (1 - second) / m
    both = max(n + m, 2.0)  # a single cluster may be worth less than a draw
    return abs(one.value - theta * other.value) / sqrt(variance * both / (both - 1))


def _worth(rate: Rate) -> float:
    return rate.n if rate.effective is None else rate.effective
