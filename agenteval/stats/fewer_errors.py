"""A run with some of its errors taken away: what an error more may not undo.

How much errors resemble each other is estimated from the errors, so that one more, in the right
trial, can make them look less alike and a bound narrower. Therefore a run passes only if it would
with any of its errors taken away, and fails if it would with some of them taken away. As a run with
an error more has all that the one without it has, no error can help.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple


class Group(NamedTuple):
    """Errors and calls that belong together, and what the baseline makes us expect.

    `shift` is how many errors more than by the model's own rate; `bears` is whether the baseline
    has errors here, so that the group tells something even without one of ours.
    """

    errors: int
    size: int
    shift: float = 0.0
    bears: bool = False


@dataclass(frozen=True, slots=True)
class Fewer:
    """What is left with `count` errors.

    `spread` is the sum of the squares of what each group has beside what is expected of it.
    `bearing` is how many groups have errors or, where these are fewer, calls without one.
    """

    count: int
    spread: float
    bearing: int


def widest(groups: Sequence[Group]) -> Iterator[Fewer]:
    """Of each number of errors, from none to all: no choice of them lies further apart.

    It is bounded by two sums, each as large as it can be for itself: of what the errors add to the
    squares, if each counted as the last one of its group does, and of sizes that errors stand in.
    With all errors both are what they are.
    """
    spread = _Spread.of(groups)
    added = _sums(groups, lambda group: group.errors - 2 * group.shift)
    sizes = _sums(groups, lambda group: -group.size)
    free = sum(group.errors < group.size or group.bears for group in groups)
    several = zip(added, sizes, _fewest_bearing(groups), strict=True)
    for count, (more, size, bearing) in enumerate(several):
        yield Fewer(count, spread.of_count(count, more, -size), min(bearing, free))


def evenest(groups: Sequence[Group]) -> Iterator[Fewer]:
    """Of each smaller number of errors, down to none: no choice of them lies closer together.

    They are taken away where there are most beside what is expected, down to one level.
    """
    n, errors = _n(groups), sum(group.errors for group in groups)
    bearing = sum(group.errors > 0 or group.bears for group in groups)
    known = sum(group.bears for group in groups)
    for count in reversed(range(errors)):
        rate = count / n
        beside = [group.errors - group.shift - rate * group.size for group in groups]
        spread = _levelled(beside, errors - count)
        yield Fewer(count, spread, min(bearing, known + count))


def _levelled(beside: Sequence[float], away: float) -> float:
    """The sum of squares that is left when so much is taken away from the highest."""
    sums = accumulate(sorted(beside, reverse=True))
    level = max((above - away) / among for among, above in enumerate(sums, 1))
    return sum(min(value, level) ** 2 for value in beside)


@dataclass(frozen=True, slots=True)
class _Spread:
    """What of a sum of squares does not depend on where the errors are."""

    n: int
    squares: float  # of the sizes
    shifts: float  # squared
    leaning: float  # shifts by sizes

    @classmethod
    def of(cls, groups: Sequence[Group]) -> "_Spread":
        return cls(
            _n(groups),
            sum(group.size * group.size for group in groups),
            sum(group.shift * group.shift for group in groups),
            sum(group.shift * group.size for group in groups),
        )

    def of_count(self, count: int, more: float, sizes: float) -> float:
        """`more` is what the errors add to the squares, `sizes` those of the groups they are in."""
        rate = count / self.n
        centred = rate * (rate * self.squares - 2 * (sizes - self.leaning))
        return max(self.shifts + more + centred, 0.0)


def _n(groups: Iterable[Group]) -> int:
    return sum(group.size for group in groups)


def _sums(groups: Iterable[Group], value: Callable[[Group], float]) -> Iterator[float]:
    """The largest sum of one value for each error, for each number of errors."""
    ranked = sorted(((value(group), group.errors) for group in groups), reverse=True)
    each = (worth for worth, errors in ranked for _ in range(errors))
    return accumulate(each, initial=0.0)


def _fewest_bearing(groups: Sequence[Group]) -> Iterator[int]:
    """The fewest groups with errors, the baseline's or ours, for each number of ours."""
    known = sum(group.bears for group in groups)
    yield from [known] * (1 + sum(group.errors for group in groups if group.bears))
    others = sorted((group.errors for group in groups if not group.bears), reverse=True)
    for more, errors in enumerate(others, 1):
        yield from [known + more] * errors
