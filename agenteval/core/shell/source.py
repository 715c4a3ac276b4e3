"""A shell text that is read for its facts, and how to name a part of it.

Where the parse tree gets here-documents wrong, they are put in other words.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from agenteval.core.span import Place, Span, new

if TYPE_CHECKING:
    from tree_sitter import Node

COST = 16  # of a span, beside its text
_BUDGET = 30_000 * COST
_HEREDOC = re.compile(
    r"(?<!<)<<(-?)([ \t]*+)(?:(['\"])([^'\"\n\\$`]*+)\3|\\?+([^\s;&|()<>'\"\\$`]++))"
    r"(?=[\s;&|()<>]|\Z)"
)


@cache
def _parser() -> "Callable[[str], tuple[list[Node], bool]]":
    from agenteval.core.shell.tree import parse  # noqa: PLC0415 -- start-up: most need no tree

    return parse


class Source:
    """A text, and its parse tree, which is made on demand.

    A node's `byte_range` is its place in this text, in characters.

    Spans hold text, and spans inside each other would hold a square of it: each costs `budget`, and
    readers of a source stop when it is used up. `is_cut` is true if the text was parsed in pieces,
    or only its head was: what seems an error may then be none.

    The text may be a piece of a longer one: `base` is then its place there, or `stand_in` the one
    span of the longer text that every part of the piece is shown as. `parsed_as` is the same text
    in words that the parser gets right, each in its place.
    """

    __slots__ = ("_parsed", "base", "budget", "parsed_as", "stand_in", "text")

    def __init__(
        self, text: str, base: int = 0, stand_in: Span | None = None, parsed_as: str = ""
    ) -> None:
        self.text = text
        self.parsed_as = parsed_as or text
        self.budget = _BUDGET + 8 * len(text)
        self._parsed: tuple[list[Node], bool] | None = None
        self.base = base
        self.stand_in = stand_in

    @property
    def roots(self) -> "Sequence[Node]":
        """The nodes that cover the text: the root of its tree, or statements from several."""
        return self._parse()[0]

    @property
    def is_cut(self) -> bool:
        return self._parse()[1]

    def _parse(self) -> "tuple[list[Node], bool]":
        if self._parsed is None:
            self._parsed = _parser()(self.parsed_as)
        return self._parsed

    def place(self, start: int, end: int) -> Place:
        """Return the place of a part of this text in the whole."""
        if self.stand_in is not None:
            return self.stand_in[:2]
        return start + self.base, end + self.base

    def span(self, start: int, end: int) -> Span:
        """A part of this text, as a part of the whole."""
        self.budget -= end - start + COST
        if self.stand_in is not None:
            return self.stand_in
        return new(Span, (start + self.base, end + self.base, self.text[start:end]))

    def part(self, start: int, end: int) -> "Source":
        """A stretch of this text, read again by itself."""
        return Source(self.text[start:end], self.base + start, self.stand_in)


class Hidden(NamedTuple):
    """A here-document that was put in other words, and its body."""

    start: int
    body: Place
    expanded: bool


def without_heredocs(text: str) -> tuple[str, list[Hidden]]:
    """Replace each here-document with input from a file, and its contents with blanks."""
    hidden: list[Hidden] = []
    at = end = 0
    line = -1
    while match := _HEREDOC.search(text, at):
        head, at = match.start(), match.end()
        text = text[:head] + "<".ljust(at - head, "_") + text[at:]
        begin = text.find("\n", at)
        if begin < 0:
            continue
        if begin == line:
            begin = end  # behind the body of the one before it on this line
        else:
            line = begin
        tabs, word = r"\t*" if match[1] else "", match[4] or match[5] or ""
        last = re.compile(rf"\n{tabs}{re.escape(word)}(?=\n|\Z)").search(text, begin)
        end = last.end() if last else len(text)
        body = begin + 1, max(last.start() + 1 if last else end, begin + 1)
        hidden.append(Hidden(head, body, word == match[0].lstrip("<- \t")))
        text = text[: begin + 1] + " " * (end - begin - 1) + text[end:]
    return text, hidden
