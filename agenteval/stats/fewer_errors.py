"""The spread of a run with some of its errors removed: an additional error must never help.

The intraclass correlation is estimated from the errors, so one more error, in the right trial, can
lower the estimate and narrow a bound. Therefore a run passes only if it passes with any of its
errors removed, and fails if it fails with some of them removed. A run with one more error contains
all subsets of the run without it, so no error can help.

Where groups have strata, the differences between strata are no spread. They are subtracted as far
as they must be.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from math import fsum, inf
from operator import sub
from typing import NamedTuple, Self

from agenteval.stats.rates import weight

_STEPS = 30
_LEAST = _EXACT = 1e-9
_NOTHING_OFF = 1e12
Sums = tuple[int, float, int, float]  # of a stratum: errors, shifts, size, slack


class Group(NamedTuple):
    """Errors and calls that belong together, and the errors expected from the baseline.

    `shift` is the number of errors expected in addition to those at the model's own rate. `bears`
    is set if the baseline has errors here: the group then counts even without errors of its own.
    """

    errors: int
    size: int
    shift: float = 0.0
    bears: bool = False
    stratum: int = 0


@dataclass(frozen=True, slots=True)
class Fewer:
    """The spread of the run after removing errors down to `count`.

    `spread` is the variance of the sum of the groups' deviations from expectation, from how they
    vary within their strata (the only group of a stratum varies around 0). `bearing` is the number
    of groups with errors or, where these are fewer, with calls without an error.
    """

    count: int
    spread: float
    bearing: int


def widest(groups: Sequence[Group]) -> Iterator[Fewer]:
    """Yield an upper bound of the spread for each number of errors, from all to none.

    No choice of that many errors has a larger spread. Three sums bound it, each at its own extreme:
    the contributions of errors to the squares, if each counted as the last one of its group does;
    the sizes of the groups with errors; and the differences between strata. With all errors it is
    exact.
    """
    strata = _strata(groups)
    weights = {group: weight(len(strata[group.stratum])) for group in groups}
    spread = _Spread.of(groups, strata)
    counts = range(sum(group.errors for group in groups), -1, -1)
    squares = []
    sizes = []
    for group in groups:
        of_group = weights[group]
        squares.append((of_group * (group.errors - 2 * group.shift), group.errors))
        sizes.append((-of_group * group.size, group.errors))
    free = sum(group.errors < group.size or group.bears for group in groups)
    extremes = zip(
        counts,
        _lessened(squares),
        _lessened(sizes),
        _fewest_bearing(groups),
        _least_between_strata(spread.strata, [count / spread.n for count in counts]),
        strict=True,
    )
    for count, more, size, bearing, between in extremes:
        largest_spread = spread.of_count(count, more, -size, between)
        yield Fewer(count, largest_spread, min(bearing, free))


def evenest(groups: Sequence[Group]) -> Iterator[Fewer]:
    """Yield a lower bound of the spread for each smaller number of errors, down to none.

    No choice of that many errors has a smaller spread. Errors are removed where most of them exceed
    the expectation, down to one level in each stratum. At all levels one error more or less changes
    the spread by the same amount.
    """
    n = _n(groups)
    errors = sum(group.errors for group in groups)
    bearing = sum(group.errors > 0 or group.bears for group in groups)
    baseline_bearing = sum(group.bears for group in groups)
    strata = [_Ranked.of(stratum) for stratum in _strata(groups).values()]
    price = 0.0
    for count in reversed(range(errors)):
        deviations = [stratum.deviations(count / n) for stratum in strata]
        price, spread = _levelled(deviations, errors - count, price)
        yield Fewer(count, spread, min(bearing, baseline_bearing + count))


def _n(groups: Iterable[Group]) -> int:
    return sum(group.size for group in groups)


def _strata(groups: Iterable[Group]) -> dict[int, list[Group]]:
    by_stratum: defaultdict[int, list[Group]] = defaultdict(list)
    for group in groups:
        by_stratum[group.stratum].append(group)
    return by_stratum


def _sums(stratum: Sequence[Group]) -> Sums:
    """Return errors, shifts, size and slack of a stratum.

    The square of its sum is divided by the slack before it is subtracted. The slack of a single
    group is so large that nothing is subtracted.
    """
    errors = sum(group.errors for group in stratum)
    shift = sum(group.shift for group in stratum)
    return errors, shift, _n(stratum), len(stratum) - 1 or _NOTHING_OFF


@dataclass(frozen=True, slots=True)
class _Ranked:
    """The groups of a stratum, those with errors ranked by their excess over expectation.

    Equal groups are stored once, with their number: of a hundred thousand a few hundred differ.
    """

    distinct: list[tuple[float, int, int]]  # errors less the shift, size, groups
    k: int
    weight: float
    total: float
    size: int
    squares: tuple[float, float, float]  # of errors, errors by size, size

    @classmethod
    def of(cls, stratum: Sequence[Group]) -> Self:
        groups = Counter((one.errors - one.shift, one.size) for one in stratum)
        bearing = Counter((one.errors - one.shift, one.size) for one in stratum if one.errors)
        squares = (
            fsum(number * excess * excess for (excess, _), number in groups.items()),
            fsum(number * excess * size for (excess, size), number in groups.items()),
            fsum(number * size * size for (_, size), number in groups.items()),
        )
        errors, shift, size, _ = _sums(stratum)
        distinct = [(*group, number) for group, number in bearing.items()]
        k = len(stratum)
        return cls(distinct, k, weight(k), errors - shift, size, squares)

    def deviations(self, rate: float) -> "_Deviations":
        # It is sorted in place: from one rate to the next little changes its place.
        self.distinct.sort(key=lambda group: rate * group[1] - group[0])
        highest = [(excess - rate * size, number) for excess, size, number in self.distinct]
        excess, both, sizes = self.squares
        squares = excess + rate * (rate * sizes - 2 * both)
        return _Deviations(highest, self.total - rate * self.size, squares, self.k, self.weight)


@dataclass(frozen=True, slots=True)
class _Deviations:
    """The deviations of a stratum's groups from expectation; `highest` of those with errors."""

    highest: Sequence[tuple[float, int]]  # and in how many groups
    total: float
    squares: float
    k: int
    weight: float

    def cut(self, price: float) -> tuple[float, float, float]:
        """Remove errors wherever one error less reduces the spread by at least twice this price.

        Return the amount removed, how much more it would be at a price lower by 1, and the
        remaining spread.
        """
        above = price / self.weight
        gone = 0.0
        squares = self.squares
        cut = 0
        level = self._level(above, gone, cut)
        for value, number in self.highest:
            if level >= value:
                break
            gone += number * value
            squares -= number * value * value
            cut += number
            level = self._level(above, gone, cut)
        squares += cut * level * level
        if self.k == 1:
            return gone - cut * level, cut, squares
        left = self.total - gone + cut * level
        slope = cut * self.k / (self.k - cut) / self.weight
        return gone - cut * level, slope, self.weight * max(squares - left * left / self.k, 0.0)

    def _level(self, above: float, gone: float, cut: int) -> float:
        """Return the level `above` the remaining mean, or above 0 where there is one value."""
        if self.k == 1:
            return above
        return (self.total - gone + self.k * above) / (self.k - cut)


