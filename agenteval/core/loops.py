"""Detection of a model without progress: the same calls again and again, or the same words.

A round counts as the same only with the same answers. A model that polls a job and reads something
new makes progress, and so does one that reads page after page.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agenteval.core.trial import CallRecord

# How often a round of so many calls comes before it is a loop. Twice or three times is a second
# look: a command tried again, a check before and after. Longer rounds than four are not looked for.
ROUNDS = {1: 5, 2: 4, 3: 4, 4: 4}

# A passage is at most so long, comes so often, and fills so many characters at the end of what was
# generated: more than a table or a list does whose lines are alike. One that is still being written
# must fill more, as a file may well hold many equal lines.
LONGEST_PASSAGE = 600
TIMES = 6
FILLED = 1200
RUNAWAY = 6000


@dataclass(frozen=True, slots=True)
class Cycle:
    """A round of calls that came so many times without a break, the last one last."""

    calls: tuple[str, ...]
    times: int

    def __str__(self) -> str:
        return f"{self.times} times the same, with the same answers: {'; then '.join(self.calls)}"


def looped(records: Sequence[CallRecord]) -> Cycle | None:
    """Return the shortest round of calls that the last calls repeat; None if they repeat none."""
    longest = max(period * times for period, times in ROUNDS.items())
    tail = [(one.call.name, one.call.raw, one.reply) for one in records[-longest:]]
    for period, times in ROUNDS.items():
        if len(tail) >= period * times and _repeats(tail[-period * times :], period):
            calls = tuple(f"{name} {raw}"[:LONGEST_PASSAGE] for name, raw, _ in tail[-period:])
            return Cycle(calls, times)
    return None


def _repeats(items: Sequence[object], period: int) -> bool:
    return items[period:] == items[:-period]


def repeated(text: str, filled: int = FILLED) -> str:
    """Return the passage that the end of a text repeats and repeats; empty when it does not.

    It comes at least `TIMES` times, and over at least `filled` characters.
    """
    if len(text) < filled:
        return ""
    for length in _distances(text[-2 * LONGEST_PASSAGE :]):
        span = max(filled, TIMES * length)
        if len(text) >= span and text[-span + length :] == text[-span:-length]:
            return text[-length:]
    return ""


def _distances(tail: str) -> Iterator[int]:
    """Yield how far before its end the last words of a text occur again, the nearest first."""
    last = tail[-40:]
    start = len(tail) - len(last)
    at = start
    while (at := tail.rfind(last, 0, at + len(last) - 1)) >= 0 and start - at <= LONGEST_PASSAGE:
        yield start - at
