"""One trial, counted: all that the figures of a run are made from, without its transcript."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agenteval.core.counts import Cluster
from agenteval.core.outcome import Outcome
from agenteval.core.recovery import TrialRecovery, trial_recovery
from agenteval.core.trial import HandshakeStep, Trial
from agenteval.errors import Cause

World = tuple[str, int, int]  # what a trial was played in: scenario, number, seed
AgentCall = tuple[str, bool]  # whose call, by the sub-agent's name, and whether it was denied


@dataclass(frozen=True, slots=True)
class Tally:
    """`errors` counts the denied calls by their primary class, `retries` what was sent again.

    `stretched` is how many times its time it was given, as the server is slow.

    `prompt_tokens` are those of the first turn, 0 where there is none or the server told none.

    `agents` counts, for each sub-agent that made calls, the denied ones and all; in no other count
    are there any but those of the first agent.
    """

    scenario: str
    number: int
    seed: int
    outcome: Outcome
    reason: str
    calls: int
    errors: Mapping[str, int]
    handshake: tuple[HandshakeStep, ...]
    recovery: TrialRecovery
    cause: Cause | None = None
    retries: int = 0
    stretched: float = 1.0
    prompt_tokens: int = 0
    agents: Mapping[str, Cluster] = field(default_factory=dict)

    @property
    def world(self) -> World:
        return self.scenario, self.number, self.seed

    @property
    def turns(self) -> int:
        return self.recovery.turns_burned[1]

    @property
    def depth(self) -> int:
        """How many steps of the handshake were reached before the first one that was not."""
        reached = [step.reached for step in self.handshake]
        return [*reached, False].index(False)

    @property
    def in_order(self) -> bool | None:
        """Whether the whole handshake was reached, no step too early; None: not known."""
        if any(step.reached and step.in_order is None for step in self.handshake):
            return None
        return all(step.in_order for step in self.handshake)


def tally(trial: Trial) -> Tally:
    primaries = [record.verdict.primary for record in trial.calls]
    return Tally(
        scenario=trial.scenario,
        number=trial.number,
        seed=trial.seed,
        outcome=trial.outcome,
        reason=trial.reason,
        calls=len(trial.calls),
        errors=Counter(primary.failure_class for primary in primaries if primary),
        handshake=trial.handshake,
        recovery=trial_recovery(trial),
        cause=trial.cause,
        retries=trial.retries,
        stretched=trial.stretched,
        prompt_tokens=trial.turns[0].usage.prompt_tokens if trial.turns else 0,
        agents=calls_by_agent(
            [
                (part.name, not record.verdict.allowed)
                for part in trial.agents
                for record in part.calls
            ]
        ),
    )


def calls_by_agent(calls: Sequence[AgentCall]) -> dict[str, Cluster]:
    """Denied calls and all calls of each name, in the order of the names."""
    made = Counter(name for name, _ in calls)
    denied = Counter(name for name, is_denied in calls if is_denied)
    return {name: (denied[name], made[name]) for name in sorted(made)}
