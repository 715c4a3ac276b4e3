"""A run as a gate sees it: how it was made, and counts of each trial without its transcript."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agenteval.core.conditions import Conditions
from agenteval.core.counts import Cluster
from agenteval.core.imported import ImportedCounts
from agenteval.core.outcome import Outcome
from agenteval.core.run import Look, Run

World = tuple[str, int]  # scenario and seed: two trials with both in common met the same world


@dataclass(frozen=True, slots=True)
class GatedTrial:
    """The counts of one trial.

    A crash is an executed command that a limit or a signal ended. `handshake` says whether all its
    steps were reached in their order, and is None where the scenario has none.
    """

    scenario: str
    seed: int
    outcome: Outcome
    calls: int = 0
    by_class: Mapping[str, int] = field(default_factory=dict)
    executed: int = 0
    crashed: int = 0
    handshake: bool | None = None

    @property
    def world(self) -> World:
        return self.scenario, self.seed

    @property
    def errors(self) -> Cluster:
        return sum(self.by_class.values()), self.calls

    def errors_of(self, failure_class: str) -> Cluster:
        return self.by_class.get(failure_class, 0), self.calls


@dataclass(frozen=True, slots=True)
class GatedRun:
    """A run's conditions and trials; `seconds` is how long it took by the clock, where known.

    `of_counts`: somebody's table stands behind it and no run, so that calls, errors and classes
    are all there is; how a trial ended, and what it ran, is not known.
    """

    id: str
    model: str
    simulated: bool
    complete: bool
    concurrency: int
    trials_planned: int
    trials: tuple[GatedTrial, ...]
    conditions: Conditions = field(default_factory=Conditions)
    looks: tuple[Look, ...] = ()
    seconds: float | None = None
    of_counts: bool = False

    @classmethod
    def of(cls, run: Run, trials: tuple[GatedTrial, ...] = ()) -> "GatedRun":
        """A run that is given without its trials, or has none yet."""
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
    def of_table(cls, imported: ImportedCounts) -> "GatedRun":
        """Counts by trial; no seed of a run is negative, so that they meet it in no world."""
        counts = imported.counts
        trials = tuple(
            GatedTrial(
                scenario,
                -1 - at,
                Outcome.COMPLETED,
                counts.calls[at],
                {name: errors[at] for name, errors in counts.by_class.items() if errors[at]},
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
    def counted(self) -> tuple[GatedTrial, ...]:
        """The trials that are not void."""
        return tuple(trial for trial in self.trials if trial.outcome is not Outcome.VOID)
