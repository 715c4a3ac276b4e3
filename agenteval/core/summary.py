"""The summary of a trial, and of a run: the input of every figure, without transcripts."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agenteval.core.cards import ModelCard
from agenteval.core.counts import Cluster, ErrorCounts
from agenteval.core.outcome import Outcome
from agenteval.core.recovery import NO_DENIALS, TrialRecovery, trial_recovery
from agenteval.core.run import Conditions, Look, Run
from agenteval.core.scenario import GoalCheck
from agenteval.core.trial import CallRecord, Execution, HandshakeStep, Trial
from agenteval.errors import Cause


@dataclass(frozen=True, slots=True)
class ImportedCounts:
    """An imported table. `trials` names scenario and trial of each count; both may be empty."""

    id: str
    model: ModelCard
    imported: str  # ISO 8601, UTC
    source: str  # the file
    trials: tuple[tuple[str, str], ...]
    counts: ErrorCounts


World = tuple[str, int, int]  # what a trial was played in: scenario, number, seed
AgentCall = tuple[str, bool]  # whose call, by the sub-agent's name, and whether it was denied
SIGNALLED = 128  # from which exit code on a shell says that a signal ended the command


@dataclass(frozen=True, slots=True)
class TrialSummary:
    """The counts of one trial.

    `errors` counts the denied calls by their primary class, `executed` the calls that ran, and
    `crashed` those of them that a limit or a signal ended. `retries` counts what was sent again;
    `stretched` is how many times its time the trial was given, as the server is slow.

    `prompt_tokens` are those of the first turn; 0 without a turn or a count of the server.

    `agents` counts, for each sub-agent that made calls, the denied ones and all, and `agent_errors`
    their denied ones together, as `errors` does; no other count has any but the first agent's.
    """

    scenario: str
    number: int
    seed: int
    outcome: Outcome
    calls: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    executed: int = 0
    crashed: int = 0
    handshake: tuple[HandshakeStep, ...] = ()
    recovery: TrialRecovery = NO_DENIALS
    prompt_tokens: int = 0
    agents: Mapping[str, Cluster] = field(default_factory=dict)
    agent_errors: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    cause: Cause | None = None
    retries: int = 0
    stretched: float = 1.0
    goal: tuple[GoalCheck, ...] = ()
    goal_turn: int | None = None

    @property
    def world(self) -> World:
        return self.scenario, self.number, self.seed

    @property
    def void(self) -> bool:
        return self.outcome is Outcome.VOID

    @property
    def observed(self) -> bool:
        """Return True if its outcome was observed, which that of a logged session is not."""
        return self.outcome is not Outcome.NOT_OBSERVABLE

    @property
    def completed(self) -> bool:
        return self.outcome is Outcome.COMPLETED

    @property
    def undone(self) -> bool:
        """Return True if the goal held once and no longer at the end."""
        return self.goal_turn is not None and not self.completed and not self.void

    @property
    def turns(self) -> int:
        return self.recovery.turns_burned[1]

    @property
    def all_errors(self) -> Cluster:
        """Denied calls, of all calls."""
        return sum(self.errors.values()), self.calls

    def errors_of(self, failure_class: str) -> Cluster:
        return self.errors.get(failure_class, 0), self.calls

    def errors_of_anybody(self, failure_class: str) -> Cluster:
        """The same, with the calls of its sub-agents."""
        errors, calls = self.errors_of(failure_class)
        of_agents = sum(made for _, made in self.agents.values())
        return errors + self.agent_errors.get(failure_class, 0), calls + of_agents

    @property
    def depth(self) -> int:
        """The number of handshake steps reached before the first one that was not."""
        reached = [step.reached for step in self.handshake]
        return [*reached, False].index(False)

    @property
    def in_order(self) -> bool | None:
        """Return True if the whole handshake was reached, no step too early; None: not known."""
        if any(step.reached and step.in_order is None for step in self.handshake):
            return None
        return all(step.in_order for step in self.handshake)

    @property
    def closed(self) -> bool:
        """Return True if the whole handshake was reached, and no step is known to be too early."""
        return all(step.reached and step.in_order is not False for step in self.handshake)

    def flawless(self) -> "TrialSummary":
        """Return the trial as it would be without a single fault, with as many calls."""
        return replace(
            self,
            outcome=Outcome.COMPLETED,
            errors={},
            agents={name: (0, made) for name, (_, made) in self.agents.items()},
            agent_errors={},
            crashed=0,
            handshake=tuple(HandshakeStep(step.name, reached=True) for step in self.handshake),
        )


def without(trials: Sequence[TrialSummary], classes: Sequence[str]) -> tuple[TrialSummary, ...]:
    """Return the trials without errors of these classes; the counts in `agents` stay."""

    def remaining(errors: Mapping[str, int]) -> dict[str, int]:
        return {name: of for name, of in errors.items() if name not in classes}

    return tuple(
        replace(one, errors=remaining(one.errors), agent_errors=remaining(one.agent_errors))
        for one in trials
    )


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run's conditions and the summaries of its trials; `seconds` is by the clock, where known.

    `of_counts`: somebody's table stands behind it and no run, so that calls, errors and classes
    are all there is; how a trial ended, and what it ran, is not known.
    """

    id: str
    model: str
    simulated: bool
    complete: bool
    concurrency: int
    trials_planned: int
    trials: tuple[TrialSummary, ...]
    conditions: Conditions = field(default_factory=Conditions)
    looks: tuple[Look, ...] = ()
    seconds: float | None = None
    of_counts: bool = False

    @classmethod
    def of(cls, run: Run, trials: tuple[TrialSummary, ...] = ()) -> "RunSummary":
        """Summarize a run whose trials are passed separately, or that has none yet."""
        return cls(
            id=run.id,
            model=run.model.name,
            simulated=run.model.simulated,
            complete=run.complete,
            concurrency=run.concurrency,
            trials_planned=run.trials_planned,
            trials=trials,
            conditions=Conditions.of(run),
            looks=run.looks,
            seconds=run.effort.seconds if run.effort else None,
        )

    @classmethod
    def of_table(cls, imported: ImportedCounts) -> "RunSummary":
        """Summarize a table by trial. Its seeds are negative: no trial of a run pairs with them."""
        counts = imported.counts
        trials = tuple(
            TrialSummary(
                scenario,
                number=at + 1,
                seed=-1 - at,
                outcome=Outcome.COMPLETED,
                calls=counts.calls[at],
                errors={name: of[at] for name, of in counts.by_class.items() if of[at]},
            )
            for at, (scenario, _) in enumerate(imported.trials)
        )
        return cls(
            id=imported.id,
            model=imported.model.name,
            simulated=imported.model.simulated,
            complete=True,
            concurrency=1,
            trials_planned=len(trials),
            trials=trials,
            of_counts=True,
        )

    @property
    def ended(self) -> "RunSummary":
        """The run without the interrupted trials of a resumed run, which plays them again."""
        if self.complete:
            return self
        ended = (trial for trial in self.trials if trial.cause is not Cause.INTERRUPTED)
        return replace(self, trials=tuple(ended))

    @property
    def counted(self) -> tuple[TrialSummary, ...]:
        """The trials that are not void."""
        return tuple(trial for trial in self.trials if not trial.void)

    @property
    def calls(self) -> int:
        """The calls of the trials that are not void."""
        return sum(trial.calls for trial in self.counted)


