"""Has the model stopped making progress: the same calls again and again."""

from collections.abc import Sequence

from agenteval.core.call import ToolCall

REPEATS = 5


def looped(calls: Sequence[ToolCall]) -> bool:
    """Whether the last `REPEATS` calls are one call, word for word."""
    tail = [(call.name, call.raw) for call in calls[-REPEATS:]]
    return len(tail) == REPEATS and len(set(tail)) == 1
