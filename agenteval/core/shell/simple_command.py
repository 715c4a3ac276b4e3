r"""The gate: which text is one simple command that bash reads in one way only, and its words.

A linear recogniser of our own. It accepts words of plain, single-quoted, double-quoted and escaped
text, \newline, and comments, and stops at the first thing that could mean anything more. Nothing
else in agenteval may say that a text is what it seems to be.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from agenteval.core.shell.words import (
    BARE,
    BARE_WORDS,
    DOUBLE_START,
    MIXED,
    WORD,
    WORD_START,
    compiled,
    expansion,
    unquote,
)
from agenteval.core.span import Span, Word, new


class Obstacle(StrEnum):
    """The reason why a text is not one simple command."""

    EMPTY = "no command"
    LENGTH = "more text than a shell can be given"
    PARTS = "more commands than are read"
    CONTROL = "control character or lone surrogate"
    OPERATOR = "operator"
    LINE = "second line"
    EXPANSION = "expansion"
    BRACES = "brace expansion"
    QUOTE = "quote that is not closed"
    BACKSLASH = "backslash at the end"
    RESERVED = "reserved word"
    ASSIGNMENT = "assignment"
    HEREDOC = "here-document that is not closed, or in an unusual place"
    DEPTH = "too many levels"
    PROGRAM = "program name that is empty, a pattern, or begins with - % ~"


class NotSimple(NamedTuple):
    """The place where reading stopped, as a character offset, and the reason."""

    reason: Obstacle
    start: int


class Simple(NamedTuple):
    """One simple command: bash runs exactly `argv`.

    `dynamic` numbers the words, never the first, that bash still expands against the file system;
    such a word matches no literal. The places of the words, the first at `start`, are computed on
    demand: match with `argv`.
    """

    text: str
    argv: tuple[str, ...]
    dynamic: frozenset[int] = frozenset()
    start: int = 0

    @property
    def first(self) -> str:
        return self.argv[0]

    @property
    def extent(self) -> tuple[int, int]:
        """The start of the first word and the end of the last one."""
        return self.start, self.place(len(self.argv) - 1)[1]

    def place(self, number: int) -> tuple[int, int]:
        """Return the start and end of a word."""
        if not number:  # most asked for, and mostly as it is
            first, end = self.argv[0], self.start + len(self.argv[0])
            if self.text.startswith(first, self.start) and self.text[end : end + 1] in _BLANKS:
                return self.start, end
        return _place(next(islice(WORD.finditer(self.text, self.start), number, None)))

    @property
    def words(self) -> tuple[Word, ...]:
        words: list[Word] = []
        found = islice(WORD.finditer(self.text, self.start), len(self.argv))
        for number, (value, word) in enumerate(zip(self.argv, found, strict=True)):
            start, end = _place(word)
            span = Span(start, end, self.text[start:end])
            quoted = any(mark in span.text for mark in "'\"\\")
            words.append(Word(value, span, quoted, number in self.dynamic))
        return tuple(words)


def _place(word: re.Match[str]) -> tuple[int, int]:
    kind = word.lastindex or BARE
    return word.start(), word.end(kind) + (kind not in {BARE, MIXED})  # the closing quote


_ASSIGN = "keeps a command or assigns to a name whose [subscript] bash evaluates"
_RUN = "runs its arguments, or a file, as shell text"
_READING = "changes how bash reads or finds what comes after it"
_HISTORY = "writes and reads any file with -w and -r"
# Programs that are harmless to name but not to hand arbitrary words: no rule with a wildcard
# should match them. The reason is fit to print.
NEEDS_CARE: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("eval", "source", ".", "trap", "exec", "command", "builtin", "fc"), _RUN)
    | dict.fromkeys(("jobs", "bind", "complete", "compgen", "mapfile", "readarray"), _RUN)
    | dict.fromkeys(("let", "test", "[", "printf", "read", "unset", "getopts", "wait"), _ASSIGN)
    | dict.fromkeys(("declare", "typeset", "local", "export", "readonly"), _ASSIGN)
    | dict.fromkeys(("alias", "unalias", "set", "shopt", "enable", "hash"), _READING)
    | {"history": _HISTORY}
)

RESERVED = frozenset({"!", "[[", "]]", "{", "}", "case", "coproc", "do", "done", "elif", "else"})
RESERVED |= {"esac", "fi", "for", "function", "if", "in", "select", "then", "time", "until"}
RESERVED |= {"while"}
UNREADABLE = (Obstacle.CONTROL, Obstacle.LENGTH)  # the text as a whole
LONGEST = 131_071  # bytes; Linux takes no longer argument, and `bash -c TEXT` is one
_BLANKS = ("", " ", "\t", "\n")
_MOST_BYTES = 4  # of a character
_SURELY_SHORT = LONGEST // _MOST_BYTES
_NONE: frozenset[int] = frozenset()
_CONTROL = compiled(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_BLANK_LINES = r"(?:[ \t\n]++|\\\n|#[^\n]*+)*+"
_BEFORE = compiled(_BLANK_LINES)
_AFTER = compiled(rf"(?:#[^\n]*+)?(?:\n{_BLANK_LINES})?\Z")


def read_simple(text: str) -> Simple | NotSimple:
    """Read one simple command, in time linear in its length. Never raises."""
    is_plain = len(text) <= _SURELY_SHORT and text.isprintable()
    if not is_plain and (unreadable := unreadable_text(text)):
        return unreadable
    bare = BARE_WORDS.match(text)
    end = bare.end() if bare else 0
    if is_plain and 0 < end == len(text):
        argv = text.split()  # printable, it has no other blanks than spaces
        reason = program_obstacle(argv[0])
        return NotSimple(reason, 0) if reason else new(Simple, (text, tuple(argv), _NONE, 0))
    if 0 < end < len(text) and text[end] in _OPERATORS:
        program, blank, _ = text[:end].partition(" ")
        reason = program_obstacle(program) if blank else None  # not where an operator follows it
        return new(NotSimple, (reason, 0) if reason else (Obstacle.OPERATOR, end))
    bare_to = text[:end].rfind(" ") + 1 if is_plain else 0
    return _read_words(text, bare_to)


def _read_words(text: str, bare_to: int) -> Simple | NotSimple:
    """Read on behind the bare words that the text begins with, which end at `bare_to`."""
    argv = text[:bare_to].split()
    if argv and (reason := program_obstacle(argv[0])):
        return NotSimple(reason, 0)
    before = None if argv else _BEFORE.match(text)
    start = before.end() if before else 0
    position = start or bare_to
    dynamic: list[int] = []
    while word := WORD.match(text, position):
        kind = word.lastindex or BARE
        value = word[kind]
        if kind == MIXED:
            value, outside = unquote(value)
            expands = expansion(outside)
            if expands == "braces":
                return NotSimple(Obstacle.BRACES, position)
            if expands:
                dynamic.append(len(argv))
        if not argv:
            reason = (
                program_obstacle(value, is_dynamic=True) if dynamic else program_obstacle(value)
            )
            if reason:
                return NotSimple(reason, position)
        argv.append(value)
        position = word.end()
    if position < len(text) and not _AFTER.match(text, position):
        return stop_of_word(text, position)
    if not argv:
        return NotSimple(Obstacle.EMPTY, 0)
    return new(Simple, (text, tuple(argv), frozenset(dynamic) if dynamic else _NONE, start))


def unreadable_text(text: str) -> NotSimple | None:
    """Return the reason to reject a text before any of its words is read, or None."""
    if len(text) > _SURELY_SHORT and length_in_bytes(text) > LONGEST:
        return NotSimple(Obstacle.LENGTH, min(len(text), LONGEST))
    if text.isprintable() or text.replace("\n", " ").replace("\t", " ").isprintable():
        return None  # much sooner said than searched for
    if control := _CONTROL.search(text):
        return NotSimple(Obstacle.CONTROL, control.start())
    return None


def length_in_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


@lru_cache(maxsize=1024)  # agents know few programs
def program_obstacle(name: str, *, is_dynamic: bool = False) -> Obstacle | None:
    """Return the reason why no command can begin with this word, however it is quoted, or None."""
    if name in RESERVED:
        return Obstacle.RESERVED
    # name[ opens an assignment to an element, which bash reads up to the next ].
    if is_dynamic or not name or name[0] in "-%~" or ("[" in name and name != "["):
        return Obstacle.PROGRAM
    if "=" in name and name[0] not in "/.":
        return Obstacle.ASSIGNMENT
    return None


_OPERATORS = "|&;()<>"
_AT = {"\n": Obstacle.LINE, "$": Obstacle.EXPANSION, "`": Obstacle.EXPANSION}
_AT |= dict.fromkeys(_OPERATORS, Obstacle.OPERATOR)
_AT |= {"'": Obstacle.QUOTE, '"': Obstacle.QUOTE, "\\": Obstacle.BACKSLASH}


def stop_of_word(text: str, position: int) -> NotSimple:
    """Return the obstacle that ends the reading of a word that begins here, and its place."""
    if position == len(text):
        return NotSimple(Obstacle.EMPTY, position)
    if text[position] == "#":
        position = text.index("\n", position)
    elif word := WORD_START.match(text, position):
        position = word.end()
    if text[position] == '"':
        inside = DOUBLE_START.match(text, position)
        if inside and inside.end() < len(text) and text[inside.end()] in "$`":
            position = inside.end()
    return NotSimple(_AT[text[position]], position)