def _levelled(strata: Sequence[_Deviations], away: int, price: float) -> tuple[float, float]:
    """Return the price that removes `away` errors, by Newton's steps, and the least spread left.

    The price is a Lagrange multiplier: at any price the returned spread is a lower bound of the
    least one.
    """
    steps = 0
    while True:
        cuts = [stratum.cut(max(price, _LEAST)) for stratum in strata]
        gone, slope, spread = map(sum, zip(*cuts, strict=True))
        beyond = gone - away
        steps += 1
        if abs(beyond) < _EXACT or (price <= _LEAST and beyond < 0) or steps > _STEPS:
            break
        price = price + beyond / slope if slope else 0.0
    return max(price, 0.0), max(spread + 2 * max(price, _LEAST) * beyond, 0.0)


@dataclass(frozen=True, slots=True)
class _Spread:
    """The parts of the spread that do not depend on the groups in which the errors are."""

    n: int
    squares: float  # of the sizes
    shifts: float  # squared
    leaning: float  # shifts by sizes
    strata: Sequence[Sums]

    @classmethod
    def of(cls, groups: Sequence[Group], strata: Mapping[int, Sequence[Group]]) -> Self:
        squares: float = 0
        shifts: float = 0
        leaning: float = 0
        for group in groups:
            of_stratum = weight(len(strata[group.stratum]))
            squares += of_stratum * group.size * group.size
            shifts += of_stratum * group.shift * group.shift
            leaning += of_stratum * group.shift * group.size
        sums = [*map(_sums, strata.values())] if len(strata) > 1 else ()
        return cls(_n(groups), squares, shifts, leaning, sums)

    def of_count(self, count: int, more: float, sizes: float, between: float) -> float:
        """Return the spread with `count` errors.

        `more` is the contribution of the errors to the squares, `sizes` are the summed sizes of
        their groups, and `between` is the sum of squares between strata.
        """
        rate = count / self.n
        centred = rate * (rate * self.squares - 2 * (sizes - self.leaning))
        return max(self.shifts + more + centred - between, 0.0)


