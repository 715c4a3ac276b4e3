r"""One word of shell text: where it ends and what bash makes of its quotes.

Only words with a single reading are matched: plain characters, '...', "..." in which nothing is
expanded, \c, and \newline. Control characters must have been ruled out before.
"""

import re
import sys
from typing import Any, Literal

Expansion = Literal["", "files", "braces"]
# Before, `(...)*+` keeps what was read of a last round that fails (python/cpython#106052): `a'b`
# would be a word. `(?>(...)*)` is right everywhere, and takes longer.
RIGHT_SINCE = (3, 11, 5)


def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a pattern, as `re.compile` does. For each pattern with `)*+`, `)++` or `)?+`."""
    right = sys.version_info >= RIGHT_SINCE
    return re.compile(pattern, flags) if right else atomic(pattern, flags)


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
    """Each sub-pattern of a parsed pattern, the inner ones first."""
    inner = tree.data if hasattr(tree, "data") else tree if isinstance(tree, list | tuple) else ()
    found = [part for each in inner for part in _parts(each)]
    return [*found, tree] if hasattr(tree, "data") else found


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
    value, outside = list[str](), list[str]()
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
    return "files" if outside.startswith("~") or "=~" in outside or ":~" in outside else ""


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
        return _NAMED.get(character, character if character in "\\'\"?" else escape[0])
    number = int(octal, 8) if octal else int(next(code for code in codes if code), 16)
    return chr(number) if number <= _LAST_CODE_POINT else escape[0]
