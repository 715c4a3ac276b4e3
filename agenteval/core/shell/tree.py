"""A parse tree of shell text.

The tree explains and never allows: it is known to be wrong in places, which `shell_walk` mends.
"""

import re
from collections.abc import Mapping
from itertools import count
from typing import TypeVar

import tree_sitter
import tree_sitter_bash

# The parser asks C's isdigit about any character, which reads far outside its table: `{` before
# one like U+AA0E0 kills the process. To bash each of these is a letter of a word and no more, and
# with one byte for each the tree counts characters.
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_LANGUAGE = tree_sitter.Language(tree_sitter_bash.language())
_PARSER = tree_sitter.Parser(_LANGUAGE)
_SHORT = 2048  # bytes that are parsed without counting steps
# Where very many things wait to be closed, the parser reads the rest of the text for each of them.
# A step is a hundred of its operations; 10,000 real commands, some of 20 kB, took 7 at most.
_STEPS_TIMES_BYTES = 500_000
_FEWEST_STEPS = 8
_MOST_READS = 200  # a jump back is one; real commands need 8
_LONGEST = 131_071  # characters; above that no shell can be given the text, and its head must do
_HEAD = 4096  # characters of a text with more steps that are read

_ERROR = 0xFFFF
_KINDS = {
    number: _LANGUAGE.node_kind_for_id(number) or ""
    for number in (*range(_LANGUAGE.node_kind_count), _ERROR)
}
_T = TypeVar("_T")


def by_kind(table: Mapping[str, _T]) -> dict[int, _T]:
    """The table with `Node.kind_id` for keys, which takes 32 ns where `Node.type` takes 55."""
    return {number: table[kind] for number, kind in _KINDS.items() if kind in table}


def kinds(*names: str) -> frozenset[int]:
    return frozenset(by_kind(dict.fromkeys(names)))


def parse(text: str) -> tuple[tree_sitter.Tree, bool]:
    """The tree of a text, its offsets in characters, and whether it is of the head alone."""
    plain = text if text.isascii() else _NOT_ASCII.sub(".", text)
    tree = _parse(plain.encode("ascii"))
    return (tree, False) if tree else (_PARSER.parse(plain[:_HEAD].encode("ascii")), True)


def _parse(raw: bytes) -> tree_sitter.Tree | None:
    """The tree of a text, or None when it takes too many steps."""
    if len(raw) <= _SHORT:
        return _PARSER.parse(raw)
    if len(raw) > _LONGEST and b"<<" not in raw:
        return None
    most = max(_STEPS_TIMES_BYTES // len(raw), _FEWEST_STEPS)
    steps, reads = count(), count()
    view = memoryview(raw)
    try:
        tree = _PARSER.parse(
            lambda offset, _point: view[offset:] if next(reads) < _MOST_READS else b"",
            progress_callback=lambda _offset, _has_error: next(steps) > most,
        )
    except ValueError:
        _PARSER.reset()
        return None
    return tree if next(reads) <= _MOST_READS else None
