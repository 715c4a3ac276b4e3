"""What bash expands in text that a parse tree holds as plain characters: here-document bodies."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from agenteval.core.shell.facts import SubstitutionKind

_LIVE = re.compile(r"\\(?s:.)|\$\(\(|\$\(|\$\{[^}\n]*+\}?|\$[A-Za-z_]\w*+|\$[0-9@*#?$!-]|`")
_IN_CODE = re.compile(r"""\\(?s:.)|'[^']*+'|["()]""")
_IN_DOUBLE_QUOTES = re.compile(r'\\(?s:.)|"|\$\(')
_BACKTICK_END = re.compile(r"(?:[^\\`]++|\\(?s:.))*+`")


class Embedded(NamedTuple):
    """One expansion, and where the commands inside it stand, if it has any."""

    kind: SubstitutionKind
    start: int
    end: int
    inside: tuple[int, int] | None = None


def embedded_in(text: str, start: int, end: int) -> Iterator[Embedded]:
    """The expansions in a stretch of text where quotes mean nothing, outermost ones only.

    Ends at the first one that does not end: what follows it is all inside.
    """
    at = start
    while found := _LIVE.search(text, at, end):
        begin, at = found.span()
        opening = found[0]
        if opening == "`":
            closing = _BACKTICK_END.match(text, at, end)
            if closing is None:
                return
            inside = (at, closing.end() - 1)
            at = closing.end()
            yield Embedded(SubstitutionKind.COMMAND, begin, at, inside)
        elif opening.startswith("$("):
            close = _closing(text, begin + 2, end)
            if close < 0:
                return
            inside, at = (begin + 2, close), close + 1
            if opening == "$((":
                yield Embedded(SubstitutionKind.ARITHMETIC, begin, at)
            else:
                yield Embedded(SubstitutionKind.COMMAND, begin, at, inside)
        elif opening[0] == "$":
            yield Embedded(SubstitutionKind.PARAMETER, begin, at)


def _closing(text: str, at: int, end: int) -> int:
    """Where the parenthesis opened before `at` is closed, or -1."""
    open_marks = ["("]
    while open_marks:
        in_quotes = open_marks[-1] == '"'
        found = (_IN_DOUBLE_QUOTES if in_quotes else _IN_CODE).search(text, at, end)
        if found is None:
            return -1
        at = found.end()
        mark = found[0]
        if mark == ")" or (mark == '"' and in_quotes):
            open_marks.pop()
        elif mark in ('"', "(", "$("):
            open_marks.append("(" if mark != '"' else mark)
    return at - 1
