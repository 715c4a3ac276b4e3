"""A run with some of its errors taken away: what an error more may not undo.

How much errors resemble each other is estimated from the errors, so that one more, in the right
trial, can make them look less alike and a bound narrower. Therefore a run passes only if it would
with any of its errors taken away, and fails if it would with some of them taken away. As a run with
an error more has all that the one without it has, no error can help.

Where groups have strata, what these differ by is no spread: it is taken off as far as it must be.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from math import fsum, inf
from operator import sub
from typing import NamedTuple, Self

from agenteval.stats.cluster_variance import weight

_STEPS = 30
_LEAST = _EXACT = 1e-9
_NOTHING_OFF = 1e12

Sums = tuple[int, float, int, float]  # of a stratum: errors, shifts, size, slack


class Group(NamedTuple):
    """Errors and calls that belong together, and what the baseline makes us expect.

    `shift` is how many errors more than by the model's own rate; `bears` is whether the baseline
    has errors here, so that the group tells something even without one of ours.
    """

    errors: int
    size: int
    shift: float = 0.0
    bears: bool = False
    stratum: int = 0


@dataclass(frozen=True, slots=True)
class Fewer:
    """What is left with `count` errors.

    `spread` is the variance of the sum of what groups have beside what is expected of them, from
    how they vary in their strata (the only one of a stratum varies around 0). `bearing` is how many
    groups have errors or, where these are fewer, calls without one.
    """

    count: int
    spread: float
    bearing: int


def widest(groups: Sequence[Group]) -> Iterator[Fewer]:
    """Of each number of errors, from all to none: no choice of them lies further apart.

    It is bounded by three sums, each as far off as it can be for itself: of what the errors add to
    the squares, if each counted as the last one of its group does; of sizes that errors stand in;
    and of what strata differ by. With all errors they are what they are.
    """
    strata = _strata(groups)
    weights = {group: weight(len(strata[group.stratum])) for group in groups}
    errors, spread = sum(group.errors for group in groups), _Spread.of(groups, strata)
    added = _lessened((weights[one] * (one.errors - 2 * one.shift), one.errors) for one in groups)
    sizes = _lessened((-weights[one] * one.size, one.errors) for one in groups)
    free = sum(group.errors < group.size or group.bears for group in groups)
    several = zip(added, sizes, _fewest_bearing(groups), strict=True)
    apart = least_apart(spread.strata, [count / spread.n for count in range(errors, -1, -1)])
    for away, ((more, size, bearing), least) in enumerate(zip(several, apart, strict=True)):
        found = spread.of_count(errors - away, more, -size, least)
        yield Fewer(errors - away, found, min(bearing, free))


def evenest(groups: Sequence[Group]) -> Iterator[Fewer]:
    """Of each smaller number of errors, down to none: no choice of them lies closer together.

    They are taken away where there are most beside what is expected, down to one level in each
    stratum: at all levels one error more or less changes the spread by as much.
    """
    n, errors = _n(groups), sum(group.errors for group in groups)
    bearing = sum(group.errors > 0 or group.bears for group in groups)
    known, price = sum(group.bears for group in groups), 0.0
    strata = [_Ranked.of(one) for one in _strata(groups).values()]
    for count in reversed(range(errors)):
        price, spread = _levelled([one.beside(count / n) for one in strata], errors - count, price)
        yield Fewer(count, spread, min(bearing, known + count))


def _n(groups: Iterable[Group]) -> int:
    return sum(group.size for group in groups)


def _strata(groups: Iterable[Group]) -> dict[int, list[Group]]:
    found: defaultdict[int, list[Group]] = defaultdict(list)
    for group in groups:
        found[group.stratum].append(group)
    return found


def _sums(stratum: Sequence[Group]) -> Sums:
    """Errors, shifts, size, and by what the square of its sum is divided to be taken off.

    Nothing is taken off where there is one group alone.
    """
    errors, shift = (sum(one[at] for one in stratum) for at in (0, 2))
    return int(errors), shift, _n(stratum), len(stratum) - 1 or _NOTHING_OFF


@dataclass(frozen=True, slots=True)
class _Ranked:
    """The groups of a stratum, those with errors as they lie above what is expected.

    Groups that are alike are one, with their number: of a hundred thousand a few hundred differ.
    """

    alike: list[tuple[float, int, int]]  # errors less the shift, size, groups
    k: int
    weight: float
    total: float
    size: int
    squares: tuple[float, float, float]  # of errors, errors by size, size

    @classmethod
    def of(cls, stratum: Sequence[Group]) -> Self:
        every = Counter((one.errors - one.shift, one.size) for one in stratum)
        bears = Counter((one.errors - one.shift, one.size) for one in stratum if one.errors)
        squares = (
            fsum(many * found * found for (found, _), many in every.items()),
            fsum(many * found * size for (found, size), many in every.items()),
            fsum(many * size * size for (_, size), many in every.items()),
        )
        errors, shift, size, _ = _sums(stratum)
        alike, k = [(*one, many) for one, many in bears.items()], len(stratum)
        return cls(alike, k, weight(k), errors - shift, size, squares)

    def beside(self, rate: float) -> "_Beside":
        self.alike.sort(key=lambda one: rate * one[1] - one[0])  # little changes its place
        highest = [(found - rate * size, many) for found, size, many in self.alike]
        found, both, sizes = self.squares
        squares = found + rate * (rate * sizes - 2 * both)
        return _Beside(highest, self.total - rate * self.size, squares, self.k, self.weight)


@dataclass(frozen=True, slots=True)
class _Beside:
    """What the groups of a stratum have beside what is expected: `highest` of those with errors."""

    highest: Sequence[tuple[float, int]]  # and in how many groups
    total: float
    squares: float
    k: int
    weight: float

    def cut(self, price: float) -> tuple[float, float, float]:
        """What goes if errors are taken away wherever that lessens the spread by this price, twice.

        How much, how much more of it at a price that is lower by 1, and the spread that is left.
        """
        above, gone, squares, cut = price / self.weight, 0.0, self.squares, 0
        level = self._level(above, gone, cut)
        for value, many in self.highest:
            if level >= value:
                break
            gone, squares, cut = gone + many * value, squares - many * value * value, cut + many
            level = self._level(above, gone, cut)
        squares += cut * level * level
        if self.k == 1:
            return gone - cut * level, cut, squares
        left = self.total - gone + cut * level
        slope = cut * self.k / (self.k - cut) / self.weight
        return gone - cut * level, slope, self.weight * max(squares - left * left / self.k, 0.0)

    def _level(self, above: float, gone: float, cut: int) -> float:
        """So far above the mean that is left, or above 0 where there is one value."""
        if self.k == 1:
            return above
        return (self.total - gone + self.k * above) / (self.k - cut)


def _levelled(strata: Sequence[_Beside], away: int, price: float) -> tuple[float, float]:
    """The price at which so much goes, by Newton's steps, and the least spread that is left.

    Lagrange's multiplier: at any price the spread that is told is at most the least there is.
    """
    steps = 0
    while True:
        cuts = [one.cut(max(price, _LEAST)) for one in strata]
        gone, slope, spread = map(sum, zip(*cuts, strict=True))
        beyond, steps = gone - away, steps + 1
        if abs(beyond) < _EXACT or (price <= _LEAST and beyond < 0) or steps > _STEPS:
            break
        price = price + beyond / slope if slope else 0.0
    return max(price, 0.0), max(spread + 2 * max(price, _LEAST) * beyond, 0.0)


@dataclass(frozen=True, slots=True)
class _Spread:
    """What of the spread does not depend on where in its stratum an error is."""

    n: int
    squares: float  # of the sizes
    shifts: float  # squared
    leaning: float  # shifts by sizes
    strata: Sequence[Sums]

    @classmethod
    def of(cls, groups: Sequence[Group], strata: Mapping[int, Sequence[Group]]) -> Self:
        times = {name: weight(len(of)) for name, of in strata.items()}
        weighed = [(times[group.stratum], group) for group in groups]
        return cls(
            _n(groups),
            sum([by * one.size * one.size for by, one in weighed]),
            sum([by * one.shift * one.shift for by, one in weighed]),
            sum([by * one.shift * one.size for by, one in weighed]),
            [*map(_sums, strata.values())] if len(strata) > 1 else (),
        )

    def of_count(self, count: int, more: float, sizes: float, apart: float) -> float:
        """`more` is what the errors add to the squares, `sizes` those of the groups they are in."""
        rate = count / self.n
        centred = rate * (rate * self.squares - 2 * (sizes - self.leaning))
        return max(self.shifts + more + centred - apart, 0.0)


def _lessened(values: Iterable[tuple[float, int]]) -> Iterator[float]:
    """The largest sum of one value for each error, for each number of errors, from all down."""
    ranked = sorted(values)
    each = chain.from_iterable(repeat(worth, errors) for worth, errors in ranked)
    whole = sum(worth * errors for worth, errors in ranked)
    return accumulate(each, sub, initial=whole)


def _fewest_bearing(groups: Sequence[Group]) -> Iterator[int]:
    """The fewest groups with errors, the baseline's or ours, for each number of ours."""
    known = sum(group.bears for group in groups)
    others = sorted(group.errors for group in groups if group.errors and not group.bears)
    for more, errors in zip(range(len(others), 0, -1), others, strict=True):
        yield from [known + more] * errors
    yield from [known] * (1 + sum(group.errors for group in groups if group.bears))


def least_apart(strata: Sequence[Sums], rates: Sequence[float]) -> Iterator[float]:
    """The least that strata can differ by at each of these rates, which fall.

    What a stratum has lies between two ends: without any of its errors, and with all of them. What
    all have adds up to nothing. The sum of squares, each by its slack, is least where all that lie
    between their ends have one price. That is a parabola of the rate until a stratum leaves its
    upper end, or comes to its lower one.
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
