"""A shell text that is read for its facts, and how to name a part of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agenteval.core.shell.facts import Place, Span, Words

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

COST = 16  # of a span, beside its text
_ROOM = 30_000 * COST


class Source:
    """A text, and its parse tree when that is asked for.

    A node's `byte_range` is its place in this text, in characters.

    Spans hold text, and spans inside each other would hold a square of it: each costs `room`, and
    who reads a source stops when it is used up. `is_cut` when only the head of the text was parsed.

    The text may be a piece of a longer one: `base` is then its place there, or `stand_in` the one
    span of the longer text that every part of the piece is shown as.
    """

    __slots__ = ("_base", "_parsed", "_stand_in", "room", "text")

    def __init__(self, text: str, base: int = 0, stand_in: Span | None = None) -> None:
        self.text = text
        self.room = _ROOM + 8 * len(text)
        self._parsed: tuple[Tree, bool] | None = None
        self._base = base
        self._stand_in = stand_in

    @property
    def root(self) -> "Node":
        return self._parse()[0].root_node

    @property
    def is_cut(self) -> bool:
        return self._parse()[1]

    def _parse(self) -> "tuple[Tree, bool]":
        if self._parsed is None:
            from agenteval.core.shell.tree import parse  # noqa: PLC0415 -- most texts need no tree

            self._parsed = parse(self.text)
        return self._parsed

    def span(self, start: int, end: int) -> Span:
        """A part of this text, as a part of the whole."""
        self.room -= end - start + COST
        if self._stand_in is not None:
            return self._stand_in
        return Span(start + self._base, end + self._base, self.text[start:end])

    def words(self, places: Sequence[Place]) -> Words:
        """The words at these places of this text."""
        return Words.at(self.text, places, self._base, self._stand_in)

    def plain_words(self, start: int, end: int, first: str) -> Words:
        """Plain words that are found one by one when they are asked for."""
        return Words(self.text, start, end, first, self._base, self._stand_in)

    def part(self, start: int, end: int) -> "Source":
        """A stretch of this text, read again by itself."""
        return Source(self.text[start:end], self._base + start, self._stand_in)
