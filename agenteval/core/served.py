"""How a run was served, by its tokens and times, and the pace of what is under way."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agenteval.core.outcome import Outcome
from agenteval.core.trial import Trial, Turn


@dataclass(frozen=True, slots=True)
class Spread:
    """Where the values of so many requests lie: their median, and where nine in ten are."""

    n: int
    median: float
    low: float  # the 5th percentile
    high: float  # the 95th


@dataclass(frozen=True, slots=True)
class AsServed:
    """Of all requests of the trials that are not void. None is what nobody could observe.

    Times are seconds, from the request on; gaps are those between the pieces of one reply. A share
    is seen only where a server told at least one count that is not 0: most that never tell it
    leave it out or send 0.
    """

    first_piece: Spread | None
    gap_median: Spread | None
    gap_p95: Spread | None
    tokens_per_second: Spread | None  # completion tokens, over the time of the whole request
    reasoning: Spread | None  # share of the completion tokens
    cached: Spread | None  # share of the prompt tokens


def as_served(trials: Iterable[Trial]) -> AsServed:
    turns = [
        turn
        for trial in trials
        if trial.outcome is not Outcome.VOID
        for turn in (*trial.turns, *(turn for part in trial.agents for turn in part.turns))
    ]
    timings = [turn.timing for turn in turns if turn.timing]
    with_gaps = [timing for timing in timings if timing.pieces > 1]
    return AsServed(
        first_piece=spread([timing.first for timing in timings]),
        gap_median=spread([timing.gap_median for timing in with_gaps]),
        gap_p95=spread([timing.gap_p95 for timing in with_gaps]),
        tokens_per_second=spread(
            [turn.usage.completion_tokens / turn.seconds for turn in _told(turns)]
        ),
        reasoning=_share(
            [(one.usage.reasoning_tokens, one.usage.completion_tokens) for one in turns]
        ),
        cached=_share([(one.usage.cached_tokens, one.usage.prompt_tokens) for one in turns]),
    )


def _told(turns: Sequence[Turn]) -> list[Turn]:
    return [turn for turn in turns if turn.usage.completion_tokens and turn.seconds]


def _share(counts: Sequence[tuple[int, int]]) -> Spread | None:
    if not any(part for part, _ in counts):
        return None
    return spread([part / whole for part, whole in counts if whole])


def spread(values: Sequence[float]) -> Spread | None:
    """None for no values."""
    if not values:
        return None
    ordered = sorted(values)
    last = len(ordered) - 1
    middle = (ordered[last // 2] + ordered[(last + 1) // 2]) / 2
    return Spread(len(ordered), middle, ordered[round(0.05 * last)], ordered[round(0.95 * last)])


REFERENCE = 40.0  # tokens a second of one request, waiting included: what limits are written for
LONGEST = 8.0  # times a limit, however slow the server
MEASURED = 200  # tokens from which on a speed is one: a short reply is mostly waiting


def stretch(tokens: int, seconds: float) -> float:
    """What a limit is multiplied with, from 1 to `LONGEST`, where so many tokens took so long."""
    if tokens < MEASURED:
        return 1.0
    return min(LONGEST, max(1.0, REFERENCE * seconds / tokens))


def generated(turn: Turn) -> int:
    """The tokens of a turn; where a server does not count, the pieces of its stream."""
    pieces = turn.timing.pieces if turn.timing else 0
    return turn.usage.completion_tokens or pieces
