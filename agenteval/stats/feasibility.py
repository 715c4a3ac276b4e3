"""Feasibility: the criteria that no candidate can pass in a run this small, and the size needed."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from math import inf
from statistics import NormalDist

from agenteval.core.summary import RunSummary, TrialSummary
from agenteval.stats.comparison import POWER
from agenteval.stats.criteria import CALLS, COMMANDS, Rules
from agenteval.stats.estimand import Estimand
from agenteval.stats.guarded_tests import Guarded
from agenteval.stats.limit_tests import MOST, LimitTest
from agenteval.stats.promotion import LEVEL, GateVerdict, Result, judge_gate
from agenteval.stats.quantiles import falling

AS_MANY_CALLS = "if the candidate makes as many calls a trial as the baseline"
MOST_TRIALS = 4_000  # that a plan asks for
_NEW_WORLDS = 1 << 32  # seeds between a trial and the one that repeats it

Passing = Callable[[int], Mapping[str, int]]  # of so many trials: what passes, and its n


@dataclass(frozen=True, slots=True)
class OutOfReach:
    """A criterion that no run of size `n` can pass; one of size `enough` can, without any fault.

    `enough` is infinite when no practical number suffices.
    """

    name: str  # as in gate.toml
    n: int
    of: str
    enough: float

    @property
    def by_calls(self) -> bool:
        """True if more calls in each trial suffice; for a planned run their number is a guess."""
        return self.of in {CALLS, COMMANDS} and self.enough < inf

    @property
    def fields(self) -> dict[str, str | int | float | None]:
        """The values by field name; None where no number is enough, as JSON has no infinity."""
        return {**asdict(self), "enough": self.enough if self.enough < inf else None}


def out_of_reach(
    baseline: RunSummary, candidate: RunSummary, rules: Rules, *, level: float = LEVEL
) -> tuple[OutOfReach, ...]:
    """Return the criteria and minimums that a flawless candidate would not pass in these trials."""
    flawless = replace(candidate, trials=tuple(map(TrialSummary.flawless, candidate.trials)))

    @cache
    def passing(trials: int) -> Mapping[str, int]:
        laps = -(-trials // max(len(flawless.trials), 1))
        before = repeated(baseline, laps * len(baseline.trials), rules.about)
        after = repeated(flawless, trials, rules.about)
        criteria = judge_gate(before, after, rules, level=level).criteria
        return {
            one.measure.name: one.measure.n for one in criteria if one.verdict is GateVerdict.PASS
        }

    judgement = judge_gate(baseline, flawless, rules, level=level)
    unreachable = [
        OutOfReach(one.measure.name, one.measure.n, one.measure.of, enough)
        for one in judgement.criteria
        if one.verdict is not GateVerdict.PASS
        for enough in [_enough(one.measure.name, len(flawless.trials), passing)]
    ]
    unreachable.extend(
        OutOfReach(f"minimum.{one.of}", one.observed, one.of, one.required)
        for one in judgement.minimums
        if one.verdict is not GateVerdict.PASS
    )
    return tuple(unreachable)


def repeated(run: RunSummary, trials: int, about: Estimand) -> RunSummary:
    """Repeat the trials of a run until there are this many; each repetition has new seeds.

    If the verdict is about scenarios like these, each repetition has new scenarios too.
    """
    repetitions = []
    for at in range(trials if run.trials else 0):
        lap, place = divmod(at, len(run.trials))
        trial = run.trials[place]
        scenario = f"{trial.scenario} {lap}" if about is Estimand.LIKE else trial.scenario
        repetitions.append(replace(trial, scenario=scenario, seed=trial.seed + lap * _NEW_WORLDS))
    return replace(run, trials=tuple(repetitions))


def _enough(name: str, played: int, passing: Passing) -> float:
    """Return the n of the fewest trials that pass a criterion, by doubling, then by bisection.

    Infinite if more than `MOST_TRIALS` would be needed.
    """
    low = high = max(played, 1)
    while name not in passing(high):
        low, high = high, 2 * high
        if high > MOST_TRIALS:
            return inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if name in passing(middle) else (middle, high)
    return passing(high)[name]


def needed(result: Result) -> tuple[float, float] | None:
    """Return the factors by which a new run needs more trials to decide a criterion.

    The power is 80 %. The first factor assumes that the truth is the estimate, the second that it
    lies half as far from the limit. Infinite where no practical number suffices; None if the
    criterion is decided.
    """
    if result.verdict is not GateVerdict.INCONCLUSIVE:
        return None
    test, limit = result.measure.test, result.measure.limit
    if test is None:
        return inf, inf
    level = (
        LEVEL if test.estimate < limit else LEVEL / result.family_size
    )  # a new run's, not this look's
    return _times(test, limit, level), _times(test.nearer(limit), limit, level)


def _times(test: LimitTest, limit: float, level: float) -> float:
    normal, passing = NormalDist(), test.estimate < limit
    near = test.near(limit) if isinstance(test, Guarded) else test
    enough = 1 - normal.cdf(normal.inv_cdf(1 - level) + normal.inv_cdf(POWER))

    def chance(times: float) -> float:
        scaled = near.scaled(times)
        return scaled.below(limit) if passing else scaled.above(limit)

    times = falling(chance, enough, 1.0, MOST)
    return inf if times > MOST * 0.999 else times
