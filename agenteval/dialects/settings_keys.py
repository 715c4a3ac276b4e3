"""Keys of a harness's settings that its verdicts follow here, and those they would have to."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agenteval.core.nearest import names
from agenteval.core.policy.policy import UnheededKey

_NOTHING: tuple[object, ...] = (None, "", [], {})
Words = Iterable[str]


@dataclass(frozen=True, slots=True, eq=False)
class SettingsKeys:
    """All keys that are known, dotted; `*` stands for a name that the user chose.

    `modelled` ones are read, `harmless` ones change no verdict, and `unmodelled` ones may change
    some, each with how. Any other key is unknown.
    """

    modelled: frozenset[str]
    harmless: frozenset[str]
    unmodelled: Mapping[str, str]
    _tables: Mapping[tuple[str, ...], frozenset[str]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        tables: dict[tuple[str, ...], set[str]] = {}
        for key in (*self.modelled, *self.harmless, *self.unmodelled):
            *above, last = key.split(".")
            for depth, name in enumerate((*above, last)):
                tables.setdefault(tuple(above[:depth]), set()).add(name)
        frozen = {place: frozenset(known) for place, known in tables.items()}
        object.__setattr__(self, "_tables", frozen)

    @classmethod
    def of(cls, modelled: Words, harmless: Words, unmodelled: Mapping[str, str]) -> "SettingsKeys":
        return cls(frozenset(modelled), frozenset(harmless), unmodelled)

    def unheeded(self, settings: Mapping[str, Any], above: str = "") -> Iterator[UnheededKey]:
        """The keys of a file that may change verdicts, and do not here; `above` names its table."""
        yield from self._in_table(settings, (), f"{above}." if above else "")

    def is_known(self, key: str) -> bool:
        """Return True if the key, or the table that it stands in, is one of the three kinds."""
        place = self._declared((), key.split("."))
        return place is not None

    def _in_table(
        self, table: Mapping[str, Any], place: tuple[str, ...], above: str
    ) -> Iterator[UnheededKey]:
        for key, value in table.items():
            name = f"{above}{_in_one_line(str(key))}"
            own = self._declared(place, [str(key)])
            if own is None:
                yield UnheededKey(name, self._suggestion(place, str(key)), is_known=False)
                continue
            reason = self.unmodelled.get(".".join(own))
            if reason is not None and value not in _NOTHING:
                yield UnheededKey(name, reason)
            if isinstance(value, Mapping) and self._below(own):
                yield from self._in_table(value, own, f"{name}.")

    def _declared(self, place: tuple[str, ...], keys: Iterable[str]) -> tuple[str, ...] | None:
        """The declared place of a key in a table; None where the table knows no such key."""
        for key in keys:
            below = self._below(place)
            if place and not below:
                return place  # what a table holds whose keys are not told apart
            if key not in below and "*" not in below:
                return None
            place = (*place, key if key in below else "*")
        return place

    def _below(self, place: tuple[str, ...]) -> frozenset[str]:
        """The keys that are declared in a table."""
        return self._tables.get(place, frozenset())

    def _suggestion(self, place: tuple[str, ...], key: str) -> str:
        near = names(self._below(place)).nearest(key)
        return f"did you mean {near}?" if near else "no release of it that is known here has it"


def _in_one_line(key: str) -> str:
    return key if key.isprintable() else ascii(key)
