"""The figures of a candidate that a gate holds against its limits, each with its test."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from agenteval.core.counts import Cluster
from agenteval.core.gated import GatedRun, GatedTrial, World
from agenteval.core.outcome import Outcome
from agenteval.stats.criteria import Comparison, LimitTest, RateTest
from agenteval.stats.rates import clustered
from agenteval.stats.rules import Budget, Over, Rules

Counted = Callable[[GatedTrial], Cluster]
_NOTHING = (0, 0)


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of the candidate, from `count` of `n` of what `of` says, beside its limit.

    `test` is None when a side made no call. `forbidden`: one occurrence is one too many.
    """

    name: str  # as in gate.toml
    limit: float
    count: int
    n: int
    of: str
    test: LimitTest | None
    forbidden: bool = False


def worlds_met(baseline: GatedRun, candidate: GatedRun) -> frozenset[World]:
    """The worlds in which both runs have a trial that is not void."""
    ours, theirs = ({trial.world for trial in run.counted} for run in (baseline, candidate))
    return frozenset(ours & theirs)


def measures(baseline: GatedRun, candidate: GatedRun, rules: Rules) -> Iterator[Measure]:
    """The margin, and every budget of which anything was counted."""
    yield _margin(baseline, candidate, rules)
    limited = [
        *(
            (f"budgets.{budget}", *_COUNTS[budget], limit)
            for budget, limit in rules.budgets.items()
        ),
        *(
            (f"budgets.classes.{name}", "calls", _errors_of(name), limit)
            for name, limit in rules.classes.items()
        ),
        *((f"never.{name}", "calls", _errors_of(name), rules.never_below) for name in rules.never),
    ]
    played = candidate.counted
    for name, of, counted, limit in limited:
        trials = candidate.trials if counted is _void else played
        rate = clustered(_clusters(trials, counted, rules.over), planned_icc=rules.icc)
        if rate.n:
            forbidden = name.startswith("never.")
            yield Measure(name, limit, rate.count, rate.n, of, RateTest.of(rate), forbidden)


def _clusters(trials: Iterable[GatedTrial], counted: Counted, over: Over) -> list[Cluster]:
    groups: dict[object, Cluster] = {}
    for at, trial in enumerate(trials):
        key = trial.scenario if over is Over.SCENARIOS else at
        groups[key] = _added(groups.get(key, _NOTHING), counted(trial))
    return list(groups.values())


def _margin(baseline: GatedRun, candidate: GatedRun, rules: Rules) -> Measure:
    """The candidate beside the baseline: in the worlds that both met, or in all if in none."""
    met = worlds_met(baseline, candidate)
    groups: dict[object, tuple[Cluster, Cluster]] = {}
    for side, run in enumerate((baseline, candidate)):
        for at, trial in enumerate(run.counted):
            if met and trial.world not in met:
                continue
            alone = trial.world if met else (side, at)
            key = trial.scenario if rules.over is Over.SCENARIOS else alone
            before, after = groups.get(key, (_NOTHING, _NOTHING))
            groups[key] = (
                (before, _added(after, trial.errors))
                if side
                else (_added(before, trial.errors), after)
            )
    sides = [[group[side] for group in groups.values()] for side in (0, 1)]
    calls = [sum(size for _, size in clusters) for clusters in sides]
    count = sum(count for count, _ in sides[1])
    test = None
    if all(calls):
        test = Comparison.of(
            list(groups.values()), limit=rules.margin, ratio=rules.ratio, icc=rules.icc
        )
    return Measure("margin", rules.margin, count, calls[1], "calls", test)


def _added(one: Cluster, other: Cluster) -> Cluster:
    return one[0] + other[0], one[1] + other[1]


def _errors(trial: GatedTrial) -> Cluster:
    return trial.errors


def _errors_of(failure_class: str) -> Counted:
    return lambda trial: trial.errors_of(failure_class)


def _handshake_missed(trial: GatedTrial) -> Cluster:
    return _NOTHING if trial.handshake is None else (not trial.handshake, 1)


def _stalled(trial: GatedTrial) -> Cluster:
    return trial.outcome is Outcome.STALLED, 1


def _crashed(trial: GatedTrial) -> Cluster:
    return trial.crashed, trial.executed


def _void(trial: GatedTrial) -> Cluster:
    return trial.outcome is Outcome.VOID, 1


_COUNTS: Mapping[Budget, tuple[str, Counted]] = {
    Budget.ERRORS: ("calls", _errors),
    Budget.HANDSHAKE_MISSED: ("trials", _handshake_missed),
    Budget.STALLED: ("trials", _stalled),
    Budget.CRASHED: ("commands", _crashed),
    Budget.VOID: ("trials", _void),
}
