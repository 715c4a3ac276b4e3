"""Chance that follows from a key, and what a scenario draws by it: the same on every machine."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TypeVar

Item = TypeVar("Item")

_SEEDS = 2**31  # what every server takes
_STRIDE = 1_000_003


def turn_seed(trial_seed: int, turns: int) -> int:
    """The seed sent with a request after so many turns of its trial.

    With one seed for all of them a server draws the same chance in every turn: a model would make
    one mistake again and again, and look as if it never recovered.
    """
    return (trial_seed + turns * _STRIDE) % _SEEDS


def seed_of_trial(turn_seed: int, turns: int) -> int:
    """The trial's seed again, from what was sent after so many turns."""
    return (turn_seed - turns * _STRIDE) % _SEEDS


class Chance:
    """A stream of draws. Templates of worlds use it as `chance`; every bound is included."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._drawn = 0

    def integer(self, low: int, high: int) -> int:
        """Raises ValueError when `high` is below `low`."""
        if high < low:
            raise ValueError(f"no whole number from {low} to {high}")
        self._drawn += 1
        digest = hashlib.sha256(f"{self._key}/{self._drawn}".encode()).digest()
        return low + int.from_bytes(digest[:8]) % (high - low + 1)

    def number(self, low: float, high: float, digits: int = 2) -> float:
        """A decimal number with so many digits behind the point."""
        scale: int = 10**digits
        return self.integer(round(low * scale), round(high * scale)) / scale

    def choice(self, items: Sequence[Item]) -> Item:
        return items[self.integer(0, len(items) - 1)]

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """`count` different ones, in a drawn order. Raises ValueError when there are too few."""
        left = list(items)
        return [left.pop(self.integer(0, len(left) - 1)) for _ in range(count)]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        return self.sample(items, len(items))

    def day(self, first: str, last: str) -> str:
        """A day between two, all as YYYY-MM-DD."""
        start = date.fromisoformat(first)
        days = self.integer(0, (date.fromisoformat(last) - start).days)
        return (start + timedelta(days=days)).isoformat()


DRAWS = frozenset({"integer", "number", "choice", "sample", "shuffled", "day"})  # for templates


Value = str | int | float | list[str | int]


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number, both ends included."""

    low: int
    high: int

    def drawn(self, chance: Chance) -> Value:
        return chance.integer(self.low, self.high)


@dataclass(frozen=True, slots=True)
class Day:
    """A day as YYYY-MM-DD, both ends included."""

    first: str
    last: str

    def drawn(self, chance: Chance) -> Value:
        return chance.day(self.first, self.last)


@dataclass(frozen=True, slots=True)
class Pick:
    """One of a list; with a `count`, a list of so many different ones."""

    of: tuple[str | int, ...]
    count: int = 0

    def drawn(self, chance: Chance) -> Value:
        return chance.sample(self.of, self.count) if self.count else chance.choice(self.of)


Draw = Whole | Day | Pick