def summarize(trial: Trial) -> TrialSummary:
    """Count what a finished trial holds."""
    ran = [record.execution for record in trial.calls if record.execution is not None]
    return TrialSummary(
        scenario=trial.scenario,
        number=trial.number,
        seed=trial.seed,
        outcome=trial.outcome,
        calls=len(trial.calls),
        errors=_by_class(trial.calls),
        executed=len(ran),
        crashed=sum(map(_crashed, ran)),
        handshake=trial.handshake,
        recovery=trial_recovery(trial),
        prompt_tokens=trial.turns[0].usage.prompt_tokens if trial.turns else 0,
        agents=_calls_by_agent(
            [(part.name, _denied(record)) for part in trial.agents for record in part.calls]
        ),
        agent_errors=_by_class(record for part in trial.agents for record in part.calls),
        reason=trial.reason,
        cause=trial.cause,
        retries=trial.retries,
        stretched=trial.stretched,
        goal=trial.goal,
        goal_turn=trial.goal_turn,
    )


def _by_class(calls: Iterable[CallRecord]) -> Counter[str]:
    primaries = (record.verdict.primary for record in calls)
    return Counter(primary.failure_class for primary in primaries if primary)


def _crashed(ran: Execution) -> bool:
    code = ran.exit_code
    return bool(ran.limit) or code is None or code < 0 or code >= SIGNALLED


def _denied(record: CallRecord) -> bool:
    return not record.verdict.allowed


def _calls_by_agent(calls: Sequence[AgentCall]) -> dict[str, Cluster]:
    """Return denied calls and all calls of each name, in the order of the names."""
    made = Counter(name for name, _ in calls)
    denied = Counter(name for name, is_denied in calls if is_denied)
    return {name: (denied[name], made[name]) for name in sorted(made)}
