"""The examples beside a rule of Codex: it takes no file whose rules don't do what they say."""

import re
from collections.abc import Sequence

from agenteval.core.shell.words import unquote_double

_BEFORE = re.compile(r"(?:[ \t\n]+|#[^\n]*)*")
_PIECE = re.compile(r"""([^ \t\n'"\\]+)|'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(?:\n|(.))""", re.DOTALL)


def words(example: object) -> Sequence[str] | None:
    """The argv of an example, given as such or as text; None when it is no example."""
    found = _split(example) if isinstance(example, str) else example
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        return None
    return found or None


def _split(text: str) -> list[str] | None:
    """Into words as a shell would, to which operators and expansions are plain characters."""
    found: list[str] = []
    at = _end(_BEFORE.match(text), 0)
    while at < len(text):
        value = ""
        start = at
        while piece := _PIECE.match(text, at):
            plain, single, double, escaped = piece.groups(default="")
            value += plain + single + unquote_double(double) + escaped
            at = piece.end()
        if at == start or text[at : at + 1] not in ("", " ", "\t", "\n"):
            return None
        found.append(value)
        at = _end(_BEFORE.match(text, at), at)
    return found


def _end(match: re.Match[str] | None, otherwise: int) -> int:
    return match.end() if match else otherwise
