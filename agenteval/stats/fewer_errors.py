"""The spread of a run with some of its errors removed: an additional error must never help.

The intraclass correlation is estimated from the errors, so one more error, in the right trial, can
lower the estimate and narrow a bound. Therefore a run passes only if it passes with any of its
errors removed, and fails if it fails with some of them removed. A run with one more error contains
all subsets of the run without it, so no error can help.

Where groups have strata, the differences between strata are no spread. They are subtracted as far
as they must be.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from math import fsum, inf
from operator import sub
from typing import NamedTuple, Self

from agenteval.stats.rates import weight

_STEPS = 30
_LEAST = _EXACT = 1e-9
_NOTHING_OFF = 1e12
_Sums = tuple[int, float, int, float]  # of a stratum: errors, shifts, size, slack


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
    spread = _Spread.of(groups, strata)
    counts = range(sum(group.errors for group in groups), -1, -1)
    squares = []
    sizes = []
    for group in groups:
        times = weight(len(strata[group.stratum]))
        squares.append((times * (group.errors - 2 * group.shift), group.errors))
        sizes.append((-times * group.size, group.errors))
    sums = [*map(_sums, strata.values())] if len(strata) > 1 else []
    not_full = sum(group.errors < group.size or group.bears for group in groups)
    extremes = zip(
        counts,
        _largest_sums(squares),
        _largest_sums(sizes),
        _fewest_bearing(groups),
        _least_between_strata(sums, [count / spread.n for count in counts]),
        strict=True,
    )
    for count, of_squares, of_sizes, bearing, between in extremes:
        largest_spread = spread.of_count(count, of_squares, -of_sizes, between)
        yield Fewer(count, largest_spread, min(bearing, not_full))


def evenest(groups: Sequence[Group]) -> Iterator[Fewer]:
    """Yield a lower bound of the spread for each smaller number of errors, down to none.

    No choice of that many errors has a smaller spread. Errors are removed where most of them exceed
    the expectation, down to one level in each stratum. At all levels one error more or less changes
    the spread by the same amount.
    """
    n = sum(group.size for group in groups)
    errors = sum(group.errors for group in groups)
    bearing = sum(group.errors > 0 or group.bears for group in groups)
    baseline_bearing = sum(group.bears for group in groups)
    strata = [_Ranked.of(stratum) for stratum in _strata(groups).values()]
    price = 0.0
    for count in reversed(range(errors)):
        deviations = [stratum.deviations(count / n) for stratum in strata]
        price, spread = _find_price(deviations, errors - count, price)
        yield Fewer(count, spread, min(bearing, baseline_bearing + count))


def _strata(groups: Iterable[Group]) -> dict[int, list[Group]]:
    by_stratum: defaultdict[int, list[Group]] = defaultdict(list)
    for group in groups:
        by_stratum[group.stratum].append(group)
    return by_stratum


def _sums(stratum: Sequence[Group]) -> _Sums:
    """Return errors, shifts, size and slack of a stratum.

    The square of its sum is divided by the slack before it is subtracted. The slack of a single
    group is so large that nothing is subtracted.
    """
    errors = sum(group.errors for group in stratum)
    shift = sum(group.shift for group in stratum)
    size = sum(group.size for group in stratum)
    return errors, shift, size, len(stratum) - 1 or _NOTHING_OFF


@dataclass(frozen=True, slots=True)
class _Ranked:
    """The groups of a stratum, those with errors ranked by their excess over expectation.

    Equal groups are stored once, with their number: 100,000 groups usually have a few hundred
    distinct ones.
    """

    distinct: list[tuple[float, int, int]]  # errors less the shift, size, groups
    k: int
    total: float
    size: int
    squares: tuple[float, float, float]  # of errors, errors by size, size

    @classmethod
    def of(cls, stratum: Sequence[Group]) -> Self:
        numbers: Counter[tuple[float, int]] = Counter()
        bearing: Counter[tuple[float, int]] = Counter()
        for group in stratum:
            excess_and_size = (group.errors - group.shift, group.size)
            numbers[excess_and_size] += 1
            bearing[excess_and_size] += group.errors > 0
        squares = (
            fsum(number * excess * excess for (excess, _), number in numbers.items()),
            fsum(number * excess * size for (excess, size), number in numbers.items()),
            fsum(number * size * size for (_, size), number in numbers.items()),
        )
        errors, shift, size, _ = _sums(stratum)
        distinct = [(*group, number) for group, number in bearing.items() if number]
        return cls(distinct, len(stratum), errors - shift, size, squares)

    def deviations(self, rate: float) -> "_Deviations":
        # It is sorted in place: from one rate to the next little changes its place.
        self.distinct.sort(key=lambda group: rate * group[1] - group[0])
        highest = [(excess - rate * size, number) for excess, size, number in self.distinct]
        of_excess, of_both, of_sizes = self.squares
        squares = of_excess + rate * (rate * of_sizes - 2 * of_both)
        return _Deviations(highest, self.total - rate * self.size, squares, self.k)


@dataclass(frozen=True, slots=True)
class _Deviations:
    """The deviations of a stratum's groups from expectation; `highest` of those with errors."""

    highest: Sequence[tuple[float, int]]  # and in how many groups
    total: float
    squares: float
    k: int

    def cut(self, price: float) -> tuple[float, float, float]:
        """Remove errors wherever one error less reduces the spread by at least twice this price.

        Return the amount removed, how much more it would be at a price lower by 1, and the
        remaining spread.
        """
        times = weight(self.k)
        above = price / times
        removed = 0.0
        squares = self.squares
        levelled = 0
        level = self._level(above, removed, levelled)
        for deviation, number in self.highest:
            if level >= deviation:
                break
            removed += number * deviation
            squares -= number * deviation * deviation
            levelled += number
            level = self._level(above, removed, levelled)
        squares += levelled * level * level
        amount = removed - levelled * level
        if self.k == 1:
            return amount, levelled, squares
        left = self.total - removed + levelled * level
        slope = levelled * self.k / (self.k - levelled) / times
        spread = times * max(squares - left * left / self.k, 0.0)
        return amount, slope, spread

    def _level(self, above: float, removed: float, levelled: int) -> float:
        """Return the level `above` the remaining mean, or above 0 where there is one value."""
        if self.k == 1:
            return above
        return (self.total - removed + self.k * above) / (self.k - levelled)


