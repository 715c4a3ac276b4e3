r"""The gate: which text is one simple command that bash reads in one way only, and its words.

A linear recogniser of our own. It accepts words of plain, single-quoted, double-quoted and escaped
text, \newline, and comments, and stops at the first thing that could mean anything more. Nothing
else in agenteval may say that a text is what it seems to be: a tree-sitter parse explains denials
(`reader`) and never allows.

In order: patterns that are right with every Python; one word, and what bash makes of its quotes;
parts of a text; the result (`Simple` or `NotSimple`); `read_simple`.
"""

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate, islice
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

Expansion = Literal["", "files", "braces"]
# Before, `(...)*+` keeps what was read of a last round that fails (python/cpython#106052): `a'b`
# would be a word. `(?>(...)*)` is right everywhere, and takes longer.
RIGHT_SINCE = (3, 11, 5)


def names(text: str) -> frozenset[str]:
    """Return the words of a list that stands in one text."""
    return frozenset(text.split())


def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a pattern, as `re.compile` does. For each pattern with `)*+`, `)++` or `)?+`."""
    is_right = sys.version_info >= RIGHT_SINCE
    return re.compile(pattern, flags) if is_right else atomic(pattern, flags)


def atomic(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """The pattern with atomic groups in place of its possessive ones."""
    compiler, parser = re._compiler, re._parser  # type: ignore[attr-defined]  # noqa: SLF001
    parsed = parser.parse(pattern, flags)
    for part in _parts(parsed):
        for at, (code, what) in enumerate(part.data):
            if code is parser.POSSESSIVE_REPEAT:
                greedy = parser.SubPattern(part.state, [(parser.MAX_REPEAT, what)])
                part.data[at] = (parser.ATOMIC_GROUP, greedy)
    made: re.Pattern[str] = compiler.compile(parsed, flags)
    return made


def _parts(tree: Any) -> list[Any]:
    """Return the sub-patterns of a parsed pattern, the inner ones first."""
    is_part = hasattr(tree, "data")
    inner = tree.data if is_part else tree
    parts: list[Any] = []
    if isinstance(inner, list | tuple):
        for item in inner:
            parts += _parts(item)
    return [*parts, tree] if is_part else parts


# One word of shell text. Control characters must have been ruled out before: `unreadable_text`.

# A $ that stays a $: nothing after it can name a variable. Not before \newline, which vanishes.
_DOUBLE = r"""(?:[^"\\$`]++|\\(?s:.)|\$(?=[ \t\n"'|)/.,:;%=^+\]}&<>~]|\\[^\n]))*+"""
_BARE = r"""[^ \t\n|&;()<>'"\\$`*?\[{~#][^ \t\n|&;()<>'"\\$`*?\[{~]*+"""
_LONE = r"\$(?=[ \t\n/.,:%=^+\]}]|\Z)"
_MIXED = rf"""(?!\#)(?:[^ \t\n|&;()<>'"\\$`]++|'[^']*+'|"{_DOUBLE}"|\\(?s:.)|{_LONE})++"""
_ANY = rf"""(?:({_BARE})|'([^']*+)'|"([^"\\$`]*+)"|({_MIXED}))"""
BARE, MIXED = 1, 4  # the groups of a word: all of it, and one that needs `unquote`
GAP = r"(?:[ \t]++|\\\n)*+"
# A word of a flat text, of which more may be asked than that it is one; see flat.py.
VARIABLE = r"\$(?:[A-Za-z_][A-Za-z0-9_]*+|\{[A-Za-z_][A-Za-z0-9_]*+\})"
_PLAIN_DOUBLE = rf"""(?:[^"\\$`]++|\\[^\n]|{VARIABLE})*+"""
PLAIN = rf"""(?:[^ \t\n|&;()<>'"\\$`]++|'[^']*+'|"{_PLAIN_DOUBLE}"|\\[^ \t\n]|{VARIABLE})++"""
PLAIN_WORD = compiled(PLAIN)
# A whole word and the blanks after it, where a blank or the end must follow.
WORD = compiled(rf"{_ANY}(?=[ \t\n]|\Z){GAP}")
# As many unquoted words with nothing in them to expand as a text begins with.
BARE_WORDS = compiled(rf"{_BARE}(?:[ ]++{_BARE})*+[ ]*+")
# The same where an operator may follow at once.
WORD_OR_OPERATOR = compiled(rf"{_ANY}(?=[ \t\n|&;()<>]|\Z)")
# As much of a word, or of a "...", as has one reading: where these end is what stopped the reader.
WORD_START = compiled(_MIXED)
DOUBLE_START = compiled(rf'"{_DOUBLE}')
# The parts of a word in which a $( ) may stand.
PLAIN_START = compiled(r"""(?:[^ \t\n|&;()<>'"\\$`]++|'[^']*+'|\\(?s:.))++""")
DOUBLE_INSIDE = compiled(_DOUBLE)
# A here-document's body in which nothing is expanded and no line is joined to the next.
PLAIN_HERE_TEXT = compiled(r"(?:[^\\$`]++|\\[^\n]|\$(?=[ \t\n|)/.,:;%=^+\]}&<>~'\"]))*+")
_PIECE = compiled(rf"""([^'"\\]++)|'([^']*+)'|"({_DOUBLE})"|\\(?:\n|((?s:.)))""")
_ESCAPE_IN_DOUBLE = compiled(r'\\(?:\n|([\\"$`]))')
QUOTED = "\0"  # stands for a quoted piece where only unquoted characters count
_SAFE = compiled(r"[\w@%+=:,./-]+", re.ASCII)


def quoted(word: str) -> str:
    """A word as shell text, in single quotes where it needs any."""
    return word if _SAFE.fullmatch(word) else "'" + word.replace("'", "'\\''") + "'"


def unquote(raw: str) -> tuple[str, str]:
    """The text of a `MIXED` word after quote removal, and what stands outside its quotes."""
    value: list[str] = []
    outside: list[str] = []
    for piece in _PIECE.finditer(raw):
        plain, single, double, escaped = piece.groups()
        if plain is not None:
            value.append(plain)
            outside.append(plain)
        elif (quoted := single if single is not None else escaped) is not None:
            value.append(quoted)
            outside.append(QUOTED)
        elif double is not None:
            value.append(unquote_double(double))
            outside.append(QUOTED)
    return "".join(value), "".join(outside)


def unquote_double(inside: str) -> str:
    """Return the value of a "..." from the text between its quotes."""
    return _ESCAPE_IN_DOUBLE.sub(r"\1", inside)


def expansion(outside: str) -> Expansion:
    """Return the kind of expansion that bash does in a word. Doubtful cases count as expansion."""
    if "{" in outside and ("," in outside or ".." in outside):
        return "braces"
    if "*" in outside or "?" in outside:
        return "files"
    bracket = outside.find("[")
    if 0 <= bracket < max(outside.rfind("]"), outside.rfind(QUOTED)):
        return "files"
    has_home = outside.startswith("~") or "=~" in outside or ":~" in outside
    return "files" if has_home else ""


# The value of any word, for facts and findings only: here `$` and `` ` `` may stand.

_VALUE_PIECE = compiled(
    r"""\$'((?:[^'\\]++|\\(?s:.))*+)'   # 1: $'...'
      | '([^']*+)'                      # 2
      | \$?"((?:[^"\\]++|\\(?s:.))*+)"  # 3: "..." and $"..."
      | \\(\n|(?s:.)|\Z)                # 4
      | ([^'"\\$`]++|(?s:.))            # 5""",
    re.VERBOSE,
)
_LIVE = compiled(r"[$`](?![ \t\n]|\Z)|[<>]\(")
_ANSI = compiled(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(?s:(.)))"
)
_NAMED = dict(zip("abefnrtvE", "\a\b\x1b\f\n\r\t\v\x1b", strict=True))
_LAST_CODE_POINT = 0x10FFFF


def word_value(text: str) -> tuple[str, bool, bool]:
    """A word's text after quote removal, whether it was quoted, and whether bash expands it."""
    word = WORD_OR_OPERATOR.match(text)
    if word is None or word.end() != len(text):
        return _expanding_value(text)
    kind = word.lastindex or BARE
    if kind != MIXED:
        return word[kind], kind != BARE, False
    raw = word[MIXED]
    value, outside = unquote(raw)
    return value, value != raw, bool(expansion(outside))


def _expanding_value(raw: str) -> tuple[str, bool, bool]:
    value: list[str] = []
    quoted = dynamic = False
    for piece in _VALUE_PIECE.finditer(raw):
        ansi, single, double, escaped, other = piece.groups()
        quoted = quoted or other is None
        if ansi is not None:
            value.append(_ANSI.sub(_ansi_character, ansi))
        elif double is not None:
            value.append(unquote_double(double))
            dynamic = dynamic or _LIVE.search(double) is not None
        elif other is not None:
            value.append(other)
            dynamic = dynamic or other in "$`" or bool(expansion(other))
        else:
            value.append(single if single is not None else escaped.replace("\n", ""))
    return "".join(value), quoted, dynamic or "<(" in raw or ">(" in raw


def _ansi_character(escape: re.Match[str]) -> str:
    *codes, octal, character = escape.groups()
    if character is not None:
        other = character if character in "\\'\"?" else escape[0]
        return _NAMED.get(character, other)
    number = int(octal, 8) if octal else int(next(filter(None, codes)), 16)
    return chr(number) if number <= _LAST_CODE_POINT else escape[0]


# Parts of a text, which facts, findings and evidence are shown by.

Place = tuple[int, int]  # where it starts and ends
# A named tuple's own constructor is a function of Python: `new(Pair, (a, b))` takes half as long.
new = tuple.__new__


class Span(NamedTuple):
    """A part of the text, `text[start:end]`."""

    start: int
    end: int
    text: str


class Word(NamedTuple):
    """One word of shell: `text` is its value without quotes, `dynamic` that bash expands it."""

    text: str
    span: Span
    quoted: bool = False
    dynamic: bool = False


def inside(spans: Sequence[Span], places: Sequence[Place]) -> list[Span]:
    """The spans that stand in one of the places."""
    return [span for span, end in _covered(spans, places) if span.end <= end]


def outside(spans: Sequence[Span], places: Sequence[Place]) -> list[Span]:
    """The spans that stand in none of the places."""
    return [span for span, end in _covered(spans, places) if span.end > end]


def _covered(spans: Sequence[Span], places: Sequence[Place]) -> Iterator[tuple[Span, int]]:
    """Yield each span with the furthest end of the places that begin before it."""
    order = sorted(places)
    starts = [start for start, _ in order]
    furthest = [0, *accumulate((end for _, end in order), max)]
    return ((span, furthest[bisect_right(starts, span.start)]) for span in spans)


# What the gate says of a text.


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
        if not number:  # the one most often looked for, and mostly written without quotes
            program = self.argv[0]
            end = self.start + len(program)
            is_bare = self.text.startswith(program, self.start)
            if is_bare and self.text[end : end + 1] in _BLANKS:
                return self.start, end
        words = WORD.finditer(self.text, self.start)
        return _place(next(islice(words, number, None)))

    @property
    def words(self) -> tuple[Word, ...]:
        words: list[Word] = []
        matches = islice(WORD.finditer(self.text, self.start), len(self.argv))
        for number, (value, match) in enumerate(zip(self.argv, matches, strict=True)):
            start, end = _place(match)
            span = Span(start, end, self.text[start:end])
            is_quoted = any(mark in span.text for mark in "'\"\\")
            words.append(Word(value, span, is_quoted, number in self.dynamic))
        return tuple(words)


def _place(word: re.Match[str]) -> tuple[int, int]:
    kind = word.lastindex or BARE
    closing_quote = kind not in {BARE, MIXED}
    return word.start(), word.end(kind) + closing_quote


# Programs and words with a meaning of their own to bash.

_ASSIGN = "keeps a command or assigns to a name whose [subscript] bash evaluates"
_RUN = "runs its arguments, or a file, as shell text"
_READING = "changes how bash reads or finds what comes after it"
# Programs that are harmless to name but not to hand arbitrary words: no rule with a wildcard
# should match them. The reason is fit to print.
NEEDS_CARE: Mapping[str, str] = MappingProxyType(
    {
        program: reason
        for programs, reason in (
            ("eval source . trap exec command builtin fc", _RUN),
            ("jobs bind complete compgen mapfile readarray", _RUN),
            ("let test [ printf read unset getopts wait", _ASSIGN),
            ("declare typeset local export readonly", _ASSIGN),
            ("alias unalias set shopt enable hash", _READING),
            ("history", "writes and reads any file with -w and -r"),
        )
        for program in programs.split()
    }
)
RESERVED = names(
    "! [[ ]] { } case coproc do done elif else esac fi for function if in select then time until"
    " while"
)
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


# The recogniser. Each branch that allows has read every character of the text.


def read_simple(text: str) -> Simple | NotSimple:
    """Read one simple command, in time linear in its length. Never raises."""
    is_plain = len(text) <= _SURELY_SHORT and text.isprintable()
    if not is_plain:
        unreadable = unreadable_text(text)
        if unreadable:
            return unreadable
    bare = BARE_WORDS.match(text)
    end = bare.end() if bare else 0
    # Nothing but bare words: most commands. A printable text has no other blanks than spaces.
    if is_plain and 0 < end == len(text):
        argv = text.split()
        reason = program_obstacle(argv[0])
        if reason:
            return NotSimple(reason, 0)
        return new(Simple, (text, tuple(argv), _NONE, 0))
    # Bare words before an operator: most other commands. A program that an operator follows at
    # once may go on behind it, so only one with a blank after it is a reason of its own.
    if 0 < end < len(text) and text[end] in _OPERATORS:
        program, blank, _ = text[:end].partition(" ")
        reason = program_obstacle(program) if blank else None
        if reason:
            return NotSimple(reason, 0)
        return new(NotSimple, (Obstacle.OPERATOR, end))
    # The last bare word may go on: `a b'c'`. In other text than plain, any of them may.
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
            reason = program_obstacle(value, is_dynamic=bool(dynamic))
            if reason:
                return NotSimple(reason, position)
        argv.append(value)
        position = word.end()
    # Every character must have been read: words, then at most a comment and blank lines.
    if position < len(text) and not _AFTER.match(text, position):
        return stop_of_word(text, position)
    if not argv:
        return NotSimple(Obstacle.EMPTY, 0)
    numbers = frozenset(dynamic) if dynamic else _NONE
    return new(Simple, (text, tuple(argv), numbers, start))


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
