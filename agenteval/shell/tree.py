"""A parse tree of shell text.

The tree explains and never allows: it is known to be wrong in places, which the walk corrects.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import TypeVar

import tree_sitter_bash
from tree_sitter import Language, Node, Parser, Point, Range, Tree

# The parser asks C's isdigit about any character, which reads far outside its table: `{` before
# one like U+AA0E0 kills the process. To bash each of these is a letter of a word and no more, and
# with one byte for each the tree counts characters.
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_LANGUAGE = Language(tree_sitter_bash.language())
_PARSER = Parser(_LANGUAGE)
_SHORT = 2048  # bytes that are parsed without counting steps
# Where very many things wait to be closed, the parser reads the rest of the text for each of them.
# A step is a hundred of its operations; real scripts took 12 for each 1,000 bytes at most, those
# above 20,000 bytes 7, and none more than 400. What it reads is handed over in blocks: so the
# number of reads tells how much of it was read again.
_BYTES_OF_A_STEP = 64
_MOST_STEPS = 700
_FEWEST_STEPS = 8
_BLOCK = 2048
_MOST_READS = 600  # beside those of a whole reading; a real script jumped back 182 times
_FEWEST_READS = 32  # where little is read at once
_LONGEST = 131_071  # characters; above that no shell can be given the text, and its head must do
_LONG = 16_384  # characters of a text that takes long to parse
_HEAD = 4096  # characters of a longer text that are read
_MOST = 65_536  # characters of a text with more steps that are read
_PIECE = 512  # bytes that are parsed at once of a text with more steps
_STRIDE = 64  # bytes by which a piece must get on
_EFFORT = 3_000_000  # steps times bytes for statements that are longer
# Where a statement is cut that is too long: the first of these that stands in a piece.
_JOINTS = frozenset((";", "&", "&&", "||", "|", "|&", "\n"))
_CUTS = [
    re.compile(rb"(?s:.*)" + end) for end in (rb"[;\n](?![;&])", rb"[|&](?![|&>0-9])", rb"[ \t]")
]
_ERROR = 0xFFFF
_KINDS = {
    number: _LANGUAGE.node_kind_for_id(number) or ""
    for number in (*range(_LANGUAGE.node_kind_count), _ERROR)
}
_T = TypeVar("_T")


def by_kind(table: Mapping[str, _T]) -> dict[int, _T]:
    """Return the table by `Node.kind_id`, which takes 32 ns where `Node.type` takes 55."""
    return {number: table[kind] for number, kind in _KINDS.items() if kind in table}


def kinds(listed: str) -> frozenset[int]:
    """Return the `Node.kind_id` of each kind in a text, apart by blanks."""
    return frozenset(by_kind(dict.fromkeys(listed.split())))


def parse(text: str) -> tuple[list[Node], bool]:
    """Return the nodes that cover a text, and whether it was read in pieces.

    Offsets are in characters.
    """
    return _parse_long(text) if len(text) > _LONG else _parse_text(text)


def _parse_text(text: str) -> tuple[list[Node], bool]:
    plain = text if text.isascii() else _NOT_ASCII.sub(".", text)
    raw = plain.encode("ascii")
    if tree := _parse(raw):
        return [tree.root_node], False
    most = _HEAD if len(raw) > _LONGEST else _MOST
    return list(_Pieces(raw[:most])), True


# Another harness's engine reads it first, and then who explains its verdict.
_parse_long = lru_cache(maxsize=1)(_parse_text)


def _parse(raw: bytes) -> Tree | None:
    """Return the tree of a text, or None when it takes too many steps."""
    if len(raw) <= _SHORT:
        return _PARSER.parse(raw)
    most = min(len(raw) // _BYTES_OF_A_STEP, _MOST_STEPS)
    if len(raw) > _LONGEST:
        if b"<<" not in raw:
            return None
        most = _FEWEST_STEPS  # whole only if nearly all of it is one here-document
    tree, _ = _parse_part(raw, 0, len(raw), most)
    return tree


def _parse_part(
    raw: bytes,
    start: int,
    end: int,
    most: int,
) -> tuple[Tree | None, int]:
    """Return the tree of a part of a text, None when it takes more steps, and its cost in bytes."""
    size = end - start
    steps, reads = count(), count()
    most_reads = _MOST_READS + size // _BLOCK if size > _SHORT else _FEWEST_READS
    view = memoryview(raw)

    def read(at: int, _point: Point) -> memoryview | bytes:
        return view[at : min(at + _BLOCK, end)] if next(reads) < most_reads else b""

    part = Range(Point(0, start), Point(0, end), start, end)
    parser = Parser(_LANGUAGE, included_ranges=[part])
    try:
        tree = parser.parse(read, progress_callback=lambda _offset, _error: next(steps) > most)
    except ValueError:
        return None, most * size
    read_blocks = next(reads)
    cost = next(steps) * size + read_blocks * _BLOCK
    return tree if read_blocks <= most_reads else None, cost


class _Pieces:
    """The statements of a text that takes too many steps, parsed a few at a time.

    Each piece begins with the statement whose end the one before it did not hold. A statement that
    is longer than a piece is parsed in a larger one while there is effort left, and else is cut
    behind an operator: so all pieces together take time linear in the length.
    """

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = 0
        self.effort = _EFFORT

    def __iter__(self) -> Iterator[Node]:
        while self.at < len(self.raw):
            yield from self._next()

    def _next(self) -> list[Node]:
        # A statement that does not fit is looked for in twice as much text, while effort is left.
        size = first = self._size()
        nodes = short = self._parse(size)
        while self.at + size < len(self.raw):
            nodes = [child for node in nodes for child in _unwrapped(node)]
            whole = self._whole(nodes)
            if whole and nodes[whole].start_byte >= self.at + min(first, _STRIDE):
                self.at = nodes[whole].start_byte
                return nodes[:whole]
            size *= 2
            nodes = self._parse(size)
            if not nodes:
                self.at += first
                return short
        self.at = len(self.raw)
        return nodes

    def _size(self) -> int:
        """Return the number of bytes before a place to cut at, if the statement is too long."""
        for mark in _CUTS:
            if cut := mark.match(self.raw, self.at, self.at + _PIECE):
                return cut.end() - self.at
        return _PIECE

    def _parse(self, size: int) -> list[Node]:
        """The nodes of the next so many bytes; none when that takes too much effort."""
        is_large = size > _PIECE
        most = max(self.effort // size, 0) if is_large else size
        end = min(self.at + size, len(self.raw))
        tree, cost = _parse_part(self.raw, self.at, end, most)
        if is_large:
            self.effort -= cost if tree else _EFFORT // 8
        return tree.root_node.children if tree else []

    def _whole(self, nodes: Sequence[Node]) -> int:
        """Return the number of nodes that are surely whole: all before what is never closed."""
        for number, node in enumerate(nodes):
            if not node.is_named and node.type not in _JOINTS:
                before = nodes[number - 1] if number else node
                between = self.raw[before.end_byte : node.start_byte]
                return number - 1 if before.is_named and b"\n" not in between else number
        named = [number for number, node in enumerate(nodes) if node.is_named]
        return named[-1] if named else 0


def _unwrapped(node: Node) -> list[Node]:
    return node.children if node.is_error else [node]