def _find_price(strata: Sequence[_Deviations], away: int, price: float) -> tuple[float, float]:
    """Return the price that removes `away` errors, by Newton's steps, and the least spread left.

    The price is a Lagrange multiplier: at any price the returned spread is a lower bound of the
    least one.
    """
    steps = 0
    while True:
        paid = max(price, _LEAST)
        cuts = [stratum.cut(paid) for stratum in strata]
        amount, slope, spread = map(sum, zip(*cuts, strict=True))
        excess = amount - away
        steps += 1
        is_reached = abs(excess) < _EXACT or (price <= _LEAST and excess < 0)
        if is_reached or steps > _STEPS:
            break
        price = price + excess / slope if slope else 0.0
    return max(price, 0.0), max(spread + 2 * paid * excess, 0.0)


@dataclass(frozen=True, slots=True)
class _Spread:
    """The parts of the spread that do not depend on the groups in which the errors are."""

    n: int
    squares: float  # of the sizes
    shifts: float  # squared
    products: float  # of shifts and sizes

    @classmethod
    def of(cls, groups: Sequence[Group], strata: dict[int, list[Group]]) -> Self:
        squares = shifts = products = 0.0
        for group in groups:
            times = weight(len(strata[group.stratum]))
            squares += times * group.size * group.size
            shifts += times * group.shift * group.shift
            products += times * group.shift * group.size
        return cls(sum(group.size for group in groups), squares, shifts, products)

    def of_count(
        self,
        count: int,
        errors: float,
        sizes: float,
        between: float,
    ) -> float:
        """Return the spread with `count` errors.

        `errors` is the contribution of the errors to the squares, `sizes` are the summed sizes of
        their groups, and `between` is the sum of squares between strata.
        """
        rate = count / self.n
        of_sizes = rate * (rate * self.squares - 2 * (sizes - self.products))
        return max(self.shifts + errors + of_sizes - between, 0.0)


