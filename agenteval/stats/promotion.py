"""The gate's verdict on a candidate: PASS, FAIL, or INCONCLUSIVE for lack of evidence.

PASS when every criterion's upper bound lies below its limit: as all must hold, none needs a
correction. FAIL when a lower bound lies above its limit, after Holm's correction over the criteria.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import ceil

from agenteval.core.pairing import Pairing, pair
from agenteval.core.summary import RunSummary, TrialSummary
from agenteval.stats.comparison import holm
from agenteval.stats.criteria import VOID, Rules
from agenteval.stats.guarded_tests import lower_bound, upper_bound
from agenteval.stats.measures import Measure, measures

LEVEL = 0.05  # one-sided, of each bound
VOID_LIMIT = 0.2  # of the trials, where gate.toml names none: from there on `run` has its own code


class GateVerdict(StrEnum):
    PASS = "PASS"  # noqa: S105 -- no password
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class Result:
    """A measure, judged at a one-sided level.

    `p_fail` is after Holm's correction over `family_size` measures.
    """

    measure: Measure
    verdict: GateVerdict
    p_fail: float
    level: float
    family_size: int

    @property
    def estimate(self) -> float | None:
        return self.measure.test.estimate if self.measure.test else None

    @cached_property
    def bounds(self) -> tuple[float, float] | None:
        """The lower and the upper bound, each one-sided at `level`; None without a test."""
        test = self.measure.test
        return (lower_bound(test, self.level), upper_bound(test, self.level)) if test else None

    def bearing(self, candidate: RunSummary) -> Sequence[TrialSummary]:
        """Return the candidate's trials that the figure is computed from."""
        if self.measure.paired:
            return self.measure.compared
        return [trial for trial, _ in self.measure.criterion.counted(candidate.trials)]


@dataclass(frozen=True, slots=True)
class Minimum:
    """The least amount of evidence under the margins before anything passes."""

    of: str
    required: int
    observed: int

    @property
    def verdict(self) -> GateVerdict:
        return GateVerdict.PASS if self.observed >= self.required else GateVerdict.INCONCLUSIVE


@dataclass(frozen=True, slots=True)
class Judgement:
    """The gate's verdict with its criteria. `pairing` holds the trials behind the margins."""

    verdict: GateVerdict
    criteria: tuple[Result, ...]
    minimums: tuple[Minimum, ...]
    level: float
    rules: Rules
    scenarios: int
    pairing: Pairing

    @property
    def still_open(self) -> Rules:
        """The rules without the criteria that pass: as faults never help, a flawless run passes."""
        found = [(one.measure.name, one.verdict) for one in self.criteria]
        return self.rules.without([name for name, verdict in found if verdict is GateVerdict.PASS])


def judge_gate(
    baseline: RunSummary, candidate: RunSummary, rules: Rules, *, level: float = LEVEL
) -> Judgement:
    """Judge the candidate by the rules; `level` is lower at an interim look of a run."""
    pairing = pair(baseline.trials, candidate.trials)
    judged = tuple(measures(baseline, candidate, pairing, rules))
    adjusted = holm([_p_fail(measure) for measure in judged])
    criteria = tuple(
        Result(measure, _verdict(measure, p_fail, level), p_fail, level, len(judged))
        for measure, p_fail in zip(judged, adjusted, strict=True)
    )
    minimums = (
        Minimum("trials", rules.trials, len(pairing.second)),
        Minimum("calls", rules.calls, sum(trial.calls for trial in pairing.second)),
        *_unobserved_scenarios(baseline, candidate),
        *_broken(candidate, rules),
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


def _unobserved_scenarios(baseline: RunSummary, candidate: RunSummary) -> Iterator[Minimum]:
    """Yield a minimum if some scenario has no valid trial, as it may be the hardest.

    All of its trials are void, or a run under way has not played it yet and the baseline has.
    """
    begun = {trial.scenario for trial in candidate.trials}
    if not (candidate.complete or baseline.of_counts):
        begun |= {trial.scenario for trial in baseline.counted}
    observed = {trial.scenario for trial in candidate.counted}
    if begun - observed:
        yield Minimum("scenarios", len(begun), len(begun & observed))


def _broken(candidate: RunSummary, rules: Rules) -> Iterator[Minimum]:
    """Yield a minimum if too many trials are void and no budget limits them."""
    enough = ceil((1 - VOID_LIMIT) * len(candidate.trials))
    if VOID not in rules.budgets and len(candidate.counted) < enough:
        yield Minimum("non-voids", enough, len(candidate.counted))


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
