"""When the pieces of a streamed reply came."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. A piece is an event that carries words, reasoning or a part of a call.

    `first` is from the request to the first piece, the gaps are those between two pieces: their
    mean, median, 95th percentile and longest, 0 where there is one piece. Servers put one token
    into a piece, or several; `pieces` beside `Usage.completion_tokens` tells which.
    """

    first: float
    pieces: int
    gap_mean: float = 0.0
    gap_median: float = 0.0
    gap_p95: float = 0.0
    gap_longest: float = 0.0

    @property
    def gaps(self) -> tuple[float, float, float, float]:
        return self.gap_mean, self.gap_median, self.gap_p95, self.gap_longest


def timing_of(arrivals: Sequence[float]) -> Timing | None:
    """The timing of pieces that came so many seconds after the request; None for no piece."""
    if not arrivals:
        return None
    gaps = sorted(after - before for before, after in pairwise(arrivals))
    if not gaps:
        return Timing(arrivals[0], 1)
    last = len(gaps) - 1
    return Timing(
        first=arrivals[0],
        pieces=len(arrivals),
        gap_mean=sum(gaps) / len(gaps),
        gap_median=gaps[last // 2],
        gap_p95=gaps[round(0.95 * last)],
        gap_longest=gaps[-1],
    )
