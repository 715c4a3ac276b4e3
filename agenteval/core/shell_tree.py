"""A parse tree of shell text, and where its nodes stand in the text.

The tree explains and never allows: it is known to be wrong in places, which `shell_walk` mends.
"""

import re

import tree_sitter
import tree_sitter_bash

from agenteval.core.facts import Span

# The parser asks C's isdigit about any character, which reads far outside its table: `{` before
# one like U+AA0E0 kills the process. To bash each of these is a letter of a word and no more, and
# with one byte for each the tree counts characters.
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


class Source:
    """A text, its tree, and how to name a part of it.

    The text may be a piece of a longer one: `base` is then its place there, or `stand_in` the one
    span of the longer text that every part of the piece is shown as.
    """

    __slots__ = ("_base", "_stand_in", "root", "text")

    def __init__(self, text: str, base: int = 0, stand_in: Span | None = None) -> None:
        self.text = text
        plain = text if text.isascii() else _NOT_ASCII.sub(".", text)
        self.root = _PARSER.parse(plain.encode("ascii")).root_node
        self._base = base
        self._stand_in = stand_in

    def place(self, node: tree_sitter.Node) -> tuple[int, int]:
        """Where a node stands in this text, in characters."""
        return node.start_byte, node.end_byte

    def span(self, start: int, end: int) -> Span:
        """A part of this text, as a part of the whole."""
        if self._stand_in is not None:
            return self._stand_in
        return Span(start + self._base, end + self._base, self.text[start:end])

    def part(self, start: int, end: int) -> "Source":
        """A stretch of this text, read again by itself."""
        return Source(self.text[start:end], self._base + start, self._stand_in)
