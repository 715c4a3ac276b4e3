"""Totals of a run besides its summaries: serving figures, tokens, executions, the score.

In order: the figures of requests; the pace of a slow server; token counts, which show whether a
server cut the prompt; the tally of a trial; the score of a run. Counts stay apart by trial, so
that intervals can be clustered. Void trials are in no count, and listed separately.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from statistics import median
from typing import NamedTuple

from agenteval.trial.call import FULL, Ending, MalformedCall, Outcome
from agenteval.trial.recovery import TrialRecovery
from agenteval.trial.summary import TrialSummary, World, summarize
from agenteval.trial.trial import CallRecord, Cluster, ErrorCounts, Message, Trial, Turn


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of the values of `n` requests: their median, and the range of nine in ten."""

    n: int
    median: float
    low: float  # the 5th percentile
    high: float  # the 95th


@dataclass(frozen=True, slots=True)
class AsServed:
    """Figures of all requests of the trials that are not void. None means not observable.

    Times are seconds, from the request on; gaps are those between the pieces of one reply. A share
    is observable only if a server reported at least one count that is not 0: most servers that
    never report it omit it or send 0.
    """

    first_piece: Spread | None
    gap_median: Spread | None
    gap_p95: Spread | None
    tokens_per_second: Spread | None  # completion tokens, over the time of the whole request
    reasoning: Spread | None  # share of the completion tokens
    cached: Spread | None  # share of the prompt tokens


class Request(NamedTuple):
    """The times and tokens of a request; `first` is None if the reply came in one piece."""

    seconds: float
    first: float | None
    pieces: int
    gap_median: float
    gap_p95: float
    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    cached_tokens: int


def as_served(requests: Iterable[Request]) -> AsServed:
    """Return the figures of these requests. Reads each once, keeps none: they may be millions."""
    first, gap_median, gap_p95, speed, reasoning, cached = (array("d") for _ in range(6))
    for request in requests:
        if request.first is not None:
            first.append(request.first)
            if request.pieces > 1:
                gap_median.append(request.gap_median)
                gap_p95.append(request.gap_p95)
        if request.completion_tokens:
            reasoning.append(request.reasoning_tokens / request.completion_tokens)
            if request.seconds:
                speed.append(request.completion_tokens / request.seconds)
        if request.prompt_tokens:
            cached.append(request.cached_tokens / request.prompt_tokens)
    return AsServed(
        first_piece=spread(first),
        gap_median=spread(gap_median),
        gap_p95=spread(gap_p95),
        tokens_per_second=spread(speed),
        reasoning=spread(reasoning) if any(reasoning) else None,
        cached=spread(cached) if any(cached) else None,
    )


def spread(values: Sequence[float]) -> Spread | None:
    """Return the spread of these values; None for no values."""
    if not values:
        return None
    ordered = sorted(values)
    last = len(ordered) - 1
    low = ordered[round(0.05 * last)]
    high = ordered[round(0.95 * last)]
    return Spread(len(ordered), median(ordered), low, high)


# The pace of a server.

REFERENCE = 40.0  # tokens a second of one request, waiting included: what limits are written for
LONGEST = 8.0  # times a limit, however slow the server
MEASURED = 200  # tokens from which on a speed is one: a short reply is mostly waiting


def stretch(tokens: int, seconds: float) -> float:
    """Return the factor of a limit, from 1 to `LONGEST`, if this many tokens took so long."""
    if tokens < MEASURED:
        return 1.0
    return min(LONGEST, max(1.0, REFERENCE * seconds / tokens))


def generated(turn: Turn) -> int:
    """Return the tokens of a turn; if a server does not count them, the pieces of its stream."""
    pieces = turn.timing.pieces if turn.timing else 0
    return turn.usage.completion_tokens or pieces


# Token counts.

SLACK = 64  # tokens: a template may write an earlier turn in fewer words
MARGIN = 4 * SLACK  # tokens: what templates add to some messages, or rows of dashes save
DENSEST = 16.0  # characters a token: what no text has for long
_THOUGHT = "</think>"  # templates leave out what was thought in an earlier turn


@dataclass(frozen=True, slots=True)
class Sent:
    """One request of a conversation: characters and messages sent, tokens as the server counted."""

    characters: int
    tokens: int
    messages: int = 0


class Counted(Enum):
    """The meaning of the last token count of a conversation, in view of the earlier ones."""

    WHOLE = "whole"  # of the whole prompt: it grew, and what is new is not as long
    SHORT = "short"  # of a part: the rest was cut, or cached and left out
    NEW = "new"  # of a part, which may be what is new
    UNCLEAR = "unclear"


def sent(messages: Sequence[Message], tokens: int, earlier: Sequence[Sent] = ()) -> Sent:
    """Return the request with all these messages; those of the request before are not recounted."""
    before = earlier[-1] if earlier else Sent(0, 0)
    characters = before.characters
    for message in messages[before.messages :]:
        content = message.content
        if message.role == "assistant":
            content = content.rpartition(_THOUGHT)[2]
        characters += len(content) + sum(len(call.raw) for call in message.calls)
    return Sent(characters, tokens, len(messages))


