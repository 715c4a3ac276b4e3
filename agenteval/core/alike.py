"""Tests of whether two commands do the same thing to the same object, by their words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise, product

ALIKE = 0.75  # Dice's coefficient of pairs of letters, from which on a name is another, misspelt
SHARED = 1 / 3  # of the words of the shorter command, from which on its object is the same

READS, WRITES, REMOVES = "(read)", "(write)", "(remove)"
OF_FILES = frozenset({READS, WRITES, REMOVES})
Kind = tuple[str, str]  # of a command: its name and subcommand
Kinds = tuple[Kind, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that a call does. `words` are its object; of what acts on files, their names.

    `ends` are the last parts of these names: files are the same only where one of them is.
    """

    name: str
    subcommand: str = ""
    words: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    kind: Kind = field(init=False, compare=False)
    ends: frozenset[str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", (self.name, self.subcommand))
        files = self.words if self.name in OF_FILES else ()
        ends = frozenset((_parts(file) or [""])[-1] for file in files)
        object.__setattr__(self, "ends", ends)


def _can_meet(one: Kinds, other: Kinds) -> bool:
    """Return True if calls of such commands can share an intent, whatever else they contain."""
    return one == other or any(_test(*pair) is not _never for pair in product(one, other))


class _Met(dict[int, bool]):
    """For one kind, by the number of another kind: True if calls of the two can share an intent."""

    def __init__(self, one: Kinds, kinds: Sequence[Kinds]) -> None:
        super().__init__()
        self._one, self._kinds = one, kinds

    def __missing__(self, other: int) -> bool:
        found = self[other] = _can_meet(self._kinds[other], self._one)
        return found


class Meetings(dict[int, _Met]):
    """The same for every kind, by its number. Kinds are few, pairs of a trial's calls are many."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[Kinds, int] = {}
        self._kinds: list[Kinds] = []

    def number(self, kinds: Kinds) -> int:
        if kinds not in self._numbers:
            self._numbers[kinds] = len(self._kinds)
            self._kinds.append(kinds)
        return self._numbers[kinds]

    def __missing__(self, one: int) -> _Met:
        found = self[one] = _Met(self._kinds[one], self._kinds)
        return found


def same_command(one: Command, other: Command) -> bool:
    return _test(one.kind, other.kind)(one, other)


def _never(_one: Command, _other: Command) -> bool:
    return False


def _always(_one: Command, _other: Command) -> bool:
    return True


def _same_file(mine: Command, other: Command) -> bool:
    if not mine.words or not other.words:
        return mine.words == other.words
    if mine.ends.isdisjoint(other.ends):
        return False
    parts = [[_parts(one) for one in side.words] for side in (mine, other)]
    return any(
        one[-len(other) :] == other or other[-len(one) :] == one for one, other in product(*parts)
    )


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]


def _same_object(first: Command, second: Command) -> bool:
    if not first.words or not second.words:
        return True
    if first.numbers and second.numbers and not first.numbers & second.numbers:
        return False
    shared, shorter = first.words & second.words, min(len(first.words), len(second.words))
    return len(shared) >= SHARED * shorter


def _same_word(one: Command, other: Command) -> bool:
    """Compare commands whose names may be misspellings of each other: they must share a word."""
    return not one.words.isdisjoint(other.words) and _same_object(one, other)


@lru_cache(maxsize=1 << 14)  # programs are few, and each pair is asked about again and again
def _test(one: Kind, other: Kind) -> Callable[[Command, Command], bool]:
    """Return the test of whether two commands of these names share an intent."""
    (name, subcommand), (other_name, other_subcommand) = one, other
    if name in OF_FILES or other_name in OF_FILES:
        return _same_file if name == other_name else _never
    if other_subcommand and other_subcommand == name:
        return _always
    if subcommand and other_subcommand and subcommand != other_subcommand:
        return _never
    if name == other_name:
        return _same_object
    return _same_word if _dice(name, other_name) >= ALIKE else _never


def _dice(one: str, other: str) -> float:
    pairs = [{a + b for a, b in pairwise(f"^{name}$")} for name in (one, other)]
    return 2 * len(pairs[0] & pairs[1]) / (len(pairs[0]) + len(pairs[1]))
