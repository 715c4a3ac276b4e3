"""Totals of the turns and calls of trials, besides the counts of their summaries."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agenteval.core.malformed import MalformedCall
from agenteval.core.outcome import Outcome
from agenteval.core.served import AsServed, Request, as_served
from agenteval.core.trial import CallRecord, Trial, Turn


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
        return [one for one in self.trials if not one.void]

    @property
    def useful(self) -> int:
        """The useful calls of all trials: those in void trials took their time too."""
        return sum(one.useful for one in self.trials)


def tally(trial: Trial) -> Tally:
    ran = [record.execution for record in trial.calls if record.execution is not None]
    return Tally(
        void=trial.outcome is Outcome.VOID,
        denied=sum(not record.verdict.allowed for record in trial.calls),
        ran=len(ran),
        failed=sum(not one.limit and one.exit_code != 0 for one in ran),
        limits=Counter(one.limit for one in ran if one.limit),
        objections=sum(bool(record.objection) for record in trial.calls),
        useful=useful_calls(trial),
        completion_tokens=sum(turn.usage.completion_tokens for turn in trial.turns),
        written=sum(len(turn.calls) for turn in trial.turns),
        malformed=tuple((at, one) for at, turn in enumerate(trial.turns) for one in turn.malformed),
        repairs=sum(len(turn.repairs) for turn in trial.turns),
    )


def useful_calls(trial: Trial) -> int:
    """Count the calls of all agents that were allowed and ran: a denied call is no work done."""
    calls = [*trial.calls, *(call for agent in trial.agents for call in agent.calls)]
    return sum(was_useful(call) for call in calls)


def was_useful(record: CallRecord) -> bool:
    """Return True if the call was allowed and ran."""
    return record.verdict.allowed and record.execution is not None


def _requests(trials: Iterable[Trial]) -> Iterator[Request]:
    for trial in trials:
        if trial.outcome is not Outcome.VOID:
            yield from map(_request, trial.turns)
            for part in trial.agents:
                yield from map(_request, part.turns)


def _request(turn: Turn) -> Request:
    usage, timing = turn.usage, turn.timing
    return Request(
        turn.seconds,
        timing.first if timing else None,
        timing.pieces if timing else 0,
        timing.gap_median if timing else 0.0,
        timing.gap_p95 if timing else 0.0,
        *(usage.prompt_tokens, usage.completion_tokens),
        *(usage.reasoning_tokens, usage.cached_tokens),
    )
