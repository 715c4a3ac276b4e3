"""Many measured values in four numbers: how many, their mean, median and 95th percentile."""

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from math import floor, fsum


@dataclass(frozen=True, slots=True)
class Samples:
    """Without an interval: what follows each other on one server depends on each other."""

    n: int
    mean: float
    median: float
    p95: float


def samples(values: Counter[float]) -> Samples | None:
    """Of values by how often they were seen; None of none. Quantiles are linear between values."""
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
    return Samples(n, mean, quantile(0.5), quantile(0.95))
