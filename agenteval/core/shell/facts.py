"""What stands in a piece of shell, as plain data: the facts that explain a denied command.

Facts never allow anything. Offsets are character offsets into the text that was read.
Named tuples: a text has dozens of them, and a frozen dataclass takes three times as long to make.
"""

from bisect import bisect_right
from collections.abc import Sequence
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple, overload

from agenteval.core.shell.values import word_value
from agenteval.core.shell.words import PLAIN_WORD

Place = tuple[int, int]
_SPECIAL = frozenset("'\"\\$`*?[{~<>")  # a word without these is what it says


class Span(NamedTuple):
    """A part of the text, `text[start:end]`."""

    start: int
    end: int
    text: str


def outside(spans: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """The spans that stand in none of the others."""
    order = sorted(others)
    starts = [other.start for other in order]
    furthest = [0, *accumulate((other.end for other in order), max)]
    return [span for span in spans if furthest[bisect_right(starts, span.start)] < span.end]


class RedirectKind(StrEnum):
    STDERR = "stderr"  # anything that moves file descriptor 2: 2>&1, 2>/dev/null, &>f, |&
    FILE = "file"  # writes a file: >, >>, >|, 1>
    INPUT = "input"  # <, <&
    HEREDOC = "heredoc"
    HERESTRING = "herestring"

    @classmethod
    def of(cls, number: str, operator: str, target: str) -> "RedirectKind":
        """The kind of `2> target` and the like."""
        if operator.startswith("<") and operator != "<>" and (number, operator) != ("2", "<&"):
            return cls.INPUT
        both = operator == ">&" and not number and not target.isdigit()
        if number == "2" or operator.startswith("&>") or both:
            return cls.STDERR
        if operator == ">&" and target == "2":
            return cls.STDERR
        return cls.FILE


class SubstitutionKind(StrEnum):
    COMMAND = "command"
    PROCESS = "process"
    ARITHMETIC = "arithmetic"
    PARAMETER = "parameter"


class Word(NamedTuple):
    """One word: `text` is its value after quote removal, `dynamic` that bash still expands it."""

    text: str
    span: Span
    quoted: bool = False
    dynamic: bool = False


class Words(Sequence[Word]):
    """The words of a command, read when they are asked for.

    `first` is there at once, and so is where they begin and end. `argv` and `places` (in the whole
    text) are there without making a `Word` of each. Without `raw_places` the words are plain ones,
    and are found where they are when somebody asks.
    """

    __slots__ = (
        *("_argv", "_base", "_dynamic", "_end", "_quoted", "_raw_places", "_stand_in", "_start"),
        *("_text", "first"),
    )

    def __init__(  # noqa: PLR0913, PLR0917 -- made for each command: by place and at once
        self,
        text: str,
        start: int,
        end: int,
        first: str,
        base: int = 0,
        stand_in: Span | None = None,
        raw_places: Sequence[Place] | None = None,
    ) -> None:
        self.first = first  # `argv[0]`; "" without words
        self._text = text
        self._start = start
        self._end = end
        self._base = base
        self._stand_in = stand_in
        self._raw_places = raw_places
        self._argv: tuple[str, ...] | None = None

    @classmethod
    def at(
        cls, text: str, raw_places: Sequence[Place], base: int = 0, stand_in: Span | None = None
    ) -> "Words":
        """The words at these places of a text."""
        if not raw_places:
            return cls(text, 0, 0, "", base, stand_in, ())
        start, end = raw_places[0]
        first = text[start:end]
        if not _SPECIAL.isdisjoint(first):
            first = word_value(first)[0]
        return cls(text, start, raw_places[-1][1], first, base, stand_in, raw_places)

    def __bool__(self) -> bool:
        return self._raw_places is None or len(self._raw_places) > 0

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> Word: ...
    @overload
    def __getitem__(self, at: slice) -> "Words": ...
    def __getitem__(self, at: int | slice) -> "Word | Words":
        if isinstance(at, slice):
            return Words.at(self._text, self._places[at], self._base, self._stand_in)
        number = range(len(self))[at]
        value = self.argv[number]
        return Word(
            value,
            self._span(*self._places[number]),
            number in self._quoted,
            number in self._dynamic,
        )

    def _span(self, start: int, end: int) -> Span:
        if self._stand_in is not None:
            return self._stand_in
        return Span(start + self._base, end + self._base, self._text[start:end])

    @property
    def _places(self) -> Sequence[Place]:
        if self._raw_places is None:
            words = PLAIN_WORD.finditer(self._text, self._start, self._end)
            self._raw_places = [word.span() for word in words]
        return self._raw_places

    @property
    def argv(self) -> tuple[str, ...]:
        """The words after quote removal."""
        if self._argv is None:
            self._argv = self._read()
        return self._argv

    def _read(self) -> tuple[str, ...]:
        self._quoted: set[int] = set()
        self._dynamic: set[int] = set()
        text = self._text
        if self._raw_places is None:
            values: list[str] = PLAIN_WORD.findall(text, self._start, self._end)
        else:
            values = [text[start:end] for start, end in self._raw_places]
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
        """Where each word stands in the whole text."""
        if self._stand_in is not None:
            return [self._stand_in[:2]] * len(self)
        base = self._base
        if not base:
            return self._places
        return [(start + base, end + base) for start, end in self._places]

    def place(self, number: int) -> Place:
        """Where a word begins and ends in the whole text."""
        if number == 0 and self._raw_places is None and self._stand_in is None:
            start = self._start + self._base
            return start, start + len(self.first)
        return self.places[number]

    @property
    def extent(self) -> Place:
        """Where the first word begins in the whole text, and the last one ends."""
        if self._stand_in is not None:
            return self._stand_in[:2]
        return self._start + self._base, self._end + self._base


class Redirect(NamedTuple):
    kind: RedirectKind
    span: Span
    target: str = ""


class Heredoc(NamedTuple):
    """A here-document or here-string; `expanded` when bash expands its body."""

    body: Span
    span: Span
    expanded: bool


class Command(NamedTuple):
    """One simple command anywhere in the text.

    `via` names the wrappers it was reached through, outermost first: `timeout 5 bash -c 'rm x'`
    yields commands with via (), ("timeout",) and ("timeout", "bash"). `nested` when it stands
    inside a substitution.
    """

    words: Words
    span: Span
    assignments: tuple[Span, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    via: tuple[str, ...] = ()
    nested: bool = False

    @property
    def program(self) -> str:
        return self.words.first

    @property
    def argv(self) -> tuple[str, ...]:
        return self.words.argv


class ShellFacts(NamedTuple):
    """Everything the taxonomy may ask about one command text."""

    text: str
    commands: Sequence[Command] = ()
    pipelines: Sequence[Sequence[Command]] = ()  # of two commands or more
    chains: Sequence[Span] = ()  # one for each operator: && || ; newline
    redirects: Sequence[Redirect] = ()
    heredocs: Sequence[Heredoc] = ()
    substitutions: Sequence[tuple[SubstitutionKind, Span]] = ()
    assignments: Sequence[Span] = ()  # X=1 before a command, or alone
    background: Sequence[Span] = ()  # one for each &
    subshells: Sequence[Span] = ()  # ( ... ) and { ...; }
    control: Sequence[Span] = ()  # if, for, while, until, case, select, function, [[ ]], (( ))
    negations: Sequence[Span] = ()  # one for each ! before a command
    errors: Sequence[Span] = ()  # where the text does not parse
    inner: Sequence["ShellFacts"] = ()  # one for each text that a nested shell reads
