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
    above = 1.0
    below = 1 / (1 - (a + b) * x / (a + 1))
    value = below
    change = 0.0
    m = 0
    while abs(change - 1) > 1e-13:
        m += 1
        change = 1.0
        even_term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd_term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even_term, odd_term):
            below = 1 / (1 + term * below)
            above = 1 + term / above
            change *= above * below
        value *= change
    return value


def beta_quantiles(a: float, b: float, shares: Iterable[float]) -> list[float]:
    """Return the quantiles of the beta distribution at these shares, which must rise."""
    quantiles = [0.0]
    for share in shares:
        quantiles.append(_beta_quantile(a, b, share, quantiles[-1]))
    return quantiles[1:]


def _beta_quantile(a: float, b: float, share: float, low: float) -> float:
    """Return a quantile above `low`, by Newton's steps, or by halving where one leads outside."""
    if not 0 < share < 1:
        return float(share >= 1)
    scale = lgamma(a + b) - lgamma(a) - lgamma(b)
    high = 1.0
    x = low or a / (a + b)
    for _ in range(_HALVINGS):
        beyond = incomplete_beta(a, b, x) - share
        if beyond > 0:
            high = x
        else:
            low = x
        log_density = scale + (a - 1) * log(x) + (b - 1) * log1p(-x)
        # Beyond 709 its exponential is no number any more.
        step = beyond * exp(min(-log_density, 700.0))
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
    share = 0.5
    least = 0.0
    smallest = (high - low) / 2**_HALVINGS
    above: Point | None = None
    below: Point | None = None
    while high - low > 2 * least:
        x = low + share * (high - low)
        if not low < x < high:
            break
        newest = (x, function(x) - target)
        is_above = newest[1] > 0
        if is_above:
            before, other = above, below
            above, low = newest, x
        else:
            before, other = below, above
            below, high = newest, x
        share = 0.5
        least = max(smallest, _ROUNDED * abs(x))
        if before and other and high - low > 2 * least:
            share = _backwards(newest, other, before)
            share = share if is_above else 1 - share
            # So that the other end comes near too.
            edge = least / (high - low)
            share = min(max(share, edge), 1 - edge)
    return (low + high) / 2


def _backwards(newest: Point, other: Point, before: Point) -> float:
    """Return the root of the inverse parabola as a share of the way from newest to other place.

    `before` is the place that the newest replaced: it lies on the same side of the target.
    """
    a, at_a = newest
    b, at_b = other
    c, at_c = before
    place = (a - b) / (c - b)
    value = (at_a - at_b) / (at_c - at_b)
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
    until = list(accumulate(values[value] for value in ordered))

    def ranked(rank: int) -> float:
        return ordered[bisect_right(until, min(rank, n - 1))]

    def quantile(share: float) -> float:
        place = share * (n - 1)
        low = ranked(floor(place))
        high = ranked(floor(place) + 1)
        return low + (place - floor(place)) * (high - low)

    mean = fsum(value * count for value, count in values.items()) / n
    return Samples(n, mean, quantile(0.5), quantile(0.95), ordered[-1])