def counted(requests: Sequence[Sent]) -> Counted:
    """Return the meaning of the last count; 0 is UNCLEAR. Messages are only ever added."""
    last = requests[-1]
    earlier = [request for request in requests[:-1] if request.tokens]
    if not last.tokens:
        return Counted.UNCLEAR
    is_too_few = last.tokens + MARGIN < least(requests)
    if not earlier:
        return Counted.SHORT if is_too_few else Counted.UNCLEAR
    before = earlier[-1]
    added = last.characters - before.characters
    may_be_new = last.tokens <= added + MARGIN
    if is_too_few or last.tokens < before.tokens - SLACK:
        return Counted.NEW if may_be_new else Counted.SHORT
    has_grown = last.tokens >= before.tokens + added / DENSEST
    return Counted.WHOLE if has_grown and not may_be_new else Counted.UNCLEAR


def least(requests: Sequence[Sent]) -> float:
    """Return how many tokens the last request had at least, whatever the server counted."""
    characters = requests[-1].characters
    most = characters / DENSEST
    for request in requests:
        most = max(most, request.tokens + (characters - request.characters) / DENSEST)
    return most


def cut(requests: Sequence[Sent], *, context: int | None, whole: bool) -> str:
    """Return why the last request, counted as a part, was cut; empty if it may not have been.

    If the length of the context is known, that decides. Otherwise only a server that counts whole
    prompts is believed.
    """
    last = requests[-1]
    tokens = least(requests)
    reason = (
        f"the server counted {last.tokens} prompt tokens for {last.characters} characters, which "
        f"have at least {tokens:.0f}"
    )
    if context is None:
        return reason if whole else ""
    return f"{reason}, and its context holds {context}" if tokens > context else ""


NEAR = 16  # tokens: so few before the end of its context a server may stop already


def cut_reply(turn: Turn, prompt: float, context: int | None) -> tuple[Ending | None, str]:
    """Return how a reply that a length limit cut ends its trial, and why it ended.

    `prompt` is how many tokens the request had at least. A reply far from the end of the context
    was cut by another limit, ours or the server's: that is no ending. An unknown context is none
    either.
    """
    used = f"{prompt:.0f} tokens of prompt and {generated(turn)} of reply"
    if turn.finish_reason == FULL:
        return Ending.CONTEXT, f"the server says that the context is full, after {used}"
    if context is None:
        return None, f"cut by a length limit, after {used}; the server does not tell its context"
    if prompt + generated(turn) + NEAR < context:
        return None, f"cut by a length limit, after {used}; the context holds {context}"
    return Ending.CONTEXT, f"the conversation filled the context of {context}: {used}"


@dataclass(frozen=True, slots=True)
class Tally:
    """The tally of one trial: of its first agent, except `useful`, which counts all agents.

    Of the calls that `ran`, those that `failed` did so by themselves, and `limits` counts what
    ended others. `written` counts the calls of its turns, `malformed` has what was wrong with
    them, each with its turn, and `useful` those that were allowed and ran.
    """

    void: bool = False
    denied: int = 0
    ran: int = 0
    failed: int = 0
    limits: Mapping[str, int] = field(default_factory=dict)
    objections: int = 0
    useful: int = 0
    completion_tokens: int = 0
    written: int = 0
    malformed: tuple[tuple[int, MalformedCall], ...] = ()
    repairs: int = 0


@dataclass(frozen=True, slots=True)
class Tallies:
    """The tallies of a run's trials, in their order, and the figures of its serving."""

    trials: tuple[Tally, ...]
    served: AsServed

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> "Tallies":
        return cls(tuple(map(tally, trials)), as_served(_requests(trials)))

    @property
    def counted(self) -> list[Tally]:
        """The tallies of the trials that are not void."""
        return [trial for trial in self.trials if not trial.void]

    @property
    def useful(self) -> int:
        """The useful calls of all trials: those in void trials took their time too."""
        return sum(trial.useful for trial in self.trials)


# The tally of a trial.


def tally(trial: Trial) -> Tally:
    calls = trial.calls
    turns = trial.turns
    executions = [record.execution for record in calls if record.execution is not None]
    limits = Counter(run.limit for run in executions if run.limit)
    malformed = [(number, fault) for number, turn in enumerate(turns) for fault in turn.malformed]
    return Tally(
        void=trial.outcome is Outcome.VOID,
        denied=sum(not record.verdict.allowed for record in calls),
        ran=len(executions),
        failed=sum(not run.limit and run.exit_code != 0 for run in executions),
        limits=limits,
        objections=sum(bool(record.objection) for record in calls),
        useful=useful_calls(trial),
        completion_tokens=sum(turn.usage.completion_tokens for turn in turns),
        written=sum(len(turn.calls) for turn in turns),
        malformed=tuple(malformed),
        repairs=sum(len(turn.repairs) for turn in turns),
    )


