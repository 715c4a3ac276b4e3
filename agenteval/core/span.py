"""A part of a text: what facts, findings and evidence are shown by."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

Place = tuple[int, int]  # where it starts and ends
# A named tuple's own constructor is a function of Python: `new(Pair, (a, b))` takes half as long.
new = tuple.__new__


class Span(NamedTuple):
    """A part of the text, `text[start:end]`."""

    start: int
    end: int
    text: str


class Word(NamedTuple):
    """One word of shell: `text` is its value without quotes, `dynamic` that bash expands it."""

    text: str
    span: Span
    quoted: bool = False
    dynamic: bool = False


def inside(spans: Sequence[Span], places: Sequence[Place]) -> list[Span]:
    """The spans that stand in one of the places."""
    return [span for span, end in _covered(spans, places) if span.end <= end]


def outside(spans: Sequence[Span], places: Sequence[Place]) -> list[Span]:
    """The spans that stand in none of the places."""
    return [span for span, end in _covered(spans, places) if span.end > end]


def _covered(spans: Sequence[Span], places: Sequence[Place]) -> Iterator[tuple[Span, int]]:
    """Each span with the furthest end of the places that begin before it."""
    order = sorted(places)
    starts = [start for start, _ in order]
    furthest = [0, *accumulate((end for _, end in order), max)]
    return ((span, furthest[bisect_right(starts, span.start)]) for span in spans)
