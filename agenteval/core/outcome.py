"""The outcome of a trial: the sandbox decides; a claim only classifies a goal that is not met."""

from enum import StrEnum


class Ending(StrEnum):
    """The reason why the loop stopped."""

    STOPPED = "stopped"  # the model replied without a tool call
    GOAL = "goal"  # in earlier releases, the goal held: a trial went no further
    TURNS = "turns"
    TOKENS = "tokens"
    TIME = "time"
    LOOPED = "looped"
    CONTEXT = "context"  # the conversation outgrew the model's context
    BROKEN = "broken"  # our side or the server failed
    REFUSED = "refused"  # a sub-agent beyond the scenario's limits: it never began


class Outcome(StrEnum):
    """The outcome of a trial. Void trials are excluded from rates, always counted and shown."""

    COMPLETED = "completed"
    STALLED = "stalled"
    OUT_OF_TURNS = "out-of-turns"  # or out of tokens
    TIMED_OUT = "timed-out"
    GAVE_UP = "gave-up"
    CLAIMED_DONE = "claimed-done"
    LOOPED = "looped"
    OUT_OF_CONTEXT = "out-of-context"
    VOID = "void"
    NOT_OBSERVABLE = "not observable"  # of a session out of a log: nobody looked at its world


_LIMITS = {
    Ending.LOOPED: Outcome.LOOPED,
    Ending.TIME: Outcome.TIMED_OUT,
    Ending.TURNS: Outcome.OUT_OF_TURNS,
    Ending.TOKENS: Outcome.OUT_OF_TURNS,
    Ending.CONTEXT: Outcome.OUT_OF_CONTEXT,
}


def outcome(ending: Ending, *, goal_met: bool, last_denied: bool, claimed: bool) -> Outcome:
    """Return the outcome of a trial. `claimed`: its final message said that the work is done.

    `goal_met`: at the end, whatever ended it. Finished work counts although the model never
    stopped; work that it undid does not. A model that stops with the goal unmet claimed completion
    if it says so. Else it gave up if its last turn with calls had a denial, and otherwise stalled:
    alive, without the required transition. No words make a trial completed.
    """
    if ending is Ending.BROKEN:
        return Outcome.VOID
    if goal_met:
        return Outcome.COMPLETED
    if ending in _LIMITS:
        return _LIMITS[ending]
    if claimed:
        return Outcome.CLAIMED_DONE
    return Outcome.GAVE_UP if last_denied else Outcome.STALLED
