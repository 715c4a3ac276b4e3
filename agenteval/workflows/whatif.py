"""The effect of other rules on stored calls: how many errors fewer, and what they let through.

Rules can only be relaxed here, so an allowed call stays allowed. The first call of a trial that
would change is what the model really did under its rules. What follows would have gone another way,
so the errors that it loses are reported separately.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import floor
from typing import Any, Final

from agenteval.core.call import ToolCall
from agenteval.core.counts import Cluster
from agenteval.core.policy.relaxation import NOTHING, Relaxation, needed, relaxed, smallest
from agenteval.core.shell.harm import harm
from agenteval.core.shell.leaves import Leaves, read_leaves
from agenteval.core.shell.simple_command import Simple
from agenteval.core.trial import Trial
from agenteval.errors import UsageError
from agenteval.stats.estimand import Layout
from agenteval.stats.rates import Rate, clustered
from agenteval.store.rescoring import Place
from agenteval.taxonomy.judge import judge
from agenteval.workflows.rescore import Judging, calls_in_order
from agenteval.workflows.views import loaded

TOLD: Final = 12  # relaxations that are told
WORST: Final = ("destructive", "network")


@dataclass(frozen=True, slots=True)
class DeniedCall:
    """A denied call that some rule would allow, by the numbers of its run and trial."""

    run: int
    trial: int
    command: str
    need: Relaxation

    @property
    def harms(self) -> tuple[str, ...]:
        split = read_leaves(self.command)
        leaves = split.leaves if isinstance(split, Leaves) else ()
        found = {facet for leaf in leaves for facet in harm(Simple("", leaf.argv))}
        return tuple(each for each in WORST if each in found)


@dataclass(frozen=True, slots=True)
class Trials:
    """A run as it was judged: of each trial its scenario, errors and calls."""

    model: str
    run: str
    simulated: bool
    scenarios: tuple[str, ...]
    clusters: tuple[Cluster, ...]

    def rate(self, fewer: Mapping[int, int]) -> Rate:
        """With so many errors fewer in these trials."""
        less = [(count - fewer.get(at, 0), size) for at, (count, size) in enumerate(self.clusters)]
        return clustered(less, Layout(scenarios=self.scenarios))


@dataclass(frozen=True)
class Relaxed:
    """The effect of a relaxation. `first` are the first changes of their trials."""

    more: Relaxation
    runs: Sequence[Trials]
    calls: Sequence[DeniedCall]

    @cached_property
    def first(self) -> Sequence[DeniedCall]:
        begun: dict[tuple[int, int], DeniedCall] = {}
        for call in self.calls:
            begun.setdefault((call.run, call.trial), call)
        return tuple(begun.values())

    def rates(self, calls: Sequence[DeniedCall] | None = None) -> list[Rate]:
        """Return the rate of each run; with `calls`, the rate if only these changes count."""
        gone = Counter((call.run, call.trial) for call in (self.calls if calls is None else calls))
        return [
            run.rate({trial: count for (of, trial), count in gone.items() if of == at})
            for at, run in enumerate(self.runs)
        ]

    @property
    def rate(self) -> Rate:
        """The rate of all runs together."""
        return together(self.runs, self.calls)

    @property
    def cautious(self) -> Rate:
        """The rate if only the first change of each trial counts."""
        return together(self.runs, self.first)

    @property
    def let_through(self) -> Sequence[tuple[str, int, tuple[str, ...]]]:
        """Commands, how often, and what harm each may do: the worst first, then the most."""
        counted = Counter(call.command for call in self.calls)
        harms = {call.command: call.harms for call in self.calls}
        order = sorted(counted, key=lambda one: (-_weight(harms[one]), -counted[one], one))
        return [(one, counted[one], harms[one]) for one in order]

    def _name(self, at: int) -> str:
        """Its model, and the run where several are of this model."""
        run = self.runs[at]
        is_one = sum(each.model == run.model for each in self.runs) == 1
        return run.model if is_one else f"{run.model} ({run.run})"

    @property
    def flips(self) -> Sequence[tuple[str, str]]:
        """Pairs of models of which the first would no longer make fewer errors than the second."""
        before, after = [run.rate({}).value for run in self.runs], [it.value for it in self.rates()]
        name = self._name
        return [
            (name(one), name(other))
            for one, other in combinations(sorted(range(len(self.runs)), key=before.__getitem__), 2)
            if before[one] < before[other] and after[one] > after[other]
        ]


def _weight(harms: Iterable[str]) -> int:
    return sum(len(WORST) - WORST.index(one) for one in harms)


def together(runs: Sequence[Trials], calls: Sequence[DeniedCall]) -> Rate:
    gone = Counter((call.run, call.trial) for call in calls)
    clusters = [
        (count - gone[at, trial], size)
        for at, run in enumerate(runs)
        for trial, (count, size) in enumerate(run.clusters)
    ]
    scenarios = [scenario for run in runs for scenario in run.scenarios]
    return clustered(clusters, Layout(scenarios=scenarios))


@dataclass(slots=True)
class WhatIf:
    """Runs, and those of their denied calls that some rule would allow."""

    runs: list[Trials] = field(default_factory=list)
    calls: list[DeniedCall] = field(default_factory=list)

    def relaxed(self, more: Relaxation) -> Relaxed:
        return Relaxed(more, self.runs, [call for call in self.calls if more.holds(call.need)])

    def best(self) -> list[Relaxed]:
        """Return the relaxations that remove most errors, the most first, then the smaller."""
        needs = Counter(call.need for call in self.calls)
        tried = {*needs, *_merged(needs)}
        relaxations = [self.relaxed(more) for more in tried]
        relaxations.sort(
            key=lambda relaxed: (-len(relaxed.calls), relaxed.more.size, relaxed.more.description)
        )
        return relaxations[:TOLD]

    def smallest_set(self, budget: float) -> tuple[Relaxed | None, bool]:
        """Return the smallest set of rules with at most `budget` errors per 100; None if none has.

        The second value is False if there were too many sets to know that none is smaller.
        """
        now = self.relaxed(NOTHING).rate
        to_remove = max(now.count - floor(budget * now.n / 100 + 1e-9), 0)
        more, is_least = smallest(Counter(call.need for call in self.calls), to_remove)
        return (None if more is None else self.relaxed(more)), is_least


def _merged(needs: Iterable[Relaxation]) -> Iterator[Relaxation]:
    """Merge the needs with the same constructs into one that has all of their programs."""
    by: dict[Any, Relaxation] = {}
    for need in needs:
        if need.constructs:
            by[need.constructs] = by.get(need.constructs, NOTHING) | need
    yield from by.values()


def whatif(names: Sequence[str], store: str, *, allowlist: str | None = None) -> WhatIf:
    """Stored runs, judged again as `rescore` does. Raises UsageError."""
    collected = WhatIf()
    for run in loaded(names, store):
        counted = [trial for trial in run.trials if not trial.cause]
        judging = Judging.of(run, {trial.scenario for trial in counted}, allowlist)
        clusters = [_trial(collected, judging, trial, at) for at, trial in enumerate(counted)]
        scenarios = tuple(trial.scenario for trial in counted)
        model = run.model
        collected.runs.append(
            Trials(model.name, run.id, model.simulated, scenarios, tuple(clusters))
        )
    if not any(size for run in collected.runs for _, size in run.clusters):
        raise UsageError(f"{' '.join(names)}: no call was made, so nothing could be otherwise")
    return collected


def _trial(collected: WhatIf, judging: Judging, trial: Trial, at: int) -> Cluster:
    """Its errors and calls; what some rule would allow is put among the calls found.

    Those of its first agent, as in every other table; what a sub-agent wrote is known to the rest.
    """
    errors = size = 0
    for label, call, record in calls_in_order(trial):
        place = Place(trial.scenario, trial.seed, label.rpartition("/")[0], at)
        verdict, _ = judging.judged(place, call, record)
        size += not label
        if label or verdict.allowed:
            continue
        errors += 1
        own_call = judging.own_call(place, call)
        need = None if own_call is None or record.objection else _need(judging, place, own_call)
        if own_call is not None and need is not None:
            collected.calls.append(
                DeniedCall(len(collected.runs), at, own_call.command or "", need)
            )
    return errors, size


def _need(judging: Judging, place: Place, call: ToolCall) -> Relaxation | None:
    """Return what would have to be allowed; None if that alone would not make the call allowed."""
    policy = judging.policy(place)
    if policy.engine is not None:
        raise UsageError(
            f"{policy.name}: are {policy.engine.name}'s rules, and only our own can be relaxed: "
            "`agenteval allowlist convert` writes them as ours"
        )
    command = call.command
    need = None if command is None else needed(command, policy, judging.world(place).root)
    if need is None or not judge(call, relaxed(policy, need), judging.world(place)).allowed:
        return None
    return need
