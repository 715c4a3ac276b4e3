"""The one view of a gate's verdict that every form of it shows, and its JSON.

`gate_view` puts each criterion in words. The keys of `document` are stable and documented in
docs/json.md.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, isfinite, isinf

from agenteval.report.json import Document, encoded, keyed
from agenteval.report.provenance import MIXED, SIMULATED, agents_told
from agenteval.report.tables import (
    BY_WORDS,
    READ_FROM_WORDS,
    counted,
    is_logged,
    reached,
    run_remarks,
)
from agenteval.stats.criteria import HANDSHAKES, MARGIN
from agenteval.stats.limits import MAX_RATIO
from agenteval.stats.promotion import (
    GateVerdict,
    Judgement,
    Minimum,
    OutOfReach,
    Result,
    confidence_text,
    needed,
    other_baseline_remarks,
    out_of_reach,
)
from agenteval.stats.rates import Rate, verdict_about
from agenteval.trial.run import differing_arms, differing_other
from agenteval.trial.summary import Pairing, RunSummary

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
    """One criterion in words. `needed` is what would decide it; empty where it is decided."""

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
    """The verdict as shown: the lines of the criteria, then remarks that a reader must know."""

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
    def sure(self) -> str:
        """The confidence of a bound, in percent."""
        return confidence_text(self.judgement.level)

    @property
    def goals_line(self) -> str:
        """The goals that each of the two models reached: the first thing to know."""
        before, reached = self.goals
        if is_logged(self.candidate):
            return f"Goal reached: not observable in the logs of {self.candidate.model}."
        candidate = f"Goal reached: {self.candidate.model} {reached}"
        arm = f" Arm: {self.candidate.conditions.arm}." if self.candidate.conditions.arm else ""
        if before is None:
            return f"{candidate}; of the baseline, a table of counts, it is not known.{arm}"
        return f"{candidate}, {self.baseline.model} (baseline) {before}.{arm}"

    @property
    def meaning(self) -> str:
        """The line after the verdict: what to do, and because of which criteria."""
        names = [line.name for line in self.lines if line.verdict is self.verdict]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        because = ", ".join(names[:SHOWN]) + more or "this look could not be kept"
        return MEANS[self.verdict].format(
            self.candidate.model,
            self.baseline.model,
            because,
        )


def gate_view(
    judgement: Judgement,
    baseline: RunSummary,
    candidate: RunSummary,
    *,
    rules: str,
    remarks: tuple[str, ...] = (),
) -> GateView:
    """Return the view of a judgement; `remarks` are those on the look at the two runs."""
    reach = out_of_reach(
        baseline,
        candidate,
        judgement.still_open,
        level=judgement.level,
    )
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
        remarks=(*_remarks(judgement, baseline, candidate), *remarks),
        reach=reach,
        goals=tuple(
            None if one.of_counts else reached(one, judgement.rules.about)
            for one in (baseline, candidate)
        ),
    )


def _line(
    result: Result,
    judgement: Judgement,
    candidate: RunSummary,
    never: str,
) -> Line:
    measure = result.measure
    ratio = measure.name == MARGIN and judgement.rules.ratio
    scale, sign = (1, "") if ratio else (100, "+" if measure.paired else "")
    limit = f"< {scale * measure.limit:g}"
    return Line(
        name=measure.name.removeprefix("budgets."),
        estimate=_estimate(result, scale, sign),
        unit="times" if ratio else "points" if measure.paired else "per 100",
        bounds=_bounds(result.bounds, scale) if result.bounds else "-",
        limit=f"none, {limit}" if measure.forbidden else limit,
        n=f"{measure.count}/{measure.n} {measure.of}",
        verdict=result.verdict,
        needed=_needed(result, candidate, never),
    )


def _estimate(result: Result, scale: int, sign: str) -> str:
    if result.estimate is None or not (isfinite(result.estimate) or result.measure.count):
        return "-"  # of nothing to nothing there is no ratio
    return f"{scale * result.estimate:{sign}.2f}" if isfinite(result.estimate) else "any"


def _bounds(bounds: tuple[float, float], scale: int) -> str:
    low, high = bounds
    return f"[{scale * low:.2f}, {f'{scale * high:.2f}' if high < MAX_RATIO else 'any'}]"


def _needed(result: Result, candidate: RunSummary, never: str) -> str:
    if (times := needed(result)) is None:
        return ""
    if why := _unseen(result, candidate):
        return why
    trials, (as_seen, half) = result.bearing(candidate), times
    if isinf(as_seen) or not trials:
        close = "too close to the limit for any number of calls to settle it"
        return never.removesuffix("; ") or close
    above = result.bounds is not None and result.bounds[0] > result.measure.limit
    lead = (
        f"above its limit, but not after correction for {result.family_size} criteria; "
        if above
        else ""
    )
    calls = sum(trial.calls for trial in trials)
    nearer = "no sensible number" if isinf(half) else f"about {ceil(half * len(trials)):,}"
    return (
        f"{never}{lead}a new run of about {_trials(result, ceil(as_seen * len(trials)))} "
        f"({counted(ceil(as_seen * calls), 'call')}) would settle it in four cases of five if the "
        f"truth is as seen, {nearer} if it lies half as far from the limit"
    )


def _unseen(result: Result, candidate: RunSummary) -> str:
    """Return why more trials could not decide a criterion; empty if they could."""
    if not result.measure.n:
        logged = "a log does not show it: play a run of both models"
        return logged if is_logged(candidate) else "no trial of the candidate that counts shows it"
    if result.estimate is None:
        return "the two runs have nothing in common that shows it"
    has_ratio = isfinite(result.estimate)
    return "" if has_ratio else "a baseline without errors has no ratio: ask for a margin in points"


def _trials(result: Result, number: int) -> str:
    """Return the number of trials in words, with the kind that the figure is computed from."""
    trials = counted(number, "trial")
    return f"{trials} with a handshake" if result.measure.of == HANDSHAKES else trials


def reach_told(criterion: OutOfReach) -> str:
    """Return why no run of this size passes, and which size could."""
    more = f"even without a fault: {criterion.enough:,.0f} could"
    size = counted(criterion.n, criterion.of.removesuffix("s"))
    return f"{size} cannot pass, {'and no number would' if isinf(criterion.enough) else more}"


def _minimum_line(minimum: Minimum) -> Line:
    missing = minimum.required - minimum.observed
    return Line(
        name=f"minimum.{minimum.of}",
        estimate=str(minimum.observed),
        unit=minimum.of,
        bounds="",
        limit=f">= {minimum.required}",
        n="",
        verdict=minimum.verdict,
        needed=counted(missing, f"more {minimum.of[:-1]}") if missing > 0 else "",
    )


def _remarks(
    judgement: Judgement,
    baseline: RunSummary,
    candidate: RunSummary,
) -> Iterator[str]:
    sides = (("baseline", baseline), ("candidate", candidate))
    if baseline.simulated or candidate.simulated:
        yield SIMULATED
    logged = is_logged(candidate)
    yield verdict_about(
        judgement.rules.about,
        judgement.scenarios,
        logged=logged,
    )
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
    """Return which trials the margins compare, and which they exclude."""
    if not pairing.alike:
        return "The two runs have no scenario in common: no margin can be held between them."
    line = f"Both met the same worlds: the margins compare their trials in {pairing.worlds} of them"
    where = "in worlds that the other did not play"
    if not pairing.paired:
        why = "what was logged had tasks of its own" if logged else "another --seed?"
        line = f"The two runs met no world in common ({why}): that needs more calls"
        where = "so that both sides have the same scenarios, and as much of each"
    if not any(pairing.trials_left_out):
        return f"{line}."
    before, after = (
        f"{counted(trials, 'trial')} ({counted(calls, 'call')})"
        for trials, calls in zip(pairing.trials_left_out, pairing.left_out, strict=True)
    )
    return (
        f"{line}. The margins leave out {before} of the baseline and {after} of the candidate, "
        f"{where}."
    )


def _differences(baseline: RunSummary, candidate: RunSummary) -> Iterator[str]:
    """Yield differences of the runs that do not forbid the comparison, but might explain it."""
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
    before, after = _scenarios_of(baseline), _scenarios_of(candidate)
    unknown = sorted(before - after)
    if unknown and not baseline.of_counts:
        more = ", ..." if len(unknown) > SHOWN else ""
        yield (
            f"The candidate played {len(before & after)} of the baseline's "
            f"{counted(len(before), 'scenario')}: nothing is known of "
            f"{', '.join(unknown[:SHOWN])}{more}."
        )
    differing = differing_other(conditions)
    played = [{trial.scenario for trial in run.trials} for run in (baseline, candidate)]
    if played[0] != played[1]:
        differing.append("scenarios")
    if differing:
        yield f"The runs differ in more than the model: {', '.join(differing)}."
    calls, others = _calls_per_trial(baseline), _calls_per_trial(candidate)
    if calls and candidate.counted and not 1 / UNUSUAL < others / calls < UNUSUAL:
        yield (
            f"The candidate makes {others:.1f} calls per trial, the baseline {calls:.1f}: errors "
            "per call and errors per trial tell different stories."
        )


def _calls_per_trial(run: RunSummary) -> float:
    return sum(trial.calls for trial in run.counted) / max(len(run.counted), 1)


def _scenarios_of(run: RunSummary) -> set[str]:
    return {trial.scenario for trial in run.counted}


SCHEMA = "agenteval.gate/2"


def dumps(view: GateView) -> str:
    return json.dumps(document(view), indent=2, allow_nan=False)


def document(view: GateView) -> Document:
    of_baseline, of_candidate = view.goals
    return keyed(
        view,
        "gate",
        schema=SCHEMA,
        baseline=_run(view.baseline, of_baseline),
        candidate=_run(view.candidate, of_candidate),
        criteria=[_criterion(result, view.candidate) for result in view.judgement.criteria],
    )


def _run(run: RunSummary, reached: Rate | None) -> Document:
    return keyed(
        run,
        "gate-run",
        trials=len(run.counted),
        void=len(run.trials) - len(run.counted),
        completed=encoded(reached),
    )


def _criterion(result: Result, candidate: RunSummary) -> Document:
    trials = len(result.bearing(candidate))
    lower, upper = result.bounds or (None, None)
    if upper is not None and upper >= MAX_RATIO:
        upper = None
    trials_needed = [times * trials for times in needed(result) or ()]
    return keyed(
        result,
        "criterion",
        lower=lower,
        upper=upper,
        trials_needed=[ceil(size) if isfinite(size) else None for size in trials_needed],
    )
