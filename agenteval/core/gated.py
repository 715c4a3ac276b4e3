"""A run as a gate sees it: how it was made, and counts of each trial without its transcript."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agenteval.core.counts import Cluster
from agenteval.core.outcome import Outcome
from agenteval.core.run import Look

World = tuple[str, int]  # scenario and seed: two trials with both in common met the same world


@dataclass(frozen=True, slots=True)
class GatedTrial:
    """The counts of one trial.

    A crash is an executed command that a limit or a signal ended. `handshake` says whether all its
    steps were reached, and is None where the scenario has none.
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
    """A run's settings and trials. `settings` holds what two runs must have in common."""

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

    @property
    def counted(self) -> tuple[GatedTrial, ...]:
        """The trials that are not void."""
        return tuple(trial for trial in self.trials if trial.outcome is not Outcome.VOID)
