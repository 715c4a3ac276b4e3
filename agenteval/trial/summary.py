"""The summary of a trial and of a run, the input of every figure; and the pairing of two runs.

No transcripts: a run of a thousand trials is compared from its summaries alone.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain
from operator import attrgetter

from agenteval.errors import Cause
from agenteval.trial.call import Outcome
from agenteval.trial.recovery import NO_DENIALS, TrialRecovery, trial_recovery
from agenteval.trial.run import Conditions, Look, ModelCard, Run
from agenteval.trial.trial import (
    CallRecord,
    Cluster,
    ErrorCounts,
    Execution,
    GoalCheck,
    HandshakeStep,
    Trial,
)


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
        """Return the errors of this class, of all calls, with those of the sub-agents."""
        errors = self.errors.get(failure_class, 0) + self.agent_errors.get(failure_class, 0)
        calls_of_agents = sum(made for _, made in self.agents.values())
        return errors, self.calls + calls_of_agents

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

    def other_errors(errors: Mapping[str, int]) -> dict[str, int]:
        return {name: count for name, count in errors.items() if name not in classes}

    remaining = []
    for trial in trials:
        errors = other_errors(trial.errors)
        agent_errors = other_errors(trial.agent_errors)
        remaining.append(replace(trial, errors=errors, agent_errors=agent_errors))
    return tuple(remaining)


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
        trials = []
        for at, (scenario, _) in enumerate(imported.trials):
            errors = {name: of[at] for name, of in counts.by_class.items() if of[at]}
            trial = TrialSummary(
                scenario,
                number=at + 1,
                seed=-1 - at,
                outcome=Outcome.COMPLETED,
                calls=counts.calls[at],
                errors=errors,
            )
            trials.append(trial)
        return cls(
            id=imported.id,
            model=imported.model.name,
            simulated=imported.model.simulated,
            complete=True,
            concurrency=1,
            trials_planned=len(trials),
            trials=tuple(trials),
            of_counts=True,
        )

    @property
    def ended(self) -> "RunSummary":
        """The run without the interrupted trials of a resumed run, which plays them again."""
        if self.complete:
            return self
        ended = [trial for trial in self.trials if trial.cause is not Cause.INTERRUPTED]
        return replace(self, trials=tuple(ended))

    @property
    def counted(self) -> tuple[TrialSummary, ...]:
        """The trials that are not void."""
        return _without_void(self.trials)

    @property
    def calls(self) -> int:
        """The calls of the trials that are not void."""
        return sum(trial.calls for trial in self.counted)


def summarize(trial: Trial) -> TrialSummary:
    """Count what a finished trial holds."""
    executions = [record.execution for record in trial.calls if record.execution is not None]
    calls_by_agent: defaultdict[str, list[CallRecord]] = defaultdict(list)
    for part in trial.agents:
        calls_by_agent[part.name] += part.calls
    agents = {}
    for name, calls in sorted(calls_by_agent.items()):
        if calls:
            denied = sum(not record.verdict.allowed for record in calls)
            agents[name] = (denied, len(calls))
    return TrialSummary(
        scenario=trial.scenario,
        number=trial.number,
        seed=trial.seed,
        outcome=trial.outcome,
        calls=len(trial.calls),
        errors=_by_class(trial.calls),
        executed=len(executions),
        crashed=sum(map(_is_crashed, executions)),
        handshake=trial.handshake,
        recovery=trial_recovery(trial),
        prompt_tokens=trial.turns[0].usage.prompt_tokens if trial.turns else 0,
        agents=agents,
        agent_errors=_by_class(chain.from_iterable(part.calls for part in trial.agents)),
        reason=trial.reason,
        cause=trial.cause,
        retries=trial.retries,
        stretched=trial.stretched,
        goal=trial.goal,
        goal_turn=trial.goal_turn,
    )


def _by_class(calls: Iterable[CallRecord]) -> Counter[str]:
    primaries = [record.verdict.primary for record in calls]
    return Counter(primary.failure_class for primary in primaries if primary)


def _is_crashed(execution: Execution) -> bool:
    code = execution.exit_code
    return bool(execution.limit) or code is None or code < 0 or code >= SIGNALLED


# Pairing.

Trials = tuple[TrialSummary, ...]
_Scenarios = Mapping[str, Sequence[TrialSummary]]


@dataclass(frozen=True, slots=True)
class Pairing:
    """The trials that are compared.

    If `paired`, trials at the same place are of one task instance. Else the two runs have no task
    instance in common, and their trials of the same scenarios are compared; `alike` is False if
    there are none.
    `left_out` counts the calls of each run that are not compared, `trials_left_out` the trials.
    """

    first: Trials
    second: Trials
    paired: bool
    left_out: tuple[int, int] = (0, 0)
    trials_left_out: tuple[int, int] = (0, 0)
    alike: bool = True

    @property
    def worlds(self) -> int:
        """The number of task instances that both runs played."""
        return len(self.first) if self.paired else 0


def pair(first: Sequence[TrialSummary], second: Sequence[TrialSummary]) -> Pairing:
    """Pair two runs by task instance: the same scenario, number and seed.

    A void trial is paired with none. If the two runs share some instances, those alone are
    compared, in the order of the first run. If they share none, the trials of the scenarios that
    both played are compared, unpaired, in the same proportions on both sides. Otherwise the run
    with more trials of easy scenarios would look better. If no scenario is known, as in a table,
    all trials are compared.
    """
    sides = _without_void(first), _without_void(second)
    first_by_world, second_by_world = ({trial.world: trial for trial in side} for side in sides)
    shared = [world for world in first_by_world if world in second_by_world]
    if shared:
        own = tuple(first_by_world[world] for world in shared)
        other = tuple(second_by_world[world] for world in shared)
        return _pairing(sides, (own, other), paired=True)
    first_scenarios, second_scenarios = map(_by_scenario, sides)
    # A scenario of a table has no name.
    if not any(first_scenarios) or not any(second_scenarios):
        return Pairing(*sides, paired=False)
    numbers = _in_proportion(first_scenarios, second_scenarios)
    if not numbers:
        return Pairing(*sides, paired=False, alike=False)
    own = _lowest_numbers(first_scenarios, {name: most for name, (most, _) in numbers.items()})
    other = _lowest_numbers(second_scenarios, {name: most for name, (_, most) in numbers.items()})
    return _pairing(sides, (own, other), paired=False)


def _without_void(trials: Iterable[TrialSummary]) -> Trials:
    return tuple(trial for trial in trials if not trial.void)


def _by_scenario(trials: Trials) -> dict[str, list[TrialSummary]]:
    by_scenario: defaultdict[str, list[TrialSummary]] = defaultdict(list)
    for trial in trials:
        by_scenario[trial.scenario].append(trial)
    return by_scenario


def _in_proportion(first: _Scenarios, second: _Scenarios) -> Mapping[str, tuple[int, int]]:
    """Return how many trials of each common scenario are compared: all, if in proportion."""
    common = [name for name in first if name in second]
    numbers = {name: (len(first[name]), len(second[name])) for name in common}
    proportions = {Fraction(*sizes) for sizes in numbers.values()}
    if len(proportions) <= 1:
        return numbers
    return {name: (min(sizes), min(sizes)) for name, sizes in numbers.items()}


def _lowest_numbers(scenarios: _Scenarios, numbers: Mapping[str, int]) -> Trials:
    """Return that many trials of each scenario: the lowest numbers, whatever their outcome."""
    trials: list[TrialSummary] = []
    for name, most in numbers.items():
        ranked = sorted(scenarios[name], key=attrgetter("number"))
        trials += ranked[:most]
    return tuple(trials)


def _pairing(
    sides: tuple[Trials, Trials], compared: tuple[Trials, Trials], *, paired: bool
) -> Pairing:
    first, second = sides
    own, other = compared
    return Pairing(
        own,
        other,
        paired=paired,
        left_out=(_calls(first) - _calls(own), _calls(second) - _calls(other)),
        trials_left_out=(len(first) - len(own), len(second) - len(other)),
    )


def _calls(trials: Iterable[TrialSummary]) -> int:
    return sum(trial.calls for trial in trials)
