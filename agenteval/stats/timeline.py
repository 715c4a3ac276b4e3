"""What a server did in equal windows of time, all its requests together."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agenteval.stats.samples import Samples, samples

WINDOW = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class Stint:
    """One request: when it began, when its first piece came and when its last, in seconds.

    `useful` are the calls in it that were allowed and ran.
    """

    began: float
    first: float
    ended: float
    tokens: int
    useful: int = 0


@dataclass(frozen=True, slots=True)
class Timeline:
    """Of the whole windows in which there was any request: None where there is no such window.

    Tokens are generated ones a second; completions and useful calls are a minute's.
    """

    tokens: Samples | None = None
    completions: Samples | None = None
    useful: Samples | None = None


def timeline(stints: Sequence[Stint]) -> Timeline:
    """The tokens of a request came evenly, from its first piece to its last."""
    if not stints:
        return Timeline()
    start = min(one.began for one in stints)
    whole = int((max(one.ended for one in stints) - start) // WINDOW)
    completions, useful = Counter[int](), Counter[int]()
    tokens: dict[int, float] = {}
    for one in stints:
        last = int((one.ended - start) // WINDOW)
        completions[last] += 1
        useful[last] += one.useful
        for window in range(int((one.began - start) // WINDOW), last + 1):
            tokens.setdefault(window, 0.0)
        for window, share in _shares(one, start):
            tokens[window] += share * one.tokens
    busy = [window for window in sorted(tokens) if window < whole]
    minute = 60 / WINDOW
    return Timeline(
        tokens=samples(Counter(tokens[window] / WINDOW for window in busy)),
        completions=samples(Counter(completions[window] * minute for window in busy)),
        useful=samples(Counter(useful[window] * minute for window in busy)),
    )


def _shares(one: Stint, start: float) -> Iterator[tuple[int, float]]:
    """Which share of what a request generated fell into which window."""
    length = one.ended - one.first
    last = int((one.ended - start) // WINDOW)
    if length <= 0:
        yield last, 1.0
        return
    for window in range(int((one.first - start) // WINDOW), last + 1):
        opens = start + window * WINDOW
        within = min(one.ended, opens + WINDOW) - max(one.first, opens)
        yield window, within / length
