"""A part of a text: what facts, findings and evidence are shown by."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

Place = tuple[int, int]  # where it starts and ends


class Span(NamedTuple):
    """A part of the text, `text[start:end]`."""

    start: int
    end: int
    text: str


def outside(spans: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """The spans that stand in none of the others."""
    order = sorted(others)
    starts = [other.start for other in order]
    furthest = [0, *accumulate((other.end for other in order), max)]
    return [span for span in spans if furthest[bisect_right(starts, span.start)] < span.end]
