"""The known name that a wrong one may mean, for hints."""

from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

_ALIKE = 0.5  # Dice's coefficient of the pairs of letters; `listt` and `list` have 0.8


class Names:
    """A set of known names, made ready for questions: a denied call must not wait for its hint."""

    def __init__(self, names: Iterable[str]) -> None:
        self._known = [(name, _pairs(name)) for name in sorted(set(names))]

    def nearest(self, word: str) -> str:
        """The known name most like `word`; "" when none is like it at all."""
        pairs = _pairs(word)
        best, name = 0.0, ""
        for known, of_known in self._known:
            alike = 2 * len(pairs & of_known) / (len(pairs) + len(of_known))
            if alike > best:
                best, name = alike, known
        return name if best >= _ALIKE else ""


@lru_cache(maxsize=256)
def names(known: frozenset[str]) -> Names:
    """The same, kept for sets of names that are asked about again and again."""
    return Names(known)


def _pairs(word: str) -> frozenset[str]:
    whole = f"^{word.lower()}$"
    return frozenset(map("".join, pairwise(whole)))
