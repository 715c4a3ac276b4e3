"""What a model does after it was denied, read from its finished trial.

A model reads the denials of a turn before it writes the next one, so calls of the same turn are no
reaction to each other. What follows a denial is the next turn; of several calls there, the one most
like the denied call, so that calls made side by side are each compared with their own successor.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby, pairwise

from agenteval.core.counts import Cluster
from agenteval.core.likeness import likeness, same_call, same_intent
from agenteval.core.trial import CallRecord, Trial, Turn


class Recovery(StrEnum):
    """What the next turn did. The first two are recoveries, the retries are denied again."""

    PIVOT = "pivot"  # another call, allowed
    REPAIR = "repair"  # the same intent without the offending construct, allowed
    RETRY_IDENTICAL = "retry-identical"  # the same tool with the same arguments
    RETRY_SAME_CLASS = "retry-same-class"  # another call, the same primary failure class
    RETRY_OTHER_CLASS = "retry-other-class"
    ASK = "ask"  # text only, ending in a question
    GIVE_UP = "give-up"  # text only, or nothing at all
    NONE = "none"  # there was no next turn: the trial ended with this one

    @property
    def recovered(self) -> bool:
        return self in {Recovery.PIVOT, Recovery.REPAIR}


@dataclass(frozen=True, slots=True)
class Aftermath:
    """One denial and what followed it.

    `turns` counts from the denial to the first later turn with an allowed call (1: the next one),
    `calls` the calls made in those turns up to and with it. Both are None when none was allowed.
    """

    denial: CallRecord
    recovery: Recovery
    turns: int | None = None
    calls: int | None = None


@dataclass(frozen=True, slots=True)
class TrialRecovery:
    """What followed the denials of one trial.

    A turn is burned when it made calls and all were denied. `after_denied` counts the denied calls
    among those made when the call last heard of was denied, `after_allowed` likewise.
    """

    aftermaths: tuple[Aftermath, ...]
    longest_run: int  # of denied calls, one after the other
    turns_burned: Cluster
    after_denied: Cluster
    after_allowed: Cluster


def recoveries(trial: Trial) -> list[Recovery]:
    """What followed each denial, in the order of the denials."""
    return [aftermath.recovery for aftermath in trial_recovery(trial).aftermaths]


def trial_recovery(trial: Trial) -> TrialRecovery:
    by_turn = [tuple(calls) for _, calls in groupby(trial.calls, lambda record: record.turn)]
    after_denied, after_allowed = _hazards(by_turn)
    return TrialRecovery(
        aftermaths=_aftermaths(trial.turns, by_turn),
        longest_run=_longest_run(trial.calls),
        turns_burned=(sum(all(map(_denied, calls)) for calls in by_turn), len(trial.turns)),
        after_denied=after_denied,
        after_allowed=after_allowed,
    )


def _denied(record: CallRecord) -> bool:
    return not record.verdict.allowed


def _aftermaths(
    turns: Sequence[Turn], by_turn: Sequence[tuple[CallRecord, ...]]
) -> tuple[Aftermath, ...]:
    found = []
    for index, calls in enumerate(by_turn):
        later = by_turn[index + 1 :]
        needed_turns, needed_calls = _way_back(calls[0].turn, later)
        following = next(iter(later), ())
        for denial in filter(_denied, calls):
            recovery = _recovery(denial, turns, following)
            found.append(Aftermath(denial, recovery, needed_turns, needed_calls))
    return tuple(found)


def _way_back(turn: int, later: Sequence[tuple[CallRecord, ...]]) -> tuple[int | None, int | None]:
    """Turns and calls from `turn` to the first allowed call of a later one."""
    calls = 0
    for records in later:
        for record in records:
            calls += 1
            if record.verdict.allowed:
                return record.turn - turn, calls
    return None, None


def _recovery(
    denial: CallRecord, turns: Sequence[Turn], following: Sequence[CallRecord]
) -> Recovery:
    if denial.turn + 1 >= len(turns):
        return Recovery.NONE
    if not following or following[0].turn != denial.turn + 1:
        asked = turns[denial.turn + 1].text.rstrip().endswith("?")
        return Recovery.ASK if asked else Recovery.GIVE_UP
    answer = max(following, key=lambda record: likeness(denial.call, record.call))
    return _reaction(denial, answer)


def _reaction(denial: CallRecord, answer: CallRecord) -> Recovery:
    if answer.verdict.primary is None:
        repaired = same_intent(denial.call, answer.call)
        return Recovery.REPAIR if repaired else Recovery.PIVOT
    if same_call(denial.call, answer.call):
        return Recovery.RETRY_IDENTICAL
    before = denial.verdict.primary
    again = before is not None and before.failure_class == answer.verdict.primary.failure_class
    return Recovery.RETRY_SAME_CLASS if again else Recovery.RETRY_OTHER_CLASS


def _longest_run(calls: Sequence[CallRecord]) -> int:
    runs = (len(list(run)) for denied, run in groupby(calls, _denied) if denied)
    return max(runs, default=0)


def _hazards(by_turn: Sequence[tuple[CallRecord, ...]]) -> tuple[Cluster, Cluster]:
    """(denied, calls) after a denied call and after an allowed one, the first turn left out."""
    denied, calls = {True: 0, False: 0}, {True: 0, False: 0}
    for before, now in pairwise(by_turn):
        state = _denied(before[-1])
        denied[state] += sum(map(_denied, now))
        calls[state] += len(now)
    return (denied[True], calls[True]), (denied[False], calls[False])
