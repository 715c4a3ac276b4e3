"""How fast one reply came, and which calls were worth anything."""

from collections.abc import Iterator

from agenteval.core.trial import CallRecord, Trial, Turn

# A reply in fewer pieces was held back, by a tool parser for one, and its last gap tells nothing.
MOST_PER_PIECE = 8  # tokens; speculative decoding sends a few at a time


def generation_speed(turn: Turn) -> float | None:
    """Tokens a second after the first piece; None where the pieces do not tell."""
    tokens, timing = turn.usage.completion_tokens, turn.timing
    if timing is None or not timing.gap_mean or tokens > MOST_PER_PIECE * timing.pieces:
        return None
    return tokens / (timing.pieces * timing.gap_mean)


def prefill_speed(turn: Turn) -> float | None:
    """Prompt tokens a second until the first piece, without those that were cached."""
    tokens = turn.usage.prompt_tokens - turn.usage.cached_tokens
    if turn.timing is None or not turn.timing.first or tokens <= 0:
        return None
    return tokens / turn.timing.first


def all_turns(trial: Trial) -> Iterator[Turn]:
    """Of the first agent and of all that it led to."""
    yield from trial.turns
    for agent in trial.agents:
        yield from agent.turns


def useful_calls(trial: Trial) -> int:
    """Calls of all agents that were allowed and ran: generating denied ones is no work done."""
    calls = [*trial.calls, *(call for agent in trial.agents for call in agent.calls)]
    return sum(was_useful(call) for call in calls)


def was_useful(record: CallRecord) -> bool:
    """Whether it was allowed and ran."""
    return record.verdict.allowed and record.execution is not None
