"""The words of one command, each read on demand."""

from collections.abc import Sequence
from typing import overload

from agenteval.core.shell.source import Source
from agenteval.core.shell.words import PLAIN_WORD, word_value
from agenteval.core.span import Place, Word

_SPECIAL = frozenset("'\"\\$`*?[{~<>")  # a word without these is what it says


class Words(Sequence[Word]):
    """The words of a command, read on demand.

    `first` is there at once, and so is where they begin and end. `argv` and `places` (in the whole
    text) are there without making a `Word` of each. Without `own_places`, which are in the source,
    the words are plain ones, and their places are computed on demand.
    """

    __slots__ = (
        "_argv",
        "_dynamic",
        "_end",
        "_own_places",
        "_quoted",
        "_source",
        "_start",
        "first",
    )

    def __init__(
        self,
        source: Source,
        start: int,
        end: int,
        first: str,
        own_places: Sequence[Place] | None = None,
    ) -> None:
        self.first = first  # `argv[0]`; "" without words
        self._source = source
        self._start = start
        self._end = end
        self._own_places = own_places
        self._argv: tuple[str, ...] | None = None

    @classmethod
    def at(cls, source: Source, own_places: Sequence[Place]) -> "Words":
        """The words at these places of a source."""
        if not own_places:
            return cls(source, 0, 0, "", ())
        start, end = own_places[0]
        first = source.text[start:end]
        if not _SPECIAL.isdisjoint(first):
            first = word_value(first)[0]
        return cls(source, start, own_places[-1][1], first, own_places)

    def __bool__(self) -> bool:
        return self._own_places is None or len(self._own_places) > 0

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> Word: ...
    @overload
    def __getitem__(self, at: slice) -> "Words": ...
    def __getitem__(self, at: int | slice) -> "Word | Words":
        if isinstance(at, slice):
            return Words.at(self._source, self._places[at])
        number = range(len(self))[at]
        value = self.argv[number]
        span = self._source.span(*self._places[number])
        return Word(value, span, number in self._quoted, number in self._dynamic)

    @property
    def _places(self) -> Sequence[Place]:
        if self._own_places is None:
            words = PLAIN_WORD.finditer(self._source.text, self._start, self._end)
            self._own_places = [word.span() for word in words]
        return self._own_places

    @property
    def argv(self) -> tuple[str, ...]:
        """The words after quote removal."""
        if self._argv is None:
            self._argv = self._read()
        return self._argv

    def _read(self) -> tuple[str, ...]:
        self._quoted: set[int] = set()
        self._dynamic: set[int] = set()
        text = self._source.text
        if self._own_places is None:
            values: list[str] = PLAIN_WORD.findall(text, self._start, self._end)
        else:
            values = [text[start:end] for start, end in self._own_places]
        for number, value in enumerate(values):
            if not _SPECIAL.isdisjoint(value):
                values[number], quoted, dynamic = word_value(value)
                if quoted:
                    self._quoted.add(number)
                if dynamic:
                    self._dynamic.add(number)
        return tuple(values)

    @property
    def dynamic(self) -> set[int]:
        """The numbers of the words that bash still expands."""
        return self._dynamic if self.argv else set()

    @property
    def places(self) -> Sequence[Place]:
        """The place of each word in the whole text."""
        source = self._source
        if source.stand_in is not None:
            return [source.stand_in[:2]] * len(self)
        if not source.base:
            return self._places
        return [(start + source.base, end + source.base) for start, end in self._places]

    def place(self, number: int) -> Place:
        """Return the start and end of a word in the whole text."""
        if number == 0 and self._own_places is None:
            return self._source.place(self._start, self._start + len(self.first))
        return self.places[number]

    @property
    def extent(self) -> Place:
        """The start of the first word and the end of the last one, in the whole text."""
        return self._source.place(self._start, self._end)
