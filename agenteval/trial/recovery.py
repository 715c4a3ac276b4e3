"""The reactions of a model to its denials, the load of its server, and loops without progress.

A model reads the denials of a turn before it writes the next one: calls of one turn are one
episode, and their order changes nothing. What settles a denial is the next call of the same
intent, in whichever later turn; each call answers one denial, and an allowed one is looked at
first.

Then `windows`, the work of a server by its log, all its engines together. Last `looped` and
`repeated`: the same calls with the same answers, or the same words. A model that polls a job and
reads something new makes progress, and so does one that reads page after page.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import accumulate, groupby, islice, pairwise

from agenteval.trial.call import Ending
from agenteval.trial.intents import Intent, can_meet, intent_of, likeness, same_intent
from agenteval.trial.trial import CallRecord, Cluster, Trial

COUNTING = 4  # raised when a trial is counted differently than before
PENDING = 50  # denials at a time: who left more open goes back to none of the older
_ASKS = re.compile(
    r"(?<!\W)[^\w?\uff1f]*+[?\uff1f]\W*+\Z"  # looked for once in what stands behind a word
    r"|\bplease (?:allow|approve|grant|confirm|tell|provide|advise|clarify|specify)\b"
    r"|\blet me know (?:how|which|whether|what|if you(?:'d| would) (?:like|prefer))\b",
    re.IGNORECASE,
)


class Recovery(StrEnum):
    """The result of a denial. The first two are recoveries, the next two were denied again."""

    ADDRESSED = "addressed"  # the same intent, allowed
    SIDESTEPPED = "sidestepped"  # never again; it went on with other work
    REPEATED = "repeated"  # the same call, but for white space, description and timeout
    ESCALATED = "escalated"  # the same intent in another form
    ASKED = "asked"  # words that ask for something
    ABANDONED = "abandoned"  # nothing
    NO_CHANCE = "no-chance"  # the trial ended with its turn, or its goal was reached before


@dataclass(frozen=True, slots=True)
class DenialRecovery:
    """One denial, by the turn and position of the call and its primary class, and its result.

    `turns` counts from the denial to the turn that addressed its intent, if need be after further
    denials of it, or that went on with other work; `calls` those made until then, with the one that
    did. Both are None when neither came, or the intent was denied again behind the other work and
    never allowed. `played` are all turns that were taken after the denial.
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
    """The recoveries from the denials of one trial.

    A turn is burned when it made calls and all were denied; `longest_run` are such turns, one after
    the other. `after_denied` counts the denied calls among those made in the turns behind one with
    a denial, `after_allowed` likewise.
    """

    aftermaths: tuple[DenialRecovery, ...]
    longest_run: int
    turns_burned: Cluster
    after_denied: Cluster
    after_allowed: Cluster

    @property
    def answerable(self) -> tuple[DenialRecovery, ...]:
        """The denials that the model had a chance to react to."""
        no_chance = Recovery.NO_CHANCE
        return tuple([denial for denial in self.aftermaths if denial.recovery is not no_chance])


NO_DENIALS = TrialRecovery((), 0, (0, 0), (0, 0), (0, 0))


@dataclass(slots=True, eq=False)
class _Call:
    """One call; or, as what was denied, all equal ones of its turn: they share what becomes of it.

    `again` is the denied call by which the same intent was tried next. `vain` are the keys of other
    calls that were made between such tries: they kept nobody from coming back.
    """

    turn: int
    position: int
    failure_class: str  # empty when it was allowed
    intent: Intent
    equal_calls: list["_Call"] = field(default_factory=list)
    kind: Recovery | None = None
    settled: int | None = None  # in which turn
    again: "_Call | None" = None
    vain: set[str] = field(default_factory=set)

    @property
    def denied(self) -> bool:
        return bool(self.failure_class)


def asks(text: str) -> bool:
    """Return True if the text ends with a question, or asks for something."""
    return bool(_ASKS.search(text.replace("\u2019", "'")))


