r"""One word of shell text: where it ends and what bash makes of its quotes.

Only words with a single reading are matched: plain characters, '...', "..." in which nothing is
expanded, \c, and \newline. Control characters must have been ruled out before.
"""

import re
from typing import Literal

Expansion = Literal["", "files", "braces"]

# A $ that stays a $: nothing after it can name a variable. Not before \newline, which vanishes.
_DOUBLE = r"""(?:[^"\\$`]++|\\(?s:.)|\$(?=[ \t\n"'|)/.,:;%=^+\]}&<>~]|\\[^\n]))*+"""
_BARE = r"""[^ \t\n|&;()<>'"\\$`*?\[{~#][^ \t\n|&;()<>'"\\$`*?\[{~]*+"""
_MIXED = rf"""(?!\#)(?:[^ \t\n|&;()<>'"\\$`]++|'[^']*+'|"{_DOUBLE}"|\\(?s:.)|\$(?=[ \t\n]|\Z))++"""
_ANY = rf"""(?:({_BARE})|'([^']*+)'|"([^"\\$`]*+)"|({_MIXED}))"""
BARE, MIXED = 1, 4  # the groups of a word: all of it, and one that needs `unquote`

GAP = r"(?:[ \t]++|\\\n)*+"
# A whole word and the blanks after it, where a blank or the end must follow.
WORD = re.compile(rf"{_ANY}(?=[ \t\n]|\Z){GAP}")
# The same where an operator may follow at once.
WORD_OR_OPERATOR = re.compile(rf"{_ANY}(?=[ \t\n|&;()<>]|\Z)")

# As much of a word, or of a "...", as has one reading: where these end is what stopped the reader.
WORD_START = re.compile(_MIXED)
DOUBLE_START = re.compile(rf'"{_DOUBLE}')

_PIECE = re.compile(rf"""([^'"\\]++)|'([^']*+)'|"({_DOUBLE})"|\\(?:\n|((?s:.)))""")
_ESCAPE_IN_DOUBLE = re.compile(r'\\(?:\n|([\\"$`]))')
_QUOTED = "\0"  # stands for a quoted piece where only unquoted characters count


def unquote(raw: str) -> tuple[str, Expansion]:
    """What bash makes of a `MIXED` word: its text after quote removal, and what still expands."""
    value: list[str] = []
    mask: list[str] = []
    for piece in _PIECE.finditer(raw):
        plain, single, double, escaped = piece.groups()
        if plain is not None:
            value.append(plain)
            mask.append(plain)
        elif (quoted := single if single is not None else escaped) is not None:
            value.append(quoted)
            mask.append(_QUOTED)
        elif double is not None:
            value.append(_ESCAPE_IN_DOUBLE.sub(r"\1", double))
            mask.append(_QUOTED)
    return "".join(value), _expansion("".join(mask))


def _expansion(unquoted: str) -> Expansion:
    """What bash expands in a word. Errs towards expansion, never against it."""
    if "{" in unquoted and ("," in unquoted or ".." in unquoted):
        return "braces"
    if "*" in unquoted or "?" in unquoted:
        return "files"
    bracket = unquoted.find("[")
    if 0 <= bracket < max(unquoted.rfind("]"), unquoted.rfind(_QUOTED)):
        return "files"
    if unquoted.startswith("~") or "=~" in unquoted or ":~" in unquoted:
        return "files"
    return ""