def useful_calls(trial: Trial) -> int:
    """Count the calls of all agents that were allowed and ran: a denied call is no work done."""
    return sum(was_useful(call) for part in trial.parts for call in part.calls)


def was_useful(record: CallRecord) -> bool:
    """Return True if the call was allowed and ran."""
    return record.verdict.allowed and record.execution is not None


def _requests(trials: Iterable[Trial]) -> Iterator[Request]:
    for trial in trials:
        if trial.outcome is not Outcome.VOID:
            for part in trial.parts:
                yield from map(_request, part.turns)


def _request(turn: Turn) -> Request:
    usage = turn.usage
    timing = turn.timing
    return Request(
        turn.seconds,
        timing.first if timing else None,
        timing.pieces if timing else 0,
        timing.gap_median if timing else 0.0,
        timing.gap_p95 if timing else 0.0,
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.reasoning_tokens,
        usage.cached_tokens,
    )


@dataclass(frozen=True, slots=True)
class Funnel:
    """The ordered steps of one scenario's handshake: how many of its trials got through each.

    A step counts as passed when it and all before it were reached. `in_order` counts the trials in
    which all were reached and none came too early, out of those that know when each was reached.
    """

    scenario: str
    trials: int
    passed: tuple[tuple[str, int], ...]
    in_order: Cluster = (0, 0)

    @property
    def completed(self) -> int:
        return self.passed[-1][1]


@dataclass(frozen=True, slots=True)
class Executions:
    """Tool errors and limit strikes, out of the calls that were executed.

    A limit strike (a command ended by a limit) is no tool error, and neither is an error of the
    model's.
    """

    tool_errors: tuple[Cluster, ...]
    limits: Mapping[str, int]
    objections: int  # of the second reader
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Score:
    """All counts of a run; whatever counts by trial does so in the order of `counted`."""

    counted: tuple[TrialSummary, ...]  # the trials that are not void
    voids: tuple[TrialSummary, ...]
    errors: ErrorCounts
    outcomes: Mapping[Outcome, int]
    funnels: tuple[Funnel, ...]

    @property
    def trials(self) -> int:
        return len(self.counted)

    @property
    def observed(self) -> tuple[TrialSummary, ...]:
        """The trials whose outcome is known."""
        return tuple(trial for trial in self.counted if trial.observed)

    @property
    def void_share(self) -> float:
        return len(self.voids) / max(1, len(self.counted) + len(self.voids))

    @property
    def worlds(self) -> frozenset[World]:
        """The task instances of all trials, void ones included."""
        return frozenset(trial.world for trial in (*self.counted, *self.voids))

    @property
    def turns(self) -> int:
        return sum(trial.turns for trial in self.counted)

    @property
    def recoveries(self) -> tuple[TrialRecovery, ...]:
        return tuple(trial.recovery for trial in self.counted)


# The score of a run.


def score(trials: Iterable[Trial]) -> Score:
    return score_summaries(map(summarize, trials))


def score_summaries(summaries: Iterable[TrialSummary]) -> Score:
    trials = tuple(summaries)
    counted = tuple(trial for trial in trials if not trial.void)
    return Score(
        counted=counted,
        voids=tuple(trial for trial in trials if trial.void),
        errors=ErrorCounts.added([(trial.calls, trial.errors) for trial in counted]),
        outcomes=Counter(trial.outcome for trial in counted),
        funnels=_funnels(counted),
    )


def executions(tallies: Tallies) -> Executions:
    limits: Counter[str] = Counter()
    for trial in tallies.counted:
        limits.update(trial.limits)
    return Executions(
        tool_errors=tuple((trial.failed, trial.ran) for trial in tallies.counted),
        limits=dict(sorted(limits.items())),
        objections=sum(trial.objections for trial in tallies.counted),
        completion_tokens=sum(trial.completion_tokens for trial in tallies.counted),
    )


def _funnels(summaries: Sequence[TrialSummary]) -> tuple[Funnel, ...]:
    by_scenario: defaultdict[str, list[TrialSummary]] = defaultdict(list)
    for trial in summaries:
        if trial.handshake:
            by_scenario[trial.scenario].append(trial)
    return tuple(_funnel(name, trials) for name, trials in sorted(by_scenario.items()))


def _funnel(scenario: str, summaries: Sequence[TrialSummary]) -> Funnel:
    depths = [trial.depth for trial in summaries]
    passed = []
    for number, step in enumerate(summaries[0].handshake):
        passed.append((step.name, sum(depth > number for depth in depths)))
    in_order = [trial.in_order for trial in summaries if trial.in_order is not None]
    return Funnel(
        scenario,
        len(summaries),
        tuple(passed),
        in_order=(sum(in_order), len(in_order)),
    )
