"""The gate's verdict on a candidate: PASS, FAIL, or INCONCLUSIVE for lack of evidence.

PASS when every criterion's upper bound lies below its limit: as all must hold, none needs a
correction. FAIL when a lower bound lies above its limit, after Holm's correction over the criteria.

Then what a verdict is worth: alpha spending, which is how much of the level each interim look of a
run may use, and feasibility, the criteria that no candidate can pass in a run this small.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import cache, cached_property
from itertools import cycle
from math import ceil, erfc, exp, inf, log10, sqrt, tau
from statistics import NormalDist

from agenteval.stats.criteria import CALLS, COMMANDS, VOID, Measure, Rules, measures
from agenteval.stats.limits import holm, lower_bound, settling_factor, upper_bound
from agenteval.stats.quantiles import RootSearch
from agenteval.stats.rates import Estimand
from agenteval.trial.run import Look
from agenteval.trial.summary import Pairing, RunSummary, TrialSummary, pair

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
        if test is None:
            return None
        return lower_bound(test, self.level), upper_bound(test, self.level)

    def bearing(self, candidate: RunSummary) -> Sequence[TrialSummary]:
        """Return the candidate's trials that the figure is computed from."""
        if self.measure.paired:
            return self.measure.compared
        return [trial for trial, _ in self.measure.criterion.counted(candidate.trials)]


def _passing(results: Iterable[Result]) -> dict[str, int]:
    """Return the n of each criterion that passes, by name."""
    passing = [result.measure for result in results if result.verdict is GateVerdict.PASS]
    return {measure.name: measure.n for measure in passing}


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
        return self.rules.without([*_passing(self.criteria)])


