"""The least that strata can differ by at each rate, wherever in them the errors are.

What a stratum has lies between two ends: without any of its errors, and with all of them. What all
have adds up to nothing. The sum of squares, each by its slack, is least where all that lie between
their ends have one price.
"""

from collections.abc import Iterator, Sequence
from math import inf

Sums = tuple[int, float, int, float]  # of a stratum: errors, shifts, size, slack


def least_apart(strata: Sequence[Sums], rates: Sequence[float]) -> Iterator[float]:
    """The least that strata can differ by at each of these rates, which fall.

    That is a parabola of the rate until a stratum leaves its upper end, or comes to its lower one.
    """
    still, linear, square, lowest = 0.0, 0.0, 0.0, inf if strata else 0.0
    for rate in rates:
        if rate < lowest:
            still, linear, square, lowest = _parabola(strata, rate)
        yield max(still + rate * (linear + rate * square), 0.0)


def _parabola(strata: Sequence[Sums], rate: float) -> tuple[float, float, float, float]:
    """What strata differ by as the rate falls from here, and the rate down to which this holds."""
    price = _evened([(-shift - rate * size, errors, of) for errors, shift, size, of in strata])
    free, upper, ends = [], [], []
    for stratum in strata:
        errors, shift, size, slack = stratum
        above = price * slack + shift + rate * size
        if 0 < above < errors:
            free.append(stratum)
        else:
            high = errors if above > 0 else 0
            ends.append((high - shift, size, slack))
            upper.extend([stratum] * bool(high))
    still = sum(at * at / slack for at, _, slack in ends)
    linear = -2 * sum(at * size / slack for at, size, slack in ends)
    square = sum(size * size / slack for _, size, slack in ends)
    width = sum(slack for *_, slack in free)
    if not free:
        return still, linear, square, rate
    # The price makes up for what lies at its ends: it is base + slope * rate.
    base = -sum(at for at, _, _ in ends) / width
    slope = sum(size for _, size, _ in ends) / width
    leave = [
        (errors - shift - base * of) / (slope * of + size) for errors, shift, size, of in upper
    ]
    leave += [(-shift - base * of) / (slope * of + size) for _, shift, size, of in free]
    still, linear = still + base * base * width, linear + 2 * base * slope * width
    return still, linear, square + slope * slope * width, max(leave)


def _evened(strata: Sequence[tuple[float, int, float]]) -> float:
    """The price at which what strata have, each between two ends, adds up to nothing."""
    ends = [(low / slack, slack) for low, _, slack in strata]
    ends += [((low + errors) / slack, -slack) for low, errors, slack in strata]
    total, slope, before = sum(low for low, _, _ in strata), 0.0, 0.0
    for at, more in sorted(ends):
        if slope and total + slope * (at - before) >= 0:
            return before - total / slope
        total, slope, before = total + slope * (at - before), slope + more, at
    return before