def recoveries(trial: Trial) -> list[Recovery]:
    """Return the recovery of each denial, in the order of the denials."""
    return [denial.recovery for denial in trial_recovery(trial).aftermaths]


def trial_recovery(trial: Trial) -> TrialRecovery:
    calls = []
    for record in trial.calls:
        primary = record.verdict.primary
        failure_class = primary.failure_class if primary else ""
        calls.append(_Call(record.turn, record.position, failure_class, intent_of(record.call)))
    calls_by_turn = {turn: list(of_turn) for turn, of_turn in groupby(calls, _turn)}
    turns = [*calls_by_turn.values()]
    is_burned = [all(call.denied for call in of_turn) for of_turn in turns]
    runs = [len(list(run)) for burned, run in groupby(is_burned) if burned]
    after_denied, after_allowed = _hazards(turns)
    return TrialRecovery(
        aftermaths=tuple(_denial_recoveries(trial, calls_by_turn)),
        longest_run=max(runs, default=0),
        turns_burned=(sum(is_burned), len(trial.turns)),
        after_denied=after_denied,
        after_allowed=after_allowed,
    )


def _denial_recoveries(
    trial: Trial, by_turn: Mapping[int, list[_Call]]
) -> Iterator[DenialRecovery]:
    denials, spare = _match([*by_turn.values()])
    others = tuple(spare)
    for denial in denials:
        if denial.again is not None:
            start = bisect_right(others, denial.turn, key=_turn)
            end = bisect_left(others, denial.again.turn, key=_turn)
            between = {call.intent.key for call in others[start:end]}
            denial.again.vain |= denial.vain | between
        elif denial.kind is None:
            _settle_unrepeated(denial, trial, spare)
        else:
            _settle_sooner(denial, spare)
    denied_calls = [(call, denial) for denial in denials for call in denial.equal_calls]
    denied_calls.sort(key=_place)
    made_until = dict(zip(by_turn, accumulate(map(len, by_turn.values())), strict=True))
    for call, denial in denied_calls:
        recovery = DenialRecovery(
            call.turn,
            call.position,
            call.failure_class,
            denial.kind or Recovery.ABANDONED,
            played=len(trial.turns) - call.turn - 1,
        )
        settled = _turn_of_recovery(denial)
        if settled is not None:
            made_before = made_until[settled] - len(by_turn[settled])
            made = 1 + made_before - made_until[call.turn]
            recovery = replace(recovery, turns=settled - call.turn, calls=made)
        yield recovery


def _place(denied_call: tuple[_Call, _Call]) -> tuple[int, int]:
    call, _ = denied_call
    return call.turn, call.position


def _match(by_turn: Sequence[list[_Call]]) -> tuple[list[_Call], list[_Call]]:
    """Return all denials, and the allowed calls that answer none.

    A denial has its kind when a later call had the same intent.
    """
    denials: list[_Call] = []
    unsettled: list[_Call] = []
    spare: list[_Call] = []
    for calls in by_turn:
        by_key = sorted(calls, key=lambda call: call.intent.key)
        allowed = [call for call in by_key if not call.denied]
        denied = _merge_equal([call for call in by_key if call.denied])
        pending = unsettled[-PENDING:]
        answering = _answer(pending, [*allowed, *denied])
        if answering:
            unsettled[-PENDING:] = [denial for denial in pending if denial.kind is None]
        unsettled += denied
        spare += (call for call in allowed if call not in answering)
        denials += denied
    return denials, spare


def _merge_equal(denied: Sequence[_Call]) -> list[_Call]:
    """Return the denied calls of one turn, sorted by their keys; equal ones are one."""
    merged = []
    for _, equal in groupby(denied, lambda call: call.intent.key):
        first, *others = equal
        first.equal_calls = [first, *others]
        merged.append(first)
    return merged


