"""How fast a server is, and how much more time is given for it."""

from agenteval.core.trial import Turn

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
