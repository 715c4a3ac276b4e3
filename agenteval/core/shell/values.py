r"""What a word of any kind stands for, as far as its text alone can say: for facts, never to allow.

Where bash expands something the source text is kept and the word is called dynamic.
"""

import re

from agenteval.core.shell.words import BARE, MIXED, WORD_OR_OPERATOR, expansion, unquote

_PIECE = re.compile(
    r"""\$'((?:[^'\\]++|\\(?s:.))*+)'   # 1: $'...'
      | '([^']*+)'                      # 2
      | \$?"((?:[^"\\]++|\\(?s:.))*+)"  # 3: "..." and $"..."
      | \\(\n|(?s:.)|\Z)                # 4
      | ([^'"\\$`]++|(?s:.))            # 5""",
    re.VERBOSE,
)
_LIVE = re.compile(r"[$`](?![ \t\n]|\Z)|[<>]\(")
_ESCAPED = re.compile(r'\\(?:\n|([\\"$`]))')
_ANSI = re.compile(
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
    for piece in _PIECE.finditer(raw):
        ansi, single, double, escaped, other = piece.groups()
        quoted = quoted or other is None
        if ansi is not None:
            value.append(_ANSI.sub(_ansi_character, ansi))
        elif double is not None:
            value.append(_ESCAPED.sub(r"\1", double))
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
