r"""A text split into the simple commands that bash joins by operators, redirects and groups.

For policies that allow constructs. It reads as the gate does: every character belongs to a word,
an operator or a blank that was understood, or the text is not readable. Much that bash can read
stays unreadable on purpose: loops, variables, `time`, <( ), a command of assignments alone.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from agenteval.core.shell.cursor import Cursor, UnreadableError
from agenteval.core.shell.facts import Redirect, RedirectKind
from agenteval.core.shell.simple_command import (
    NotSimple,
    Obstacle,
    program_obstacle,
    unreadable_text,
)
from agenteval.core.span import Span, Word

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
_CONSTRUCTS = {
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
            if self.sees("|&"):
                self.constructs.add(Construct.STDERR_REDIRECT)
                self.redirects.append(
                    Redirect(RedirectKind.STDERR, Span(self.at, self.at + 2, "|&"), "1")
                )
            self.operator(2 if self.sees("|&") else 1)
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
            number, operator = match[1], match[2] or match["both"]
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
        self.constructs.add(_CONSTRUCTS[kind])
        redirect = Redirect(kind, Span(start, self.at, self.text[start : self.at]), target)
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