def _answer(open_denials: Sequence[_Call], calls: Sequence[_Call]) -> list[_Call]:
    """Settle denials by the calls of a turn, the most alike first; return the calls that did so.

    Of pairs that are equally alike, the older denial's comes first: they are made in that order.
    """
    pairs = sorted(_pairs_of_one_intent(open_denials, calls), key=_rank)
    answering: list[_Call] = []
    for denial, call in pairs:
        if denial.kind is None and call not in answering:
            answering.append(call)
            _settle(denial, call)
    return answering


def _rank(pair: tuple[_Call, _Call]) -> tuple[bool, float]:
    """Rank the pair of a denial and a call: allowed calls first, and the most alike first."""
    denial, call = pair
    return call.denied, -likeness(denial.intent, call.intent)


def _pairs_of_one_intent(
    denials: Sequence[_Call], calls: Sequence[_Call]
) -> Iterator[tuple[_Call, _Call]]:
    denials_with_kinds = [(denial, denial.intent.kinds) for denial in denials]
    for call in calls:
        kinds = call.intent.kinds
        for denial, denied_kinds in denials_with_kinds:
            # Of most pairs the kinds alone show that they differ, which is much sooner known.
            if can_meet(denied_kinds, kinds) and same_intent(denial.intent, call.intent):
                yield denial, call


def _settle(denial: _Call, call: _Call) -> None:
    if not call.denied:
        denial.kind = Recovery.ADDRESSED
        denial.settled = call.turn
        return
    is_same = denial.intent.key == call.intent.key
    denial.kind = Recovery.REPEATED if is_same else Recovery.ESCALATED
    denial.again = call


def _settle_unrepeated(denial: _Call, trial: Trial, spare: list[_Call]) -> None:
    """Classify a denial whose intent never came again. Takes the call that answers it."""
    following = trial.turns[denial.turn + 1 : denial.turn + 2]
    other = _other_work(denial, spare)
    if any(not turn.calls and asks(turn.text) for turn in following):
        denial.kind = Recovery.ASKED
    elif other is not None:
        spare.remove(other)
        denial.kind = Recovery.SIDESTEPPED
        denial.settled = other.turn
    elif not following or trial.ending is Ending.GOAL:
        denial.kind = Recovery.NO_CHANCE
    else:
        denial.kind = Recovery.ABANDONED


def _settle_sooner(denial: _Call, spare: list[_Call]) -> None:
    """Settle a denial earlier, by other work that came before the denied intent was allowed."""
    other = _other_work(denial, spare)
    if other is not None and denial.settled is not None and other.turn < denial.settled:
        spare.remove(other)
        denial.settled = other.turn


def _other_work(denial: _Call, spare: Sequence[_Call]) -> _Call | None:
    """Return the first call after a denial that is other work."""
    at = bisect_right(spare, denial.turn, key=_turn)  # they are in the order of their turns
    later = islice(spare, at, None)
    return next((call for call in later if call.intent.key not in denial.vain), None)


def _turn(call: _Call) -> int:
    return call.turn


def _turn_of_recovery(denial: _Call) -> int | None:
    """Return the turn of the recovery; other work counts for the last denial of an intent alone."""
    last = denial
    while last.again is not None:
        last = last.again
    return last.settled if last is denial or last.kind is Recovery.ADDRESSED else None


def _hazards(by_turn: Sequence[list[_Call]]) -> tuple[Cluster, Cluster]:
    """Return denied and all calls, behind a turn with a denial and behind any other.

    The first turn is left out.
    """
    denied = Counter[bool]()
    calls = Counter[bool]()
    for before, now in pairwise(by_turn):
        is_after_denial = any(call.denied for call in before)
        denied[is_after_denial] += sum(call.denied for call in now)
        calls[is_after_denial] += len(now)
    return (denied[True], calls[True]), (denied[False], calls[False])


# The load of a server.

