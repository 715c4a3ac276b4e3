"""What a variable of a scenario may become: each trial draws its own."""

from dataclasses import dataclass

from agenteval.core.chance import Chance

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
