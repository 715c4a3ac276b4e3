"""Tails and quantiles of the binomial and of Student's t, through the incomplete beta function.

scipy.special has all of this, and is the oracle of the tests; but it takes longer to import than
`agenteval gate` may take altogether.
"""

from collections.abc import Callable
from functools import cache
from math import exp, lgamma, log, log1p

_HALVINGS = 60


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b), to ten digits; a and b are above 0."""
    if x <= 0 or x >= 1:
        return float(x > 0)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    front = lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)
    return exp(front) / a * _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of I_x(a, b) by Lentz's method (DLMF 8.17.22 and 3.10.7)."""
    above, below = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value, change, m = below, 0.0, 0
    while abs(change - 1) > 1e-13:
        m += 1
        change = 1.0
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            below, above = 1 / (1 + term * below), 1 + term / above
            change *= above * below
        value *= change
    return value


def t_tail(t: float, df: float) -> float:
    """The chance that Student's t with so many degrees of freedom is above `t`."""
    beyond = incomplete_beta(df / 2, 0.5, df / (df + t * t)) / 2
    return beyond if t > 0 else 1 - beyond


@cache
def t_quantile(share: float, df: float) -> float:
    """What Student's t stays below with chance `share`, from a half to all but certain."""
    return falling(lambda t: t_tail(t, df), 1 - share, 0.0, 1e6)


def falling(function: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Where a function that falls from `low` to `high` comes down to `target`."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if function(middle) > target:
            low = middle
        else:
            high = middle
    return (low + high) / 2