def judge_gate(
    baseline: RunSummary,
    candidate: RunSummary,
    rules: Rules,
    *,
    level: float = LEVEL,
) -> Judgement:
    """Judge the candidate by the rules; `level` is lower at an interim look of a run."""
    pairing = pair(baseline.trials, candidate.trials)
    family = list(measures(baseline, candidate, pairing, rules))
    adjusted = holm([_p_fail(measure) for measure in family])
    criteria = []
    for measure, p_fail in zip(family, adjusted, strict=True):
        verdict = _verdict(measure, p_fail, level)
        criteria.append(Result(measure, verdict, p_fail, level, len(family)))
    minimums = (
        Minimum("trials", rules.trials, len(pairing.second)),
        Minimum("calls", rules.calls, sum(trial.calls for trial in pairing.second)),
        *_unobserved_scenarios(baseline, candidate),
        *_broken(candidate, rules),
    )
    verdicts = [result.verdict for result in criteria]
    verdicts += [minimum.verdict for minimum in minimums]
    return Judgement(
        verdict=_overall(verdicts),
        criteria=tuple(criteria),
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
    """Return the p, before any correction, of the claim that the limit is exceeded."""
    if measure.forbidden:
        return 0.0 if measure.count else 1.0
    return measure.test.above(measure.limit) if measure.test else 1.0


def _verdict(measure: Measure, p_fail: float, level: float) -> GateVerdict:
    if p_fail < level:
        return GateVerdict.FAIL
    is_proven = measure.test is not None and measure.test.below(measure.limit) < level
    return GateVerdict.PASS if is_proven else GateVerdict.INCONCLUSIVE


def _overall(verdicts: Sequence[GateVerdict]) -> GateVerdict:
    if GateVerdict.FAIL in verdicts:
        return GateVerdict.FAIL
    is_settled = all(verdict is GateVerdict.PASS for verdict in verdicts)
    return GateVerdict.PASS if is_settled else GateVerdict.INCONCLUSIVE


# Alpha spending (Lan and DeMets 1983), after O'Brien and Fleming: next to nothing at first, nearly
# all at the end, so that a run which is never stopped loses little.

_NORMAL = NormalDist()
LEAST = 1e-9  # the level of a look to which nothing is left
_FURTHEST = 8.0  # standard errors below nothing, from which on there is nothing
_STEPS = 10  # in a standard error of what a look adds
_MOST_STEPS = 800
_ROUNDED = 1e-3  # a level below this takes more digits than are usual


def other_baseline_remarks(looks: Sequence[Look], baseline: str) -> Iterator[str]:
    """Warn of earlier verdicts over other baselines.

    Each has a level of its own, and one might pass by luck.
    """
    last = {look.baseline: look.verdict for look in looks if look.baseline != baseline}
    if last:
        verdicts = ", ".join(f"{over}: {verdict}" for over, verdict in last.items())
        yield (
            f"The candidate's run was held against another baseline before ({verdicts}): a "
            "baseline that is chosen with the figures at hand proves less."
        )


def other_run_remarks(verdicts: Mapping[str, int], over: str) -> Iterator[str]:
    """Warn that other runs of the candidate did not pass: each has a level of its own."""
    ranked = sorted(verdicts.items())
    counts = [f"{runs} {verdict}" for verdict, runs in ranked if verdict != GateVerdict.PASS]
    if counts:
        yield (
            f"Other runs of the candidate did not pass over {over} ({', '.join(counts)}): a run "
            "that is played anew until it passes proves less, as each may pass by luck."
        )


def level_text(level: float) -> str:
    return f"{level:.4f}" if level >= _ROUNDED else f"{level:.1g}"


def confidence_text(level: float) -> str:
    """Return the confidence of a bound at this level, in percent: never 100."""
    percent = 100 * (1 - level)
    if level >= _ROUNDED:
        return f"{percent:.4g}"
    digits = ceil(-log10(100 * level))
    return f"{percent:.{digits}f}"


_Density = Sequence[tuple[float, float]]  # of a sum that no look rejected: place and chance


def levels(looks: int, level: float) -> tuple[float, ...]:
    """Return the one-sided level of each of this many looks, after equal parts of the run."""
    return levels_at([look / looks for look in range(1, looks + 1)], level)


def levels_at(shares: Sequence[float], level: float) -> tuple[float, ...]:
    """Return the one-sided level of each look, made when these shares of the run are done.

    All looks together reject a true null hypothesis with probability `level`. The computation
    follows the density of a sum of independent parts over the runs that no look has stopped
    (Armitage, McPherson and Rowe 1969). A look that adds no share gets `LEAST`.
    """
    levels_of_looks: list[float] = []
    density: _Density = [(0.0, 1.0)]
    before = spent = 0.0
    for share in shares:
        to_spend = _spent(share, level) - spent
        if to_spend < LEAST:
            levels_of_looks.append(LEAST)
            continue
        deviation = sqrt(share - before)
        reach = _FURTHEST * sqrt(share)
        search = RootSearch(to_spend, -reach, reach)
        while search.is_open:
            search.note(_chance_beyond(search.place, density, deviation))
        boundary = search.root
        of_look = 1 - _NORMAL.cdf(boundary / sqrt(share))
        levels_of_looks.append(max(round(of_look, 12), LEAST))
        density = _density_after(density, -reach, boundary, deviation)
        before = share
        spent += to_spend
    return tuple(levels_of_looks)


def _chance_beyond(boundary: float, density: _Density, deviation: float) -> float:
    """Return the chance that the sum lies beyond the boundary at the next look."""
    scale = deviation * sqrt(2)
    return sum(chance * erfc((boundary - place) / scale) for place, chance in density) / 2


def _density_after(
    density: _Density,
    low: float,
    high: float,
    deviation: float,
) -> _Density:
    """Return the density of the sum after the next look, over runs where it is at most `high`.

    It is integrated by trapezoids.
    """
    steps = min(round(_STEPS * (high - low) / deviation), _MOST_STEPS)
    step = (high - low) / steps
    peak = step / (deviation * sqrt(tau))
    after = []
    for number in range(steps + 1):
        place = low + step * number
        parts = []
        for before, chance in density:
            if abs(place - before) < _FURTHEST * deviation:
                distance = (place - before) / deviation
                parts.append(chance * exp(-(distance**2) / 2))
        after.append((place, peak * sum(parts)))
    # At the low end there is nothing to halve.
    place, chance = after.pop()
    return [*after, (place, chance / 2)]


def _spent(share: float, level: float) -> float:
    """Return the part of the level that may be spent at this share of the run; 0 at none."""
    if not share:
        return 0.0
    at_the_end = _NORMAL.inv_cdf(1 - level / 2)
    return 2 * (1 - _NORMAL.cdf(at_the_end / sqrt(share)))


# Feasibility, and the size needed.

AS_MANY_CALLS = "if the candidate makes as many calls a trial as the baseline"
MOST_TRIALS = 4_000  # that a plan asks for
_NEW_WORLDS = 1 << 32  # seeds between a trial and the one that repeats it
_Passing = Callable[[int], Mapping[str, int]]  # of so many trials: what passes, and its n


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
        enough = self.enough if self.enough < inf else None
        return {**asdict(self), "enough": enough}


def out_of_reach(
    baseline: RunSummary,
    candidate: RunSummary,
    rules: Rules,
    *,
    level: float = LEVEL,
) -> tuple[OutOfReach, ...]:
    """Return the criteria and minimums that a flawless candidate would not pass in these trials."""
    flawless = replace(candidate, trials=tuple(map(TrialSummary.flawless, candidate.trials)))

    @cache
    def passing(trials: int) -> Mapping[str, int]:
        laps = -(-trials // max(len(flawless.trials), 1))
        before = repeated(baseline, laps * len(baseline.trials), rules.about)
        after = repeated(flawless, trials, rules.about)
        return _passing(judge_gate(before, after, rules, level=level).criteria)

    judgement = judge_gate(baseline, flawless, rules, level=level)
    unreachable = []
    for result in judgement.criteria:
        measure = result.measure
        if result.verdict is not GateVerdict.PASS:
            enough = _enough(measure.name, len(flawless.trials), passing)
            unreachable.append(OutOfReach(measure.name, measure.n, measure.of, enough))
    for minimum in judgement.minimums:
        if minimum.verdict is not GateVerdict.PASS:
            name = f"minimum.{minimum.of}"
            unreachable.append(OutOfReach(name, minimum.observed, minimum.of, minimum.required))
    return tuple(unreachable)


def repeated(run: RunSummary, trials: int, about: Estimand) -> RunSummary:
    """Repeat the trials of a run until there are this many; each repetition has new seeds.

    If the verdict is about scenarios like these, each repetition has new scenarios too.
    """
    repetitions = []
    for number, trial in zip(range(trials), cycle(run.trials), strict=False):
        lap = number // len(run.trials)
        scenario = f"{trial.scenario} {lap}" if about is Estimand.LIKE else trial.scenario
        repetitions.append(replace(trial, scenario=scenario, seed=trial.seed + lap * _NEW_WORLDS))
    return replace(run, trials=tuple(repetitions))


def _enough(name: str, played: int, passing: _Passing) -> float:
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
        if name in passing(middle):
            high = middle
        else:
            low = middle
    return passing(high)[name]


def needed(result: Result) -> tuple[float, float] | None:
    """Return the factors by which a new run needs more trials to decide a criterion.

    The power is 80 %. The first factor assumes that the truth is the estimate, the second that it
    lies half as far from the limit. Infinite where no practical number suffices; None if the
    criterion is decided.
    """
    if result.verdict is not GateVerdict.INCONCLUSIVE:
        return None
    test = result.measure.test
    limit = result.measure.limit
    if test is None:
        return inf, inf
    # The level of a new run, and not of this look.
    level = LEVEL if test.estimate < limit else LEVEL / result.family_size
    half_as_far = test.halfway_to(limit)
    return settling_factor(test, limit, level), settling_factor(half_as_far, limit, level)
