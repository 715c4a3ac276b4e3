"""Totals of a run: counts by trial, so that intervals can be clustered by trial.

Void trials are excluded from every count here, and listed separately.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agenteval.core.counts import Cluster, ErrorCounts
from agenteval.core.outcome import Outcome
from agenteval.core.recovery import TrialRecovery
from agenteval.core.summary import TrialSummary, World, summarize
from agenteval.core.tally import Tallies
from agenteval.core.trial import Trial


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
        return tuple(one for one in self.counted if one.observed)

    @property
    def void_share(self) -> float:
        return len(self.voids) / max(1, len(self.counted) + len(self.voids))

    @property
    def worlds(self) -> frozenset[World]:
        """The task instances of all trials, void ones included."""
        return frozenset(one.world for one in (*self.counted, *self.voids))

    @property
    def turns(self) -> int:
        return sum(one.turns for one in self.counted)

    @property
    def recoveries(self) -> tuple[TrialRecovery, ...]:
        return tuple(one.recovery for one in self.counted)


def score(trials: Iterable[Trial]) -> Score:
    return score_summaries(map(summarize, trials))


def score_summaries(summaries: Iterable[TrialSummary]) -> Score:
    played = tuple(summaries)
    counted = tuple(one for one in played if not one.void)
    return Score(
        counted=counted,
        voids=tuple(one for one in played if one.void),
        errors=ErrorCounts.added([(one.calls, one.errors) for one in counted]),
        outcomes=Counter(one.outcome for one in counted),
        funnels=_funnels(counted),
    )


def executions(tallies: Tallies) -> Executions:
    limits: Counter[str] = Counter()
    for trial in tallies.counted:
        limits.update(trial.limits)
    return Executions(
        tool_errors=tuple((trial.failed, trial.ran) for trial in tallies.counted),
        limits=limits,
        objections=sum(trial.objections for trial in tallies.counted),
        completion_tokens=sum(trial.completion_tokens for trial in tallies.counted),
    )


def _funnels(summaries: Sequence[TrialSummary]) -> tuple[Funnel, ...]:
    by_scenario: dict[str, list[TrialSummary]] = {}
    for one in summaries:
        if one.handshake:
            by_scenario.setdefault(one.scenario, []).append(one)
    return tuple(_funnel(name, by_scenario[name]) for name in sorted(by_scenario))


def _funnel(scenario: str, summaries: Sequence[TrialSummary]) -> Funnel:
    names = [step.name for step in summaries[0].handshake]
    depths = [one.depth for one in summaries]
    passed = [sum(depth > at for depth in depths) for at in range(len(names))]
    ordered = [order for one in summaries if (order := one.in_order) is not None]
    return Funnel(
        scenario,
        len(summaries),
        tuple(zip(names, passed, strict=True)),
        in_order=(sum(ordered), len(ordered)),
    )
