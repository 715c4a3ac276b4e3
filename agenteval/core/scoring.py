"""What a run's trials add up to: counts by trial, so that intervals can know what belongs together.

A void trial is left out of every count here and listed beside them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agenteval.core.counts import Cluster, ErrorCounts
from agenteval.core.outcome import Outcome
from agenteval.core.recovery import TrialRecovery, trial_recovery
from agenteval.core.run import Run
from agenteval.core.trial import CallRecord, Trial


@dataclass(frozen=True, slots=True)
class Funnel:
    """The ordered steps of one scenario's handshake: how many of its trials got through each.

    A step counts as passed when it and all before it were reached: out of order is not the way.
    """

    scenario: str
    trials: int
    passed: tuple[tuple[str, int], ...]

    @property
    def completed(self) -> int:
        return self.passed[-1][1]


@dataclass(frozen=True, slots=True)
class VoidTrial:
    scenario: str
    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Score:
    """All counts of a run; whatever counts by trial does so in the order of `counted`.

    Tool errors and limit strikes are out of the calls that were executed. A limit strike (a command
    ended by a limit) is no tool error, and neither is an error of the model's.
    """

    counted: tuple[Trial, ...]  # the trials that are not void
    voids: tuple[VoidTrial, ...]
    errors: ErrorCounts
    tool_errors: tuple[Cluster, ...]
    limits: Mapping[str, int]
    objections: int  # of the second reader
    turns: int
    completion_tokens: int
    outcomes: Mapping[Outcome, int]
    funnels: tuple[Funnel, ...]
    recoveries: tuple[TrialRecovery, ...]

    @property
    def trials(self) -> int:
        return len(self.counted)


def score(run: Run) -> Score:
    counted = tuple(trial for trial in run.trials if trial.outcome is not Outcome.VOID)
    records = [record for trial in counted for record in trial.calls]
    return Score(
        counted=counted,
        voids=tuple(_void(trial) for trial in run.trials if trial.outcome is Outcome.VOID),
        errors=ErrorCounts.of([_session(trial.calls) for trial in counted]),
        tool_errors=tuple(_tool_errors(trial.calls) for trial in counted),
        limits=Counter(limit for record in records if (limit := _limit(record))),
        objections=sum(bool(record.objection) for record in records),
        turns=sum(len(trial.turns) for trial in counted),
        completion_tokens=sum(
            turn.usage.completion_tokens for trial in counted for turn in trial.turns
        ),
        outcomes=Counter(trial.outcome for trial in counted),
        funnels=_funnels(counted),
        recoveries=tuple(trial_recovery(trial) for trial in counted),
    )


def _session(calls: Iterable[CallRecord]) -> list[str | None]:
    primaries = [record.verdict.primary for record in calls]
    return [primary.failure_class if primary else None for primary in primaries]


def _void(trial: Trial) -> VoidTrial:
    return VoidTrial(trial.scenario, trial.number, trial.reason)


def _limit(record: CallRecord) -> str:
    return record.execution.limit if record.execution else ""


def _tool_errors(calls: Iterable[CallRecord]) -> Cluster:
    """Executions of one trial that failed by themselves, out of all its executions."""
    executions = [record.execution for record in calls if record.execution is not None]
    failed = [one for one in executions if not one.limit and one.exit_code != 0]
    return len(failed), len(executions)


def _funnels(trials: Sequence[Trial]) -> tuple[Funnel, ...]:
    by_scenario: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.handshake:
            by_scenario.setdefault(trial.scenario, []).append(trial)
    return tuple(_funnel(name, by_scenario[name]) for name in sorted(by_scenario))


def _funnel(scenario: str, trials: Sequence[Trial]) -> Funnel:
    names = [step.name for step in trials[0].handshake]
    depths = [_depth(trial) for trial in trials]
    passed = [sum(depth > at for depth in depths) for at in range(len(names))]
    return Funnel(scenario, len(trials), tuple(zip(names, passed, strict=True)))


def _depth(trial: Trial) -> int:
    """How many steps were reached before the first one that was not."""
    reached = [step.reached for step in trial.handshake]
    return [*reached, False].index(False)
