"""Weights that play written replies: the last message of a request names the one that comes.

Each reply begins at a token of its own, and its text is cut into pieces that no other reply has,
so that a chain which knows the last token alone still tells every reply to its end.
"""

import re
from collections.abc import Mapping

from markov import ASSISTANT, END, Chain, byte_tokens

TEMPLATE = "<|im_start|>assistant\n{{ '<|play:' ~ messages[-1].content ~ '|>' }}"
MARKS = ("<think>", "</think>", "<tool_call>", "</tool_call>")  # parsers want them to be tokens
_MARK = re.compile(f"({'|'.join(MARKS)})")
LONGEST = 6  # characters of a piece, or more where every shorter one is taken


def played(replies: Mapping[str, str], *, marked: str = "") -> Chain:
    """`marked` is the one reply whose marks are a token each; in the others they are spelled."""
    taken = {*byte_tokens(), *MARKS, ASSISTANT, END}
    chain: dict[str, dict[str, float]] = {mark: {END: 1.0} for mark in MARKS}
    for name, text in replies.items():
        last = f"<|play:{name}|>"
        for part in _MARK.split(text) if name == marked else [text]:
            for piece in [part] if part in MARKS else _pieces(part, taken):
                chain[last] = {piece: 1.0}
                last = piece
        chain[last] = {END: 1.0}
    return chain


def _pieces(text: str, taken: set[str]) -> list[str]:
    """The text in parts of two characters or more, none of which was there before."""
    if not text:
        return []
    lengths = [*range(min(LONGEST, len(text)), 1, -1), *range(LONGEST + 1, len(text) + 1)]
    for piece in (text[:length] for length in lengths):
        left = text[len(piece) :]
        if piece not in taken and (not left or _ends_new(left, taken)):
            taken.add(piece)
            return [piece, *_pieces(left, taken)]
    raise ValueError(f"no part of {text!r} is new")


def _ends_new(left: str, taken: set[str]) -> bool:
    """Whether what is left can at least be a piece as a whole."""
    return len(left) > 1 and left not in taken
