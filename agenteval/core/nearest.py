"""The known name that a wrong one may mean, for hints."""

from collections.abc import Iterable
from functools import lru_cache
from operator import add

_ALIKE = 0.5  # Dice's coefficient of the pairs of letters; `listt` and `list` have 0.8


class Names:
    """A set of known names, made ready for questions: a denied call must not wait for its hint."""

    def __init__(self, names: Iterable[str], *, alike: float = _ALIKE) -> None:
        self._alike = alike
        self._known = [(name, len(_pairs(name))) for name in sorted(set(names))]
        self._having: dict[str, list[int]] = {}  # which of them have this pair of letters
        for number, (name, _) in enumerate(self._known):
            for pair in _pairs(name):
                self._having.setdefault(pair, []).append(number)
        self.nearest = lru_cache(maxsize=1024)(self._nearest)  # agents know few programs

    def _nearest(self, word: str) -> str:
        """The known name most like `word`; "" when none is like it at all."""
        pairs = _pairs(word)
        shared: dict[int, int] = {}
        for having in filter(None, map(self._having.get, pairs)):
            for number in having:
                shared[number] = shared.get(number, 0) + 1
        best, nearest = 0.0, ""
        for number in sorted(shared):
            name, size = self._known[number]
            alike = 2 * shared[number] / (len(pairs) + size)
            if alike > best:
                best, nearest = alike, name
        return nearest if best >= self._alike else ""


@lru_cache(maxsize=256)
def names(known: frozenset[str]) -> Names:
    """The same, kept for sets of names that are asked about again and again."""
    return Names(known)


def _pairs(word: str) -> frozenset[str]:
    whole = f"^{word.lower()}$"
    return frozenset(map(add, whole, whole[1:]))
