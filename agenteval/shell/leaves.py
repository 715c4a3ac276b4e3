"""A text split into the simple commands that bash joins by operators, redirects and groups.

For policies that allow constructs. It reads as the gate does: every character belongs to a word,
an operator or a blank that was understood, or the text is not readable. Much that bash can read
stays unreadable on purpose: loops, variables, `time`, <( ), a command of assignments alone.

`Cursor` steps over blanks, words and here-documents; `_Reader` is the grammar; `read_leaves`
returns the commands with all constructs and redirects that a policy must have allowed.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from agenteval.shell.facts import Redirect, RedirectKind
from agenteval.shell.gate import (
    BARE,
    DOUBLE_INSIDE,
    GAP,
    MIXED,
    PLAIN_HERE_TEXT,
    PLAIN_START,
    QUOTED,
    WORD_OR_OPERATOR,
    NotSimple,
    Obstacle,
    Span,
    Word,
    expansion,
    program_obstacle,
    stop_of_word,
    unquote,
    unquote_double,
    unreadable_text,
)

_GAP = re.compile(rf"{GAP}(?:#[^\n]*+)?")
_ENDS_WORD = " \t\n|&;()<>"
_DELIMITER = re.compile(r"[A-Za-z0-9_.!%+-]+\Z")


# A place in the text, and the steps over what stands there.


class UnreadableError(Exception):
    """Ends the reading of one text; never leaves `shell`."""

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

    def span_from(self, start: int) -> Span:
        return Span(start, self.at, self.text[start : self.at])

    def sees(self, *marks: str) -> bool:
        return self.text.startswith(marks, self.at)

    def operator(self, length: int) -> None:
        r"""Step over an operator. Before \newline it may be half of one: bash joins the lines."""
        self.at += length
        if self.sees("\\\n"):
            self.fail(Obstacle.OPERATOR)

    def gap(self) -> None:
        """Step over blanks, joined lines and a comment."""
        gap = _GAP.match(self.text, self.at)
        self.at = gap.end() if gap else self.at

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
            line_end = self.text.find("\n", body_end)
            if line_end < 0:
                line_end = len(self.text)
            self.at = min(line_end + 1, len(self.text))
            line = self.text[body_end:line_end]
            if delimiter.tabs:
                line = line.lstrip("\t")
            if line == delimiter.text:
                if not delimiter.quoted:
                    self._check_here_text(start, body_end)
                return
        self.fail(Obstacle.HEREDOC, start)

    def _check_here_text(self, start: int, end: int) -> None:
        body = PLAIN_HERE_TEXT.match(self.text, start, end)
        plain_end = body.end() if body else start
        if plain_end < end:
            self.fail(Obstacle.EXPANSION, plain_end)

    def word(self) -> Word | None:
        """Read the word here. Return None before an operator, a newline or the end."""
        start = self.at
        if match := WORD_OR_OPERATOR.match(self.text, start):
            self.at = match.end()
            kind = match.lastindex or BARE
            value, outside = match[kind], ""
            if kind == MIXED:
                value, outside = unquote(value)
        elif start == len(self.text) or self.text[start] in _ENDS_WORD:
            return None
        else:
            value, outside = self._word_with_substitutions()
        span = self.span_from(start)
        self._check_word(span, value)
        expands = expansion(outside)
        if expands == "braces":
            self.fail(Obstacle.BRACES, start)
        is_dynamic = match is None or bool(expands)
        return Word(value, span, span.text != value, is_dynamic)

    def _check_word(self, span: Span, value: str) -> None:
        """Refuse a word that means more because of what stands around it."""
        may_number_stream = value.isdigit() or value[:1] == "{" or "\\\n" in span.text
        if may_number_stream and self.sees("<", ">"):
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


# What a text is split into.

MAX_DEPTH = 16  # groups and substitutions inside each other
MOST_PARTS = 1024  # commands and redirects; more of them only keep the reader busy


class Construct(StrEnum):
    """A construct that joins, redirects or surrounds simple commands."""

    PIPE = "pipe"
    CHAIN = "chain"  # && || ; newline
    STDERR_REDIRECT = "stderr-redirect"
    FILE_REDIRECT = "file-redirect"
    INPUT_REDIRECT = "input-redirect"
    HEREDOC = "heredoc"
    HERESTRING = "here-string"
    SUBSHELL = "subshell"  # ( ) and { }
    BACKGROUND = "background"
    ENV_ASSIGNMENT = "env-assignment"
    COMMAND_SUBSTITUTION = "command-substitution"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One simple command of a text: bash runs `argv`, after expanding the dynamic words.

    `assignments` are NAME=value after quote removal.
    """

    words: tuple[Word, ...]
    assignments: tuple[Word, ...] = ()
    redirects: tuple[Redirect, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words)

    @property
    def dynamic(self) -> frozenset[int]:
        return frozenset(number for number, word in enumerate(self.words) if word.dynamic)


