"""A run as a gate sees it: how it was made, and counts of each trial without its transcript."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agenteval.core.counts import Cluster
from agenteval.core.outcome import Outcome
from agenteval.core.run import Look, Run

# What a gate knows of how a run was made.
SETTINGS = ("protocol", "taxonomy", "sandbox", "prefork", "max_turns")

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
    seconds: float = 0.0  # spent waiting for the model

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
    """A run's settings and trials. `settings` are those of SETTINGS, by name."""

    id: str
    model: str
    simulated: bool
    complete: bool
    concurrency: int
    trials_planned: int
    settings: Mapping[str, object]
    policies: Mapping[str, str]
    trials: tuple[GatedTrial, ...]
    looks: tuple[Look, ...] = ()

    @classmethod
    def begun(cls, run: Run) -> "GatedRun":
        """A run that has no trials yet."""
        return cls(
            id=run.id,
            model=run.model.name,
            simulated=run.model.simulated,
            complete=run.complete,
            concurrency=run.concurrency,
            trials_planned=run.trials_planned,
            settings={name: getattr(run, name) for name in SETTINGS},
            policies=run.policies,
            trials=(),
        )

    @property
    def counted(self) -> tuple[GatedTrial, ...]:
        """The trials that are not void."""
        return tuple(trial for trial in self.trials if trial.outcome is not Outcome.VOID)
