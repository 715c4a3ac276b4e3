"""Quantiles of distributions, written out here, and of samples.

scipy.special has all of this and is the oracle of the tests, but takes longer to import than
`agenteval gate` may take altogether.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from math import exp, floor, fsum, lgamma, log, log1p

_HALVINGS = 60
_EXACT = 1e-12
_ROUNDED = 4e-16  # of a number
_LARGEST_EXPONENT = 700.0  # beyond 709 its exponential is no number any more


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b), to ten digits; a and b are above 0."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    # The continued fraction converges quickly only below the mean (DLMF 8.17.4).
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    front = _log_gamma_ratio(a, b) + a * log(x) + b * log1p(-x)
    return exp(front) / a * _continued_fraction(a, b, x)


def _log_gamma_ratio(a: float, b: float) -> float:
    """Return minus the logarithm of the beta function B(a, b)."""
    return lgamma(a + b) - lgamma(a) - lgamma(b)


def _continued_fraction(a: float, b: float, x: float) -> float:
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
    quantiles = []
    quantile = 0.0
    for share in shares:
        quantile = _beta_quantile(a, b, share, quantile)
        quantiles.append(quantile)
    return quantiles


def _beta_quantile(
    a: float,
    b: float,
    share: float,
    low: float,
) -> float:
    """Return a quantile above `low`, by Newton's steps, or by halving where one leads outside."""
    if share <= 0:
        return 0.0
    if share >= 1:
        return 1.0
    scale = _log_gamma_ratio(a, b)
    high = 1.0
    x = low or a / (a + b)
    for _ in range(_HALVINGS):
        excess = incomplete_beta(a, b, x) - share
        if excess > 0:
            high = x
        else:
            low = x
        log_density = scale + (a - 1) * log(x) + (b - 1) * log1p(-x)
        step = excess * exp(min(-log_density, _LARGEST_EXPONENT))
        if min(abs(step), high - low) < _EXACT:
            break
        x -= step
        if not low < x < high:
            x = (low + high) / 2
    return x


def t_tail(t: float, df: float) -> float:
    """Return the chance that Student's t with `df` degrees of freedom exceeds `t`."""
    tail = incomplete_beta(df / 2, 0.5, df / (df + t * t)) / 2
    return tail if t > 0 else 1 - tail


@cache
def t_quantile(share: float, df: float) -> float:
    """Return the quantile of Student's t at `share`, which is at least a half and below 1."""
    search = RootSearch(1 - share, 0.0, 1e6)
    while search.is_open:
        search.note(t_tail(search.place, df))
    return search.root


_Point = tuple[float, float]  # a place, and how far above its target a function is there


@dataclass(slots=True)
class RootSearch:
    """The search between `low` and `high` for the place where a falling function has a value.

    While the search `is_open`, its user notes the function's value at `place`.

    Chandrupatla's method (1997): inverse quadratic interpolation through the last three places
    where it can be trusted, and else halving. It is as exact as sixty halvings, or as floating
    point allows.
    """

    target: float
    low: float
    high: float
    _share: float = 0.5  # of the way from low to high
    _smallest: float = 0.0  # the width of sixty halvings
    _tolerance: float = 0.0
    _above: _Point | None = None
    _below: _Point | None = None

    def __post_init__(self) -> None:
        self._smallest = (self.high - self.low) / 2**_HALVINGS

    @property
    def place(self) -> float:
        return self.low + self._share * (self.high - self.low)

    @property
    def is_open(self) -> bool:
        is_wide = self.high - self.low > 2 * self._tolerance
        return is_wide and self.low < self.place < self.high

    @property
    def root(self) -> float:
        return (self.low + self.high) / 2

    def note(self, value: float) -> None:
        """Take the value of the function at `place`, and choose the next place."""
        place = self.place
        newest = (place, value - self.target)
        is_above = newest[1] > 0
        if is_above:
            before, other = self._above, self._below
            self._above = newest
            self.low = place
        else:
            before, other = self._below, self._above
            self._below = newest
            self.high = place
        self._share = 0.5
        self._tolerance = max(self._smallest, _ROUNDED * abs(place))
        width = self.high - self.low
        if before and other and width > 2 * self._tolerance:
            share = _interpolate_inversely(newest, other, before)
            # So that the other end comes near too.
            edge = self._tolerance / width
            self._share = min(max(share if is_above else 1 - share, edge), 1 - edge)


def _interpolate_inversely(newest: _Point, other: _Point, before: _Point) -> float:
    """Return the root of the inverse parabola as a share of the way from newest to other place.

    `before` is the place that the newest replaced: it lies on the same side of the target. A half
    where the parabola is no function between them.
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
    cumulative_counts = list(accumulate(values[value] for value in ordered))

    def quantile(share: float) -> float:
        place = share * (n - 1)
        rank = floor(place)
        low = ordered[bisect_right(cumulative_counts, rank)]
        high = ordered[bisect_right(cumulative_counts, min(rank + 1, n - 1))]
        return low + (place - rank) * (high - low)

    mean = fsum(value * count for value, count in values.items()) / n
    return Samples(n, mean, quantile(0.5), quantile(0.95), ordered[-1])