@dataclass(frozen=True, slots=True)
class Leaves:
    """The simple commands of a text; those of a substitution stand before the one around it.

    `redirects` are all of them, those of groups too. None has a target that bash expands; the
    target of a here-document is its delimiter.
    """

    leaves: tuple[Leaf, ...]
    constructs: frozenset[Construct]
    redirects: tuple[Redirect, ...]


def read_leaves(text: str) -> Leaves | NotSimple:
    """Split a text into its simple commands, in linear time. Never raises."""
    if unreadable := unreadable_text(text):
        return unreadable
    reader = _Reader(text)
    try:
        reader.read_list("")
    except UnreadableError as error:
        return error.stop
    return Leaves(tuple(reader.leaves), frozenset(reader.constructs), tuple(reader.redirects))


# The grammar.

_CLOSING = {
    "": re.compile(r"\Z"),
    ")": re.compile(r"\)"),
    "}": re.compile(r"\}(?=[ \t\n|&;()]|\Z)"),
}
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_DUPLICATE = re.compile(r"([0-9]?)([<>])&[ \t]*([0-9]|-)(?=[ \t\n|&;()<>]|\Z)")
# Behind >& a number or - is another stream, also quoted.
_REDIRECT = re.compile(
    r"([0-9](?=[<>]))?(&>>|&>|<<<|<<-|<<|>>|>\||[<>](?![&(>]))|(?P<both>>&(?=[ \t]*[A-Za-z./_]))"
)
_KINDS = {"<": RedirectKind.INPUT, "<<<": RedirectKind.HERESTRING}
_KINDS |= {"<<": RedirectKind.HEREDOC, "<<-": RedirectKind.HEREDOC}
CONSTRUCT_OF = {
    RedirectKind.STDERR: Construct.STDERR_REDIRECT,
    RedirectKind.FILE: Construct.FILE_REDIRECT,
    RedirectKind.INPUT: Construct.INPUT_REDIRECT,
    RedirectKind.HEREDOC: Construct.HEREDOC,
    RedirectKind.HERESTRING: Construct.HERESTRING,
}


