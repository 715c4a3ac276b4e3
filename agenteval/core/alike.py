"""Whether two commands do the same thing to the same thing, as their words tell."""

from dataclasses import dataclass, field
from enum import IntEnum
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
    """One thing that a call does. `words` are its object; of what acts on files, their names."""

    name: str
    subcommand: str = ""
    words: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    kind: Kind = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", (self.name, self.subcommand))


def can_meet(one: Kinds, other: Kinds) -> bool:
    """Whether calls of such commands can be of one intent, whatever else they say."""
    return one == other or any(_meeting(*pair) for pair in product(one, other))


def same_command(one: Command, other: Command) -> bool:
    match _meeting(one.kind, other.kind):
        case _Meeting.NEVER:
            return False
        case _Meeting.ALWAYS:
            return True
        case _Meeting.FILE:
            return _same_file(one.words, other.words)
        case _Meeting.OBJECT:
            return _same_object(one, other)
        case _:  # WORD
            return not one.words.isdisjoint(other.words) and _same_object(one, other)


class _Meeting(IntEnum):
    """What it takes for two commands of these names to be of one intent."""

    NEVER = 0
    ALWAYS = 1
    FILE = 2  # the same one
    OBJECT = 3  # the same one
    WORD = 4  # in common at least, and the same object: one name may be the other, misspelt


@lru_cache(maxsize=1 << 14)  # programs are few, and each pair is asked about again and again
def _meeting(one: Kind, other: Kind) -> _Meeting:
    (name, subcommand), (other_name, other_subcommand) = one, other
    if name in OF_FILES or other_name in OF_FILES:
        return _Meeting.FILE if name == other_name else _Meeting.NEVER
    if other_subcommand and other_subcommand == name:
        return _Meeting.ALWAYS
    if subcommand and other_subcommand and subcommand != other_subcommand:
        return _Meeting.NEVER
    if name == other_name:
        return _Meeting.OBJECT
    return _Meeting.WORD if _dice(name, other_name) >= ALIKE else _Meeting.NEVER


def _same_file(ours: frozenset[str], theirs: frozenset[str]) -> bool:
    if not ours or not theirs:
        return ours == theirs
    parts = [[_parts(one) for one in side] for side in (ours, theirs)]
    return any(
        one[-len(other) :] == other or other[-len(one) :] == one for one, other in product(*parts)
    )


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]


def _same_object(one: Command, other: Command) -> bool:
    if not one.words or not other.words:
        return True
    if one.numbers and other.numbers and not one.numbers & other.numbers:
        return False
    shared, shorter = one.words & other.words, min(len(one.words), len(other.words))
    return len(shared) >= SHARED * shorter


def _dice(one: str, other: str) -> float:
    pairs = [{a + b for a, b in pairwise(f"^{name}$")} for name in (one, other)]
    return 2 * len(pairs[0] & pairs[1]) / (len(pairs[0]) + len(pairs[1]))
