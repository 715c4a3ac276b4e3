r"""A place in a text that is split into leaves: blanks, words, newlines, here-documents."""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NoReturn

from agenteval.core.shell.simple_command import NotSimple, Obstacle, stop_of_word
from agenteval.core.shell.words import (
    BARE,
    DOUBLE_INSIDE,
    GAP,
    MIXED,
    PLAIN_HERE_TEXT,
    PLAIN_START,
    QUOTED,
    WORD_OR_OPERATOR,
    expansion,
    unquote,
    unquote_double,
)
from agenteval.core.span import Span, Word

_GAP = re.compile(rf"{GAP}(?:#[^\n]*+)?")
_ENDS_WORD = " \t\n|&;()<>"
_LINE = re.compile(r"[^\n]*+\n?")
_DELIMITER = re.compile(r"[A-Za-z0-9_.!%+-]+\Z")


class UnreadableError(Exception):
    """Ends the reading of one text; never leaves `core`."""

    def __init__(self, stop: NotSimple) -> None:
        super().__init__(stop)
        self.stop = stop


@dataclass(frozen=True, slots=True)
class _Delimiter:
    """The end mark of a here-document that was announced and has not begun yet."""

    text: str
    quoted: bool
    tabs: bool


class Cursor(ABC):
    """A reader from left to right.

    Each method begins at `at` and leaves `at` behind what it read.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.pending: list[_Delimiter] = []

    def fail(self, reason: Obstacle | None = None, start: int | None = None) -> NoReturn:
        """Give up here, because of what stands here unless a better reason is known."""
        place = self.at if start is None else start
        if reason is None:
            raise UnreadableError(stop_of_word(self.text, place))
        raise UnreadableError(NotSimple(reason, place))

    def sees(self, *marks: str) -> bool:
        return self.text.startswith(marks, self.at)

    def operator(self, length: int) -> None:
        r"""Step over an operator. Before \newline it may be half of one: bash joins the lines."""
        self.at += length
        if self.sees("\\\n"):
            self.fail(Obstacle.OPERATOR)

    def gap(self) -> None:
        """Step over blanks, joined lines and a comment."""
        self.at += len(gap[0]) if (gap := _GAP.match(self.text, self.at)) else 0

    def blank_lines(self) -> None:
        """Step over whole lines without a command, and the here-documents that begin there."""
        self.gap()
        while self.sees("\n"):
            self.at += 1
            for delimiter in self.pending:
                self._here_document(delimiter)
            self.pending.clear()
            self.gap()

    def announce(self, word: Span, value: str, *, tabs: bool) -> None:
        """Expect a here-document after this line."""
        if "\\\n" in word.text or not _DELIMITER.match(value):
            self.fail(Obstacle.HEREDOC, word.start)
        self.pending.append(_Delimiter(value, word.text != value, tabs))

    def _here_document(self, delimiter: _Delimiter) -> None:
        start = self.at
        while self.at < len(self.text):
            body_end = self.at
            line = _LINE.match(self.text, self.at)
            content = line[0] if line else ""
            self.at += len(content)
            content = content.removesuffix("\n")
            if (content.lstrip("\t") if delimiter.tabs else content) == delimiter.text:
                body = PLAIN_HERE_TEXT.match(self.text, start, body_end)
                if not delimiter.quoted and not (body and body.end() == body_end):
                    self.fail(Obstacle.EXPANSION, body.end() if body else start)
                return
        self.fail(Obstacle.HEREDOC, start)

    def word(self) -> Word | None:
        """Read the word here. Return None before an operator, a newline or the end."""
        start = self.at
        if match := WORD_OR_OPERATOR.match(self.text, start):
            self.at = match.end()
            kind = match.lastindex or BARE
            value, outside = unquote(match[kind]) if kind == MIXED else (match[kind], "")
        elif start == len(self.text) or self.text[start] in _ENDS_WORD:
            return None
        else:
            value, outside = self._word_with_substitutions()
        span = Span(start, self.at, self.text[start : self.at])
        self._check_word(span, value)
        expands = expansion(outside)
        if expands == "braces":
            self.fail(Obstacle.BRACES, start)
        return Word(value, span, span.text != value, not match or bool(expands))

    def _check_word(self, span: Span, value: str) -> None:
        """Refuse a word that means more because of what stands around it."""
        if self.sees("<", ">") and (value.isdigit() or value[:1] == "{" or "\\\n" in span.text):
            self.fail(Obstacle.OPERATOR)  # 12>f, {name}>f, 2\newline>f
        if self.pending and "\n" in span.text:
            self.fail(Obstacle.HEREDOC, span.start)

    def _word_with_substitutions(self) -> tuple[str, str]:
        value: list[str] = []
        outside: list[str] = []
        while self.at < len(self.text) and self.text[self.at] not in _ENDS_WORD:
            if plain := PLAIN_START.match(self.text, self.at):
                self.at = plain.end()
                text, bare = unquote(plain[0])
            elif self.sees('"'):
                text, bare = self._double_quotes(), QUOTED
            elif self.sees("$ ", "$\t", "$\n") or self.text[self.at : self.at + 2] == "$":
                text = bare = "$"
                self.at += 1
            else:
                text, bare = self.substitution(), QUOTED
            value.append(text)
            outside.append(bare)
        return "".join(value), "".join(outside)

    def _double_quotes(self) -> str:
        value: list[str] = []
        opening = self.at
        self.at += 1
        while not self.sees('"'):
            inside = DOUBLE_INSIDE.match(self.text, self.at)
            if inside and inside[0]:
                self.at = inside.end()
                value.append(unquote_double(inside[0]))
            elif self.at == len(self.text):
                self.fail(Obstacle.QUOTE, opening)
            else:
                value.append(self.substitution())
        self.at += 1
        return "".join(value)

    @abstractmethod
    def substitution(self) -> str:
        """Step over a $( ) and return its text; fail where none stands."""
