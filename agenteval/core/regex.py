"""Regular expressions with possessive groups that read the same on every Python.

Before 3.11.5, `(...)*+` keeps what was read of a last round that fails (python/cpython#106052):
`a'b` would be a word of shell. `(?>(...)*)` is right everywhere, but takes longer, so that only
those Pythons are given it.
"""

import re
import sys
from typing import Any

RIGHT_SINCE = (3, 11, 5)


def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`: for each pattern with `)*+`, `)++` or `)?+`."""
    right = sys.version_info >= RIGHT_SINCE
    return re.compile(pattern, flags) if right else atomic(pattern, flags)


def atomic(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """The pattern with atomic groups in place of its possessive ones."""
    from re import _compiler, _parser  # type: ignore[attr-defined]  # noqa: PLC0415 -- private

    parsed = _parser.parse(pattern, flags)
    for part in _parts(parsed):
        for at, (code, what) in enumerate(part.data):
            if code is _parser.POSSESSIVE_REPEAT:
                greedy = _parser.SubPattern(part.state, [(_parser.MAX_REPEAT, what)])
                part.data[at] = (_parser.ATOMIC_GROUP, greedy)
    made: re.Pattern[str] = _compiler.compile(parsed, flags)
    return made


def _parts(tree: Any) -> list[Any]:
    """Each sub-pattern of a parsed pattern, the inner ones first."""
    inner = tree.data if hasattr(tree, "data") else tree if isinstance(tree, list | tuple) else ()
    found = [part for each in inner for part in _parts(each)]
    return [*found, tree] if hasattr(tree, "data") else found
