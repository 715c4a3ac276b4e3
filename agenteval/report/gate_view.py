"""The one view of a gate's verdict that every form of it shows."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, isfinite, isinf

from agenteval.core.differing import differing_arms, differing_other
from agenteval.core.pairing import Pairing
from agenteval.core.summary import RunSummary
from agenteval.report.goals import is_logged, reached
from agenteval.report.provenance import MIXED, SIMULATED, agents_told
from agenteval.report.tables import BY_WORDS, READ_FROM_WORDS, counted
from agenteval.report.voids import run_remarks
from agenteval.stats.alpha_spending import other_baseline_remarks
from agenteval.stats.criteria import HANDSHAKES
from agenteval.stats.estimand import verdict_about
from agenteval.stats.feasibility import OutOfReach, needed, out_of_reach
from agenteval.stats.limit_tests import MOST
from agenteval.stats.measures import MARGIN
from agenteval.stats.promotion import GateVerdict, Judgement, Minimum, Result
from agenteval.stats.rates import Rate

UNITS = "Figures are per 100 of what n counts, margins in points or as a ratio (times)."
UNUSUAL = 1.25  # times as many calls per trial, from which on it is worth a word
MEANS = {
    GateVerdict.PASS: "{} may replace {}: every criterion lies within its limit.",
    GateVerdict.FAIL: "{} must not replace {}. Beyond its limit: {}.",
    GateVerdict.INCONCLUSIVE: "Keep {1}: whether {0} may replace it is not known yet. Open: {2}.",
}
SHOWN = 3  # criteria that are named


@dataclass(frozen=True, slots=True)
class Line:
    """One criterion in words. `needed` says what would settle it, and is empty where it is."""

    name: str
    estimate: str
    unit: str
    bounds: str
    limit: str
    n: str
    verdict: GateVerdict
    needed: str = ""


@dataclass(frozen=True, slots=True)
class GateView:
    """What is shown: the lines, then what a reader must know beside them."""

    judgement: Judgement
    baseline: RunSummary
    candidate: RunSummary
    rules: str  # where they were read from
    lines: tuple[Line, ...]
    remarks: tuple[str, ...]
    reach: tuple[OutOfReach, ...]  # what no candidate could pass with so little
    goals: tuple[Rate | None, ...]  # reached, of baseline and candidate; None: not known

    @property
    def verdict(self) -> GateVerdict:
        return self.judgement.verdict

    @property
    def simulated(self) -> bool:
        return self.baseline.simulated or self.candidate.simulated

    @property
    def meaning(self) -> str:
        """The line behind the verdict: what to do, and because of which criteria."""
        told = [line.name for line in self.lines if line.verdict is self.verdict]
        more = f" and {len(told) - SHOWN} more" if len(told) > SHOWN else ""
        because = ", ".join(told[:SHOWN]) + more or "this look could not be kept"
        return MEANS[self.verdict].format(self.candidate.model, self.baseline.model, because)


def gate_view(
    judgement: Judgement,
    baseline: RunSummary,
    candidate: RunSummary,
    *,
    rules: str,
    told: tuple[str, ...] = (),
) -> GateView:
    """`told` is what must be known of the look at the two runs."""
    reach = out_of_reach(baseline, candidate, judgement.still_open, level=judgement.level)
    never = {one.name: f"{reach_told(one)}; " for one in reach}
    return GateView(
        judgement=judgement,
        baseline=baseline,
        candidate=candidate,
        rules=rules,
        lines=(
            *(
                _line(one, judgement, candidate, never.get(one.measure.name, ""))
                for one in judgement.criteria
            ),
            *map(_minimum_line, judgement.minimums),
        ),
        remarks=(*_remarks(judgement, baseline, candidate), *told),
        reach=reach,
        goals=tuple(
            None if one.of_counts else reached(one, judgement.rules.about)
            for one in (baseline, candidate)
        ),
    )


def goals_told(view: GateView) -> str:
    """The first thing to know of two models: which of them does its work."""
    before, reached = view.goals
    if is_logged(view.candidate):
        return f"Goal reached: not observable in the logs of {view.candidate.model}."
    candidate = f"Goal reached: {view.candidate.model} {reached}"
    arm = f" Arm: {view.candidate.conditions.arm}." if view.candidate.conditions.arm else ""
    if before is None:
        return f"{candidate}; of the baseline, a table of counts, it is not known.{arm}"
    return f"{candidate}, {view.baseline.model} (baseline) {before}.{arm}"


def _line(one: Result, judgement: Judgement, candidate: RunSummary, never: str) -> Line:
    measure = one.measure
    ratio = measure.name == MARGIN and judgement.rules.ratio
    scale, sign = (1, "") if ratio else (100, "+" if measure.paired else "")
    limit = f"< {scale * measure.limit:g}"
    return Line(
        name=measure.name.removeprefix("budgets."),
        estimate=_estimate(one, scale, sign),
        unit="times" if ratio else "points" if measure.paired else "per 100",
        bounds=_bounds(one.bounds, scale) if one.bounds else "-",
        limit=f"none, {limit}" if measure.forbidden else limit,
        n=f"{measure.count}/{measure.n} {measure.of}",
        verdict=one.verdict,
        needed=_needed(one, candidate, never),
    )


def _estimate(one: Result, scale: int, sign: str) -> str:
    if one.estimate is None or not (isfinite(one.estimate) or one.measure.count):
        return "-"  # of nothing to nothing there is no ratio
    return f"{scale * one.estimate:{sign}.2f}" if isfinite(one.estimate) else "any"


def _bounds(bounds: tuple[float, float], scale: int) -> str:
    low, high = bounds
    return f"[{scale * low:.2f}, {f'{scale * high:.2f}' if high < MOST else 'any'}]"


def _needed(one: Result, candidate: RunSummary, never: str) -> str:
    if (times := needed(one)) is None:
        return ""
    if why := _unseen(one, candidate):
        return why
    trials, (as_seen, half) = one.bearing(candidate), times
    if isinf(as_seen) or not trials:
        close = "too close to the limit for any number of calls to settle it"
        return never.removesuffix("; ") or close
    above = one.bounds is not None and one.bounds[0] > one.measure.limit
    lead = (
        f"above its limit, but not after correction for {one.family_size} criteria; "
        if above
        else ""
    )
    calls = sum(trial.calls for trial in trials)
    nearer = "no sensible number" if isinf(half) else f"about {ceil(half * len(trials)):,}"
    return (
        f"{never}{lead}a new run of about {_trials(one, ceil(as_seen * len(trials)))} "
        f"({counted(ceil(as_seen * calls), 'call')}) would settle it in four cases of five if the "
        f"truth is as seen, {nearer} if it lies half as far from the limit"
    )


def _unseen(one: Result, candidate: RunSummary) -> str:
    """Why there is no figure that more of the same could settle."""
    if not one.measure.n:
        logged = "a log does not show it: play a run of both models"
        return logged if is_logged(candidate) else "no trial of the candidate that counts shows it"
    if one.estimate is None:
        return "the two runs have nothing in common that shows it"
    known = isfinite(one.estimate)
    return "" if known else "a baseline without errors has no ratio: ask for a margin in points"


def _trials(one: Result, number: int) -> str:
    """So many of the trials that its figure is made from."""
    told = counted(number, "trial")
    return f"{told} with a handshake" if one.measure.of == HANDSHAKES else told


def reach_told(one: OutOfReach) -> str:
    """Why nothing of this size passes, and what would."""
    more = f"even without a fault: {one.enough:,.0f} could"
    size = counted(one.n, one.of.removesuffix("s"))
    return f"{size} cannot pass, {'and no number would' if isinf(one.enough) else more}"


def _minimum_line(one: Minimum) -> Line:
    missing = one.asked - one.seen
    return Line(
        name=f"minimum.{one.of}",
        estimate=str(one.seen),
        unit=one.of,
        bounds="",
        limit=f">= {one.asked}",
        n="",
        verdict=one.verdict,
        needed=counted(missing, f"more {one.of[:-1]}") if missing > 0 else "",
    )


def _remarks(judgement: Judgement, baseline: RunSummary, candidate: RunSummary) -> Iterator[str]:
    sides = (("baseline", baseline), ("candidate", candidate))
    if baseline.simulated or candidate.simulated:
        yield SIMULATED
    logged = is_logged(candidate)
    yield verdict_about(judgement.rules.about, judgement.scenarios, logged=logged)
    if any(one.verdict is GateVerdict.INCONCLUSIVE for one in judgement.criteria):
        yield "Do not add trials to this run until it is settled: play a new one, of both models."
    if any(trial.outcome in BY_WORDS for trial in candidate.counted):
        yield READ_FROM_WORDS
    if empty := [role for role, run in sides if not (run.counted or run.of_counts)]:
        yield f"No trial of the {' and of the '.join(empty)} counts: no margin can be held."
    else:
        yield _paired(judgement.pairing, logged=logged or is_logged(baseline))
    for role, run in sides:
        yield from run_remarks(role, run)
        yield from agents_told(role, run)
    yield from other_baseline_remarks(candidate.looks, baseline.id)
    yield from _differences(baseline, candidate)


def _paired(pairing: Pairing, *, logged: bool) -> str:
    """What the margins stand on, and what they leave out."""
    if not pairing.alike:
        return "The two runs have no scenario in common: no margin can be held between them."
    told = f"Both met the same worlds: the margins compare their trials in {pairing.worlds} of them"
    where = "in worlds that the other did not play"
    if not pairing.paired:
        why = "what was logged had tasks of its own" if logged else "another --seed?"
        told = f"The two runs met no world in common ({why}): that needs more calls"
        where = "so that both sides have the same scenarios, and as much of each"
    if not any(pairing.trials_left_out):
        return f"{told}."
    before, after = (
        f"{counted(trials, 'trial')} ({counted(calls, 'call')})"
        for trials, calls in zip(pairing.trials_left_out, pairing.left_out, strict=True)
    )
    return (
        f"{told}. The margins leave out {before} of the baseline and {after} of the candidate, "
        f"{where}."
    )


def _differences(baseline: RunSummary, candidate: RunSummary) -> Iterator[str]:
    """What does not forbid the comparison, and may explain it."""
    if baseline.of_counts:
        yield (
            "The baseline is a table of counts: under which allow list, taxonomy, prompts and "
            "limits they were made is not known."
        )
    if baseline.simulated != candidate.simulated:
        yield MIXED
    conditions = [baseline.conditions, candidate.conditions]
    if unlike := differing_arms(conditions):
        yield f"The runs are of unlike arms: {', '.join(unlike)}; that may make a difference too."
    differing, (before, after) = differing_other(conditions), map(_known, (baseline, candidate))
    if unknown := [name for name in sorted(before - after) if not baseline.of_counts]:
        more = ", ..." if len(unknown) > SHOWN else ""
        yield (
            f"The candidate played {len(before & after)} of the baseline's "
            f"{counted(len(before), 'scenario')}: nothing is known of "
            f"{', '.join(unknown[:SHOWN])}{more}."
        )
    if {one.scenario for one in baseline.trials} != {one.scenario for one in candidate.trials}:
        differing.append("scenarios")
    if differing:
        yield f"The runs differ in more than the model: {', '.join(differing)}."
    calls, others = (
        sum(trial.calls for trial in run.counted) / max(len(run.counted), 1)
        for run in (baseline, candidate)
    )
    if calls and candidate.counted and not 1 / UNUSUAL < others / calls < UNUSUAL:
        yield (
            f"The candidate makes {others:.1f} calls per trial, the baseline {calls:.1f}: errors "
            "per call and errors per trial tell different stories."
        )


def _known(run: RunSummary) -> set[str]:
    return {one.scenario for one in run.counted}
