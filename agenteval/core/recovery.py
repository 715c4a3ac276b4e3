"""What a model does after it was denied, read from its finished trial.

A model reads the denials of a turn before it writes the next one, so calls of the same turn are no
reaction to each other. What follows a denial is the next turn; of several calls there, the one most
like the denied call, so that calls made side by side are each compared with their own successor.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby, pairwise

from agenteval.core.call import ToolCall
from agenteval.core.counts import Cluster
from agenteval.core.trial import Trial

_WORDS = re.compile(r"[^\s'\"`|&;<>(){}\[\]$,:=/\\]+")
_SCRIPT = re.compile(r".+\.[A-Za-z]{1,4}")
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")


def same_call(one: ToolCall, other: ToolCall) -> bool:
    if one.name != other.name:
        return False
    if one.arguments is None or other.arguments is None:
        return one.raw == other.raw
    return one.arguments == other.arguments


def likeness(one: ToolCall, other: ToolCall) -> float:
    """The share of words that two calls have in common: 1.0 when all are, 0.0 when none is."""
    mine, theirs = {one.name, *_words(one)}, {other.name, *_words(other)}
    return len(mine & theirs) / len(mine | theirs)


def same_intent(denied: ToolCall, allowed: ToolCall) -> bool:
    """Whether an allowed call does what the denied one was after.

    It does when its target stands in the denied call: the first word that looks like a file, or
    else its first word, and the subcommand right behind it if there is one. It also does when it
    runs what the denied call took for the name of a tool.
    """
    words = _words(denied)
    target = _target(_words(allowed))
    if target and all(word in words for word in target):
        return True
    return denied.name != allowed.name and denied.name in _stems(_words(allowed))


def _words(call: ToolCall) -> list[str]:
    if call.command is not None:
        return _WORDS.findall(call.command)
    if call.arguments is None:
        return _WORDS.findall(call.raw)
    return _WORDS.findall(" ".join(str(value) for value in call.arguments.values()))


def _target(words: list[str]) -> list[str]:
    start = next((at for at, word in enumerate(words) if _SCRIPT.fullmatch(word)), 0)
    subcommand = [word for word in words[start + 1 : start + 2] if _SUBCOMMAND.fullmatch(word)]
    return [*words[start : start + 1], *subcommand]


def _stems(words: list[str]) -> set[str]:
    return {word.rsplit(".", 1)[0].replace("-", "_") for word in words} | set(words)


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
class Attempt:
    """One call as it is seen here. `failure_class` is empty when the call was allowed.

    `call` is looked at only where it was denied, and in the turn after a denial.
    """

    turn: int
    position: int
    failure_class: str
    call: ToolCall


@dataclass(frozen=True, slots=True)
class Aftermath:
    """One denial, by the turn and position of the call and its primary class; what followed it.

    `turns` counts from the denial to the first later turn with an allowed call (1: the next one),
    `calls` the calls made in those turns up to and with it. Both are None when none was allowed.
    `played` are all turns that the trial took after the denial.
    """

    turn: int
    position: int
    failure_class: str
    recovery: Recovery
    played: int
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


NO_DENIALS = TrialRecovery((), 0, (0, 0), (0, 0), (0, 0))


def recoveries(trial: Trial) -> list[Recovery]:
    """What followed each denial, in the order of the denials."""
    return [aftermath.recovery for aftermath in trial_recovery(trial).aftermaths]


def trial_recovery(trial: Trial) -> TrialRecovery:
    attempts = []
    for record in trial.calls:
        primary = record.verdict.primary
        failure_class = primary.failure_class if primary else ""
        attempts.append(Attempt(record.turn, record.position, failure_class, record.call))
    texts = {number: turn.text for number, turn in enumerate(trial.turns)}
    return recovery_of(attempts, turns=len(trial.turns), texts=texts)


def recovery_of(
    attempts: Sequence[Attempt], *, turns: int, texts: Mapping[int, str]
) -> TrialRecovery:
    """The same from the calls of a trial alone, in their order, and how many turns it took.

    `texts` holds what was said, by turn; it is looked at only where no call follows a denial.
    """
    by_turn = [tuple(calls) for _, calls in groupby(attempts, lambda attempt: attempt.turn)]
    after_denied, after_allowed = _hazards(by_turn)
    return TrialRecovery(
        aftermaths=_aftermaths(by_turn, turns, texts),
        longest_run=_longest_run(attempts),
        turns_burned=(sum(all(map(_denied, calls)) for calls in by_turn), turns),
        after_denied=after_denied,
        after_allowed=after_allowed,
    )


def _denied(attempt: Attempt) -> bool:
    return bool(attempt.failure_class)


def _aftermaths(
    by_turn: Sequence[tuple[Attempt, ...]], turns: int, texts: Mapping[int, str]
) -> tuple[Aftermath, ...]:
    found = []
    for index, calls in enumerate(by_turn):
        denials = [*filter(_denied, calls)]
        if not denials:
            continue
        turn, later = calls[0].turn, by_turn[index + 1 :]
        needed_turns, needed_calls = _way_back(turn, later)
        following = [] if not later or later[0][0].turn != turn + 1 else later[0]
        played = turns - turn - 1
        for denial in denials:
            recovery = _recovery(denial, following, texts) if played else Recovery.NONE
            found.append(
                Aftermath(
                    denial.turn,
                    denial.position,
                    denial.failure_class,
                    recovery,
                    played,
                    needed_turns,
                    needed_calls,
                )
            )
    return tuple(found)


def _way_back(turn: int, later: Sequence[tuple[Attempt, ...]]) -> tuple[int | None, int | None]:
    """Turns and calls from `turn` to the first allowed call of a later one."""
    calls = 0
    for attempts in later:
        for attempt in attempts:
            calls += 1
            if not _denied(attempt):
                return attempt.turn - turn, calls
    return None, None


def _recovery(denial: Attempt, following: Sequence[Attempt], texts: Mapping[int, str]) -> Recovery:
    if not following:
        asked = texts[denial.turn + 1].rstrip().endswith("?")
        return Recovery.ASK if asked else Recovery.GIVE_UP
    answer = max(following, key=lambda attempt: likeness(denial.call, attempt.call))
    return _reaction(denial, answer)


def _reaction(denial: Attempt, answer: Attempt) -> Recovery:
    if not _denied(answer):
        repaired = same_intent(denial.call, answer.call)
        return Recovery.REPAIR if repaired else Recovery.PIVOT
    if same_call(denial.call, answer.call):
        return Recovery.RETRY_IDENTICAL
    again = denial.failure_class == answer.failure_class
    return Recovery.RETRY_SAME_CLASS if again else Recovery.RETRY_OTHER_CLASS


def _longest_run(attempts: Sequence[Attempt]) -> int:
    runs = (len(list(run)) for denied, run in groupby(attempts, _denied) if denied)
    return max(runs, default=0)


def _hazards(by_turn: Sequence[tuple[Attempt, ...]]) -> tuple[Cluster, Cluster]:
    """(denied, calls) after a denied call and after an allowed one, the first turn left out."""
    denied, calls = {True: 0, False: 0}, {True: 0, False: 0}
    for before, now in pairwise(by_turn):
        state = _denied(before[-1])
        denied[state] += sum(map(_denied, now))
        calls[state] += len(now)
    return (denied[True], calls[True]), (denied[False], calls[False])