def _lessened(values: Iterable[tuple[float, int]]) -> Iterator[float]:
    """Yield the largest sum of one value per error, for each number of errors, from all down."""
    ranked = sorted(values)
    worths = chain.from_iterable(repeat(worth, errors) for worth, errors in ranked)
    whole = sum(worth * errors for worth, errors in ranked)
    return accumulate(worths, sub, initial=whole)


def _fewest_bearing(groups: Sequence[Group]) -> Iterator[int]:
    """Yield the fewest groups with errors of either side, for each number of candidate errors."""
    baseline_bearing = sum(group.bears for group in groups)
    others = sorted(group.errors for group in groups if group.errors and not group.bears)
    for more, errors in zip(range(len(others), 0, -1), others, strict=True):
        yield from [baseline_bearing + more] * errors
    yield from [baseline_bearing] * (1 + sum(group.errors for group in groups if group.bears))


def _least_between_strata(strata: Sequence[Sums], rates: Sequence[float]) -> Iterator[float]:
    """Yield the least sum of squares between strata at each of these rates, which fall.

    The deviation of a stratum lies between two ends: without any of its errors, and with all of
    them. The deviations of all strata add up to 0. The sum of squares, each divided by its slack,
    is least where all strata between their ends have one price. That is a parabola of the rate
    until a stratum leaves its upper end or reaches its lower one.
    """
    still = linear = square = 0.0
    lowest = inf if strata else 0.0
    for rate in rates:
        if rate < lowest:
            still, linear, square, lowest = _parabola(strata, rate)
        yield max(still + rate * (linear + rate * square), 0.0)


def _parabola(strata: Sequence[Sums], rate: float) -> tuple[float, float, float, float]:
    """Return the least sum of squares between strata as a parabola of the falling rate.

    The values are its constant, linear and square coefficients, and the rate down to which they
    hold.
    """
    lows = [(-shift - rate * size, errors, slack) for errors, shift, size, slack in strata]
    price = _evened(lows)
    free = []
    upper = []
    ends = []
    for stratum in strata:
        errors, shift, size, slack = stratum
        above = price * slack + shift + rate * size
        if 0 < above < errors:
            free.append(stratum)
        else:
            high = errors if above > 0 else 0
            ends.append((high - shift, size, slack))
            if high:
                upper.append(stratum)
    still = sum(at * at / slack for at, _, slack in ends)
    linear = -2 * sum(at * size / slack for at, size, slack in ends)
    square = sum(size * size / slack for _, size, slack in ends)
    width = sum(slack for *_, slack in free)
    if not free:
        return still, linear, square, rate
    # The price makes up for what lies at its ends: it is base + slope * rate.
    base = -sum(at for at, _, _ in ends) / width
    slope = sum(size for _, size, _ in ends) / width
    leave = []
    for errors, shift, size, slack in upper:
        leave.append((errors - shift - base * slack) / (slope * slack + size))
    for _, shift, size, slack in free:
        leave.append((-shift - base * slack) / (slope * slack + size))
    still += base * base * width
    linear += 2 * base * slope * width
    square += slope * slope * width
    return still, linear, square, max(leave)


def _evened(strata: Sequence[tuple[float, int, float]]) -> float:
    """Return the price at which the strata's deviations, each between two ends, add up to 0."""
    ends = [(low / slack, slack) for low, _, slack in strata]
    ends += [((low + errors) / slack, -slack) for low, errors, slack in strata]
    deviation = sum(low for low, _, _ in strata)
    slope = 0.0
    before = 0.0
    for price, more in sorted(ends):
        after = deviation + slope * (price - before)
        if slope and after >= 0:
            return before - deviation / slope
        deviation = after
        slope += more
        before = price
    return before