class _Reader(Cursor):
    """The grammar. Each method begins where the thing it reads must stand."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.inside = 0  # how many of them are not closed yet
        self.leaves: list[Leaf] = []
        self.constructs: set[Construct] = set()
        self.redirects: list[Redirect] = []

    def read_list(self, closing: str) -> None:
        """Commands and what joins them, up to and with the closing mark."""
        self.blank_lines()
        separated = started = False
        while not (end := _CLOSING[closing].match(self.text, self.at)):
            if started:
                self.constructs.add(Construct.CHAIN)
            if started and not separated:
                self.fail(Obstacle.OPERATOR)
            self._and_or()
            started, separated = True, self._separator()
        if not started or (closing == "}" and not separated):
            self.fail(Obstacle.OPERATOR if closing else Obstacle.EMPTY)
        if self.pending and closing != ")":
            self.fail(Obstacle.HEREDOC)
        self.at = end.end()

    def _and_or(self) -> None:
        self._pipeline()
        while self.sees("&&", "||"):
            self.constructs.add(Construct.CHAIN)
            self.operator(2)
            self.blank_lines()
            self._pipeline()

    def _pipeline(self) -> None:
        self._command()
        while self.sees("|") and not self.sees("||"):
            self.constructs.add(Construct.PIPE)
            moves_stderr = self.sees("|&")  # as 2>&1 | does
            if moves_stderr:
                self.constructs.add(Construct.STDERR_REDIRECT)
                span = Span(self.at, self.at + 2, "|&")
                self.redirects.append(Redirect(RedirectKind.STDERR, span, "1"))
            self.operator(2 if moves_stderr else 1)
            self.blank_lines()
            self._command()

    def _separator(self) -> bool:
        """Step over ; & or a newline that ends the command, and over the blank lines after it.

        Return False if there is none.
        """
        if self.sees("&") and not self.sees("&>"):
            self.constructs.add(Construct.BACKGROUND)
            self.operator(1)
        elif self.sees(";") and not self.sees(";;", ";&"):
            self.operator(1)
        elif not self.sees("\n"):
            return False
        self.blank_lines()
        return True

    def _command(self) -> None:
        if self.sees("("):
            self._group(")")
        elif self.sees("{ ", "{\t", "{\n"):
            self._group("}")
        else:
            self._simple()

    def _group(self, closing: str) -> None:
        self.constructs.add(Construct.SUBSHELL)
        self._nested(1, closing)
        self.gap()
        while self._redirect():
            self.gap()

    def _nested(self, opening: int, closing: str) -> None:
        if self.depth == MAX_DEPTH:
            self.fail(Obstacle.DEPTH)
        self.depth += 1
        self.operator(opening)
        if self.sees("("):  # (( is arithmetic to bash, or is not
            self.fail(Obstacle.OPERATOR)
        self.read_list(closing)
        self.depth -= 1

    def _simple(self) -> None:
        words: list[Word] = []
        assignments: list[Word] = []
        redirects: list[Redirect] = []
        while True:
            self.gap()
            if redirect := self._redirect():
                redirects.append(redirect)
            elif (word := self.word()) is None:
                break
            elif not words and _ASSIGNMENT.match(word.span.text):
                assignments.append(word)
                self.constructs.add(Construct.ENV_ASSIGNMENT)
            else:
                reason = program_obstacle(word.text, is_dynamic=word.dynamic)
                if not words and reason:
                    self.fail(reason, word.span.start)
                words.append(word)
        if not words:
            self.fail()
        self._count()
        self.leaves.append(Leaf(tuple(words), tuple(assignments), tuple(redirects)))

    def _count(self) -> None:
        if len(self.leaves) + len(self.redirects) == MOST_PARTS:
            self.fail(Obstacle.PARTS)

    def _redirect(self) -> Redirect | None:
        start = self.at
        if match := _DUPLICATE.match(self.text, start):
            number, direction, target = match.groups()
            self.at = match.end()
            moves_stderr = number == "2" or (direction, target) == (">", "2")
            kind = RedirectKind.STDERR if moves_stderr else _KINDS.get(direction)
        elif match := _REDIRECT.match(self.text, start):
            number = match[1]
            operator = match[2] or match["both"]
            self.operator(match.end() - start)
            self.gap()
            target = self._target(operator)
            moves_stderr = "&" in operator or (number == "2" and ">" in operator)
            kind = RedirectKind.STDERR if moves_stderr else _KINDS.get(operator)
            if kind is RedirectKind.STDERR and target != "/dev/null":
                self.constructs.add(Construct.FILE_REDIRECT)
        else:
            return None
        kind = kind or RedirectKind.FILE
        self._count()
        self.constructs.add(CONSTRUCT_OF[kind])
        redirect = Redirect(kind, self.span_from(start), target)
        self.redirects.append(redirect)
        return redirect

    def _target(self, operator: str) -> str:
        word = self.word()
        if word is None:
            self.fail(Obstacle.OPERATOR)
        if word.dynamic:
            self.fail(Obstacle.EXPANSION, word.span.start)
        if _KINDS.get(operator) is RedirectKind.HEREDOC:
            if self.inside:
                self.fail(Obstacle.HEREDOC, word.span.start)
            self.announce(word.span, word.text, tabs=operator == "<<-")
        elif not word.text and operator != "<<<":
            self.fail(Obstacle.EMPTY)
        return word.text

    def substitution(self) -> str:
        start = self.at
        if not self.sees("$(") or self.pending:
            self.fail(Obstacle.EXPANSION)
        self.constructs.add(Construct.COMMAND_SUBSTITUTION)
        self.inside += 1
        self._nested(2, ")")
        self.inside -= 1
        return self.text[start : self.at]
