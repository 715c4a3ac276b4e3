"""Feasibility: what a run is too small to pass, whoever is judged, and what a new one needs."""

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
    """A criterion that `n` cannot pass; `enough` of the same would, without a single fault.

    `enough` is infinite when no sensible number would do.
    """

    name: str  # as in gate.toml
    n: int
    of: str
    enough: float

    @property
    def by_calls(self) -> bool:
        """Whether more calls in each trial would do; of a run that is planned these are a guess."""
        return self.of in {CALLS, COMMANDS} and self.enough < inf

    @property
    def fields(self) -> dict[str, str | int | float | None]:
        """By their names; None where no number is enough, as JSON has no infinity."""
        return {**asdict(self), "enough": self.enough if self.enough < inf else None}


def out_of_reach(
    baseline: RunSummary, candidate: RunSummary, rules: Rules, *, level: float = LEVEL
) -> tuple[OutOfReach, ...]:
    """What would not pass if the candidate had played its trials without a fault."""
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
    found = [
        OutOfReach(one.measure.name, one.measure.n, one.measure.of, enough)
        for one in judgement.criteria
        if one.verdict is not GateVerdict.PASS
        for enough in [_enough(one.measure.name, len(flawless.trials), passing)]
    ]
    found.extend(
        OutOfReach(f"minimum.{one.of}", one.seen, one.of, one.asked)
        for one in judgement.minimums
        if one.verdict is not GateVerdict.PASS
    )
    return tuple(found)


def repeated(run: RunSummary, trials: int, about: Estimand) -> RunSummary:
    """So many trials like those of the run, over and over; as a verdict is about scenarios, new."""
    made = []
    for at in range(trials if run.trials else 0):
        lap, place = divmod(at, len(run.trials))
        one = run.trials[place]
        scenario = f"{one.scenario} {lap}" if about is Estimand.LIKE else one.scenario
        made.append(replace(one, scenario=scenario, seed=one.seed + lap * _NEW_WORLDS))
    return replace(run, trials=tuple(made))


def _enough(name: str, played: int, passing: Passing) -> float:
    """The n of the fewest trials that pass it: by doubling, then by halving."""
    low = high = max(played, 1)
    while name not in passing(high):
        low, high = high, 2 * high
        if high > MOST_TRIALS:
            return inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if name in passing(middle) else (middle, high)
    return passing(high)[name]


def needed(one: Result) -> tuple[float, float] | None:
    """How many times as many trials a new run needs to settle a criterion with 80 % power.

    If the truth is what was seen, and if that lies half as far from the limit; infinite where no
    sensible number would do. None where it is settled.
    """
    if one.verdict is not GateVerdict.INCONCLUSIVE:
        return None
    test, limit = one.measure.test, one.measure.limit
    if test is None:
        return inf, inf
    level = LEVEL if test.estimate < limit else LEVEL / one.among  # a new run's, not this look's
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