NEXT = (0.5, 1.5)  # windows until the line that follows at once; stamps have whole seconds


@dataclass(frozen=True, slots=True)
class EngineLine:
    """One engine's line at the end of a window. `at` is in seconds, None without a stamp."""

    at: float | None
    engine: str
    prompt: float  # tokens a second, as generation
    generation: float
    running: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Access:
    """One request for a completion in the access log, which keeps no time."""

    status: int

    @property
    def completed(self) -> bool:
        return 200 <= self.status < 300


Entry = EngineLine | Access


@dataclass(frozen=True, slots=True)
class Window:
    """The sums of all engines; an engine that logs nothing is idle.

    `follows` says that this window begins where the one before ended. `seconds` is its length.
    """

    running: int
    waiting: int
    prompt: float
    generation: float
    seconds: float
    follows: bool
    completions: int = 0
    failed: int = 0


@dataclass(slots=True)
class _Lines:
    """The lines of one window, and the answers of the server between the last window and this."""

    first: EngineLine
    answers: list[Access]
    by_engine: dict[str, EngineLine] = field(default_factory=dict)

    def takes(self, line: EngineLine, seconds: float) -> bool:
        if line.engine in self.by_engine:
            return False
        gap = _gap(self.first, line)
        return gap is None or 0 <= gap < NEXT[0] * seconds


def windows(entries: Iterable[Entry], seconds: float) -> Iterator[Window]:
    """Yield the windows of a log that has a line every so many seconds while there is work.

    An answer belongs to the window whose lines come next; those after the last line to none.
    """
    answers: list[Access] = []
    before: EngineLine | None = None
    now: _Lines | None = None
    for entry in entries:
        if isinstance(entry, Access):
            answers.append(entry)
            continue
        if now is None or not now.takes(entry, seconds):
            if now is not None:
                yield _window(now, before, seconds)
                before = now.first
            now = _Lines(entry, answers)
            answers = []
        now.by_engine[entry.engine] = entry
    if now is not None:
        yield _window(now, before, seconds)


def _window(lines: _Lines, before: EngineLine | None, seconds: float) -> Window:
    gap = _gap(before, lines.first) if before else None
    is_next = gap is None or NEXT[0] * seconds <= gap <= NEXT[1] * seconds
    all_engines = lines.by_engine.values()
    completions = sum(answer.completed for answer in lines.answers)
    return Window(
        running=sum(line.running for line in all_engines),
        waiting=sum(line.waiting for line in all_engines),
        prompt=sum(line.prompt for line in all_engines),
        generation=sum(line.generation for line in all_engines),
        # After a pause, in which servers log nothing, a line is about the last window alone.
        seconds=gap if gap is not None and is_next else seconds,
        follows=before is not None and is_next,
        completions=completions,
        failed=len(lines.answers) - completions,
    )


def _gap(first: EngineLine, second: EngineLine) -> float | None:
    """Return the seconds between two lines; None where one has no stamp."""
    if first.at is None or second.at is None:
        return None
    return second.at - first.at


# Loops.

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
class _Cycle:
    """A round of calls that came so many times without a break, the last one last."""

    calls: tuple[str, ...]
    times: int

    def __str__(self) -> str:
        return f"{self.times} times the same, with the same answers: {'; then '.join(self.calls)}"


def looped(records: Sequence[CallRecord]) -> _Cycle | None:
    """Return the shortest round of calls that the last calls repeat; None if they repeat none."""
    for period, times in ROUNDS.items():
        tail = records[-period * times :]
        calls = [(record.call.name, record.call.raw, record.reply) for record in tail]
        is_repeated = calls[period:] == calls[:-period]
        if len(calls) == period * times and is_repeated:
            texts = [f"{name} {raw}"[:LONGEST_PASSAGE] for name, raw, _ in calls[-period:]]
            return _Cycle(tuple(texts), times)
    return None


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
