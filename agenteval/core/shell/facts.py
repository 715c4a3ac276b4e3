"""What stands in a piece of shell, as plain data: the facts that explain a denied command.

Facts never allow anything. Offsets are character offsets into the text that was read.
Named tuples: a text has dozens of them, and a frozen dataclass takes three times as long to make.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, overload

from agenteval.core.shell.values import word_value

Place = tuple[int, int]
_SPECIAL = frozenset("'\"\\$`*?[{~<>")  # a word without these is what it says


class Span(NamedTuple):
    """A part of the text, `text[start:end]`."""

    start: int
    end: int
    text: str


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

    `argv` and `places` (in the whole text) are there without making a `Word` of each.
    """

    __slots__ = ("_argv", "_base", "_dynamic", "_quoted", "_raw_places", "_stand_in", "_text")

    def __init__(
        self, text: str, raw_places: Sequence[Place], base: int = 0, stand_in: Span | None = None
    ) -> None:
        self._text = text
        self._raw_places = raw_places
        self._base = base
        self._stand_in = stand_in
        self._argv: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self._raw_places)

    @overload
    def __getitem__(self, at: int) -> Word: ...
    @overload
    def __getitem__(self, at: slice) -> "Words": ...
    def __getitem__(self, at: int | slice) -> "Word | Words":
        if isinstance(at, slice):
            return Words(self._text, self._raw_places[at], self._base, self._stand_in)
        number = range(len(self))[at]
        value = self.argv[number]
        return Word(
            value,
            self._span(*self._raw_places[number]),
            number in self._quoted,
            number in self._dynamic,
        )

    def _span(self, start: int, end: int) -> Span:
        if self._stand_in is not None:
            return self._stand_in
        return Span(start + self._base, end + self._base, self._text[start:end])

    @property
    def argv(self) -> tuple[str, ...]:
        """The words after quote removal."""
        if self._argv is None:
            self._argv = self._read()
        return self._argv

    @property
    def first(self) -> str:
        """`argv[0]`, for which the other words need not be read; "" without words."""
        if self._argv is None and self._raw_places:
            start, end = self._raw_places[0]
            value = self._text[start:end]
            return value if _SPECIAL.isdisjoint(value) else word_value(self._text, start, end)[0]
        return self._argv[0] if self._argv else ""

    def _read(self) -> tuple[str, ...]:
        self._quoted: set[int] = set()
        self._dynamic: set[int] = set()
        text = self._text
        values = [text[start:end] for start, end in self._raw_places]
        for number, value in enumerate(values):
            if not _SPECIAL.isdisjoint(value):
                values[number], quoted, dynamic = word_value(text, *self._raw_places[number])
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
            return self._raw_places
        return [(start + base, end + base) for start, end in self._raw_places]


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
    pipelines: Sequence[tuple[Command, ...]] = ()  # of two commands or more
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
