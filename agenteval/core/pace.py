"""How fast a server is, and how much more time its trials are given for it."""

from collections.abc import Sequence

from agenteval.core.trial import Turn

REFERENCE = 40.0  # tokens a second of one request, waiting included: what limits are written for
LONGEST = 8.0  # times a limit, however slow the server
MEASURED = 200  # tokens from which on a speed is one: a short reply is mostly waiting


def stretch(turns: Sequence[Turn]) -> float:
    """What a trial's time is multiplied with after these turns, from 1 to `LONGEST`.

    Where a server does not count tokens, the pieces of its streams stand for them.
    """
    tokens, seconds = sum(map(_tokens, turns)), sum(turn.seconds for turn in turns)
    if tokens < MEASURED:
        return 1.0
    return min(LONGEST, max(1.0, REFERENCE * seconds / tokens))


def _tokens(turn: Turn) -> int:
    pieces = turn.timing.pieces if turn.timing else 0
    return turn.usage.completion_tokens or pieces
