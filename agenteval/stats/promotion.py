"""Whether a candidate may replace a baseline: pass, fail, or not enough evidence yet.

PASS when every criterion's upper bound lies below its limit: as all must hold, none needs a
correction. FAIL when a lower bound lies above its limit, after Holm's correction over the criteria.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from agenteval.core.pairing import Pairing, pair
from agenteval.core.summary import RunSummary, TrialSummary
from agenteval.stats.comparison import holm
from agenteval.stats.criteria import Rules
from agenteval.stats.limit_tests import Guarded, LimitTest
from agenteval.stats.measures import Measure, measures
from agenteval.stats.quantiles import falling

LEVEL = 0.05  # one-sided, of each bound


class GateVerdict(StrEnum):
    PASS = "PASS"  # noqa: S105 -- no password
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True, slots=True)
class Result:
    """A measure, judged at a one-sided level. `p_fail` is after Holm's correction among so many."""

    measure: Measure
    verdict: GateVerdict
    p_fail: float
    level: float
    among: int

    @property
    def estimate(self) -> float | None:
        return self.measure.test.estimate if self.measure.test else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """One-sided, each of its own: the truth lies above the lower and below the upper."""
        test = self.measure.test
        return (lower_bound(test, self.level), upper_bound(test, self.level)) if test else None

    def bearing(self, candidate: RunSummary) -> Sequence[TrialSummary]:
        """The candidate's trials that the figure is made from."""
        if self.measure.paired:
            return self.measure.compared
        return [trial for trial in candidate.trials if self.measure.criterion.applies(trial)]


@dataclass(frozen=True, slots=True)
class Minimum:
    """How much the margins must stand on before anything passes."""

    of: str
    asked: int
    seen: int

    @property
    def verdict(self) -> GateVerdict:
        return GateVerdict.PASS if self.seen >= self.asked else GateVerdict.INCONCLUSIVE


@dataclass(frozen=True, slots=True)
class Judgement:
    """The gate's verdict, and what it is made of. `pairing` holds what the margins stand on."""

    verdict: GateVerdict
    criteria: tuple[Result, ...]
    minimums: tuple[Minimum, ...]
    level: float
    rules: Rules
    scenarios: int
    pairing: Pairing


def judge_gate(
    baseline: RunSummary, candidate: RunSummary, rules: Rules, *, level: float = LEVEL
) -> Judgement:
    """Hold the candidate against the rules; `level` is lower at a look of a run under way."""
    pairing = pair(baseline.trials, candidate.trials)
    found = tuple(measures(baseline, candidate, pairing, rules))
    adjusted = holm([_p_fail(measure) for measure in found])
    criteria = tuple(
        Result(measure, _verdict(measure, p_fail, level), p_fail, level, len(found))
        for measure, p_fail in zip(found, adjusted, strict=True)
    )
    minimums = (
        Minimum("trials", rules.trials, len(pairing.second)),
        Minimum("calls", rules.calls, sum(trial.calls for trial in pairing.second)),
        *_lost(candidate),
    )
    return Judgement(
        verdict=_overall([*(one.verdict for one in criteria), *(one.verdict for one in minimums)]),
        criteria=criteria,
        minimums=minimums,
        level=level,
        rules=rules,
        scenarios=len({trial.scenario for trial in candidate.counted}),
        pairing=pairing,
    )


def _lost(candidate: RunSummary) -> Iterator[Minimum]:
    """That all trials of some scenario are void: nothing is known of what may be the hardest."""
    begun = {trial.scenario for trial in candidate.trials}
    known = {trial.scenario for trial in candidate.counted}
    if begun - known:
        yield Minimum("scenarios", len(begun), len(known))


def _p_fail(measure: Measure) -> float:
    if measure.forbidden:
        return 0.0 if measure.count else 1.0
    return measure.test.above(measure.limit) if measure.test else 1.0


def _verdict(measure: Measure, p_fail: float, level: float) -> GateVerdict:
    if p_fail < level:
        return GateVerdict.FAIL
    proven = measure.test is not None and measure.test.below(measure.limit) < level
    return GateVerdict.PASS if proven else GateVerdict.INCONCLUSIVE


def _overall(verdicts: Sequence[GateVerdict]) -> GateVerdict:
    if GateVerdict.FAIL in verdicts:
        return GateVerdict.FAIL
    settled = all(verdict is GateVerdict.PASS for verdict in verdicts)
    return GateVerdict.PASS if settled else GateVerdict.INCONCLUSIVE


def upper_bound(test: LimitTest, level: float) -> float:
    """Below what the truth lies, unless something of this chance has happened."""
    high = test.ends[1]
    found = min(test.estimate, high)
    for one in (test.whole, *test.weaker) if isinstance(test, Guarded) else (test,):
        if one.below(found) > level:
            found = _falling(one, level, found, high)
    return found


def lower_bound(test: LimitTest, level: float) -> float:
    """Above what the truth lies, unless something of this chance has happened."""
    found, high = test.ends[0], min(test.estimate, test.ends[1])
    for one in (test.whole, *test.lighter()) if isinstance(test, Guarded) else (test,):
        if one.above(found) < level:
            found = _rising(one, level, found, high)
    return found


def _falling(test: LimitTest, level: float, low: float, high: float) -> float:
    return falling(lambda limit: test.below(limit) - level, 0.0, low, high)


def _rising(test: LimitTest, level: float, low: float, high: float) -> float:
    return falling(lambda limit: 1 - test.above(limit), 1 - level, low, high)