def _largest_sums(values: Iterable[tuple[float, int]]) -> Iterator[float]:
    """Yield the largest sum of one value per error, for each number of errors, from all down."""
    ranked = sorted(values)
    worths = chain.from_iterable(repeat(worth, errors) for worth, errors in ranked)
    whole = sum(worth * errors for worth, errors in ranked)
    return accumulate(worths, sub, initial=whole)


def _fewest_bearing(groups: Sequence[Group]) -> Iterator[int]:
    """Yield the fewest groups with errors of either side, for each number of candidate errors."""
    baseline_bearing = sum(group.bears for group in groups)
    others = sorted(group.errors for group in groups if group.errors and not group.bears)
    # The groups with the fewest errors lose theirs first.
    for left, errors in zip(range(len(others), 0, -1), others, strict=True):
        yield from repeat(baseline_bearing + left, errors)
    errors_with_baseline = sum(group.errors for group in groups if group.bears)
    yield from repeat(baseline_bearing, 1 + errors_with_baseline)


def _least_between_strata(strata: Sequence[_Sums], rates: Sequence[float]) -> Iterator[float]:
    """Yield the least sum of squares between strata at each of these rates, which fall.

    The deviation of a stratum lies between two ends: without any of its errors, and with all of
    them. The deviations of all strata add up to 0. The sum of squares, each divided by its slack,
    is least where all strata between their ends have one price. That is a parabola of the rate
    until a stratum leaves its upper end or reaches its lower one.
    """
    constant = linear = square = 0.0
    lowest = inf if strata else 0.0
    for rate in rates:
        if rate < lowest:
            constant, linear, square, lowest = _parabola(strata, rate)
        yield max(constant + rate * (linear + rate * square), 0.0)


def _parabola(strata: Sequence[_Sums], rate: float) -> tuple[float, float, float, float]:
    """Return the least sum of squares between strata as a parabola of the falling rate.

    The values are its constant, linear and square coefficients, and the rate down to which they
    hold.
    """
    price = _even_price(
        [(-shift - rate * size, errors, slack) for errors, shift, size, slack in strata]
    )
    free = []
    upper = []
    ends = []
    for errors, shift, size, slack in strata:
        above_low = price * slack + shift + rate * size
        if 0 < above_low < errors:
            free.append((errors, shift, size, slack))
            continue
        high = errors if above_low > 0 else 0
        ends.append((high - shift, size, slack))
        if high:
            upper.append((errors, shift, size, slack))
    constant = sum(end * end / slack for end, _, slack in ends)
    linear = -2 * sum(end * size / slack for end, size, slack in ends)
    square = sum(size * size / slack for _, size, slack in ends)
    if not free:
        return constant, linear, square, rate
    width = sum(slack for *_, slack in free)
    # The price makes up for what lies at its ends: it is base + slope * rate.
    base = -sum(end for end, _, _ in ends) / width
    slope = sum(size for _, size, _ in ends) / width
    constant += base * base * width
    linear += 2 * base * slope * width
    square += slope * slope * width
    leave = []
    for errors, shift, size, slack in upper:
        leave.append((errors - shift - base * slack) / (slope * slack + size))
    for _, shift, size, slack in free:
        leave.append((-shift - base * slack) / (slope * slack + size))
    return constant, linear, square, max(leave)


def _even_price(strata: Sequence[tuple[float, int, float]]) -> float:
    """Return the price at which the strata's deviations, each between two ends, add up to 0."""
    # A stratum's deviation rises with the price from its lower end to its upper one.
    ends = []
    for low, errors, slack in strata:
        ends.append((low / slack, slack))
        ends.append(((low + errors) / slack, -slack))
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
