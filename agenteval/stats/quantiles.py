"""Quantiles of distributions, written out here, and of samples.

scipy.special has all of this and is the oracle of the tests, but takes longer to import than
`agenteval gate` may take altogether.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from math import exp, floor, fsum, lgamma, log, log1p

_HALVINGS = 60
_EXACT = 1e-12
_ROUNDED = 4e-16  # of a number


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


def beta_quantiles(a: float, b: float, shares: Iterable[float]) -> list[float]:
    """Return the quantiles of the beta distribution at these shares, which must rise."""
    found = [0.0]
    for share in shares:
        found.append(_beta_quantile(a, b, share, found[-1]))
    return found[1:]


def _beta_quantile(a: float, b: float, share: float, low: float) -> float:
    """Return a quantile above `low`, by Newton's steps, or by halving where one leads outside."""
    if not 0 < share < 1:
        return float(share >= 1)
    scale, high = lgamma(a + b) - lgamma(a) - lgamma(b), 1.0
    x = low or a / (a + b)
    for _ in range(_HALVINGS):
        beyond = incomplete_beta(a, b, x) - share
        low, high = (low, x) if beyond > 0 else (x, high)
        log_density = scale + (a - 1) * log(x) + (b - 1) * log1p(-x)
        step = beyond * exp(min(-log_density, 700.0))  # beyond 709 it is no number any more
        if min(abs(step), high - low) < _EXACT:
            break
        x = x - step if low < x - step < high else (low + high) / 2
    return x


def t_tail(t: float, df: float) -> float:
    """Return the chance that Student's t with `df` degrees of freedom exceeds `t`."""
    beyond = incomplete_beta(df / 2, 0.5, df / (df + t * t)) / 2
    return beyond if t > 0 else 1 - beyond


@cache
def t_quantile(share: float, df: float) -> float:
    """Return the quantile of Student's t at `share`, which is at least a half and below 1."""
    return falling(lambda t: t_tail(t, df), 1 - share, 0.0, 1e6)


Point = tuple[float, float]  # a place, and how far above its target a function is there


def falling(function: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Return the place between `low` and `high` where a falling function reaches `target`.

    Chandrupatla's method (1997): inverse quadratic interpolation through the last three places
    where it can be trusted, and else halving. It is as exact as sixty halvings, or as floating
    point allows.
    """
    share, least, smallest = 0.5, 0.0, (high - low) / 2**_HALVINGS
    above = below = before = None
    while high - low > 2 * least and low < (x := low + share * (high - low)) < high:
        newest = (x, function(x) - target)
        if newest[1] > 0:
            before, above, low = above, newest, x
        else:
            before, below, high = below, newest, x
        other = below if newest is above else above
        share, least = 0.5, max(smallest, _ROUNDED * abs(x))
        if before and other and high - low > 2 * least:
            share = _backwards(newest, other, before)
            share = share if newest is above else 1 - share
            edge = least / (high - low)  # so that the other end comes near too
            share = min(max(share, edge), 1 - edge)
    return (low + high) / 2


def _backwards(newest: Point, other: Point, before: Point) -> float:
    """Return the root of the inverse parabola as a share of the way from newest to other place.

    `before` is the place that the newest replaced: it lies on the same side of the target.
    """
    (a, at_a), (b, at_b), (c, at_c) = newest, other, before
    place, value = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
    if value * value >= place or (1 - value) ** 2 >= 1 - place:
        return 0.5
    near = at_a / (at_b - at_a) * at_c / (at_b - at_c)
    return near + (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)


@dataclass(frozen=True, slots=True)
class Samples:
    """Statistics of a sample, without an interval: successive values of a server are dependent."""

    n: int
    mean: float
    median: float
    p95: float
    peak: float


def samples(values: Counter[float]) -> Samples | None:
    """Return the statistics of counted values; None if there are none.

    Quantiles are interpolated linearly between values.
    """
    n = values.total()
    if not n:
        return None
    ordered = sorted(values)
    until = list(accumulate(values[one] for one in ordered))

    def quantile(share: float) -> float:
        place = share * (n - 1)
        low, high = (ordered[bisect_right(until, min(floor(place) + at, n - 1))] for at in (0, 1))
        return low + (place - floor(place)) * (high - low)

    mean = fsum(value * count for value, count in values.items()) / n
    return Samples(n, mean, quantile(0.5), quantile(0.95), ordered[-1])
