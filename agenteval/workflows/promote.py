"""A promotion in one go, and the rehearsals of a gate that it needs.

The sections are, in order: what a gate's rules mean for a run (`explain_rules`), how large a run
has to be (`planned`), and the promotion: baseline found or played, candidate planned and judged.
"""

import asyncio
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from math import ceil, isfinite
from pathlib import Path
from typing import Any

import numpy as np

from agenteval.config.gate import rules_at
from agenteval.config.models import SIMULATED, load_models, resolve
from agenteval.config.trust import roots
from agenteval.errors import CutOffError, UsageError
from agenteval.protocols import Progress
from agenteval.report.gate import GateView
from agenteval.report.gate_explained import Explained
from agenteval.report.tables import counted
from agenteval.stats.criteria import CRITERIA, Rules
from agenteval.stats.planning import (
    FEWEST,
    PAIRS,
    Clustering,
    Design,
    Rehearsal,
    Size,
    Truth,
    design_of,
    simulated_pairs,
    truth_of,
)
from agenteval.stats.promotion import MOST_TRIALS, out_of_reach
from agenteval.store.location import Location
from agenteval.store.sql import SqlStore
from agenteval.trial.run import Options, Run
from agenteval.trial.summary import RunSummary
from agenteval.trial.text import as_word
from agenteval.workflows.evaluate import run_models
from agenteval.workflows.gate import InterimLooks, judged, run_summary
from agenteval.workflows.preflight import preflight
from agenteval.workflows.stages import USUAL, plan_of
from agenteval.workflows.views import check_usable

SEED = 1
TRIALS_PLAYED = 30_000  # in one rehearsal of a whole gate: a second or two
# Without a baseline: the dense model of the published comparison, over as many trials as will do.
PUBLISHED = Truth(errors=9 / 161, classes={"any": 1.0})
PUBLISHED_SIZES = (7, 7, 8, 8, 8, 9)
PUBLISHED_TRIALS = 120


def _rehearsal_of(run: RunSummary, rules: Rules) -> Rehearsal:
    """Return a gate over runs like this one. Raises UsageError when it made no calls."""
    if not any(trial.calls for trial in run.counted):
        raise UsageError(f"{run.id}: made no tool calls, so nothing can be planned from it")
    design = design_of(run, icc=rules.icc)
    return Rehearsal(design, truth_of(run), rules)


def explain_rules(
    baseline: str | None,
    path: Path | None,
    store: str,
    *,
    about: str | None = None,
) -> Explained:
    """Explain the rules for runs of the baseline's size, or of a common size without a baseline."""
    rules, source = rules_at(path, about)
    run = run_summary(baseline, store) if baseline else None
    if run is None:
        rehearsal, size = _published(rules)
    else:
        mark = " (SIMULATED)" if run.simulated else ""
        rehearsal, size = _rehearsal_of(run, _seen_in(rules, run)), f"Like {run.id}{mark}"
    design, truth = rehearsal.design, rehearsal.baseline
    # The time of a rehearsal is that of its trials: large designs are rehearsed fewer times.
    pairs = max(FEWEST, min(PAIRS, TRIALS_PLAYED // len(design.worlds)))
    rehearsal = replace(rehearsal, pairs=pairs)
    candidates = {
        "the same": truth,
        "at the margin": rehearsal.at_the_margin,
        "twice as bad": truth.worse(2),
    }
    rng = np.random.default_rng(SEED)
    played = {name: rehearsal.characteristics(one, rng) for name, one in candidates.items()}
    pairs_like_it = simulated_pairs(design, truth, truth, rng=rng, pairs=1)
    like = run or next(pairs_like_it)[0]
    reach = out_of_reach(like, like, rehearsal.rules)
    words = f"{size}: {in_words(rehearsal)}."
    return Explained(rules, rehearsal.pairs, source, words, played, reach)


def _seen_in(rules: Rules, run: RunSummary) -> Rules:
    """The rules, of a table without those for which it has nothing to rehearse with."""
    if not run.of_counts:
        return rules
    known = {name: of for name, of in rules.budgets.items() if CRITERIA[name].in_tables}
    return replace(rules, budgets=known, completed=None)


def in_words(rehearsal: Rehearsal) -> str:
    design, truth = rehearsal.design, rehearsal.baseline
    scenarios = len({scenario for scenario, _, _ in design.worlds})
    calls = sum(design.sizes) / len(design.sizes) * len(design.worlds)
    clustering = design.clustering
    return (
        f"{counted(len(design.worlds), 'trial')} of {counted(scenarios, 'scenario')}, "
        f"{counted(round(calls), 'call')}, "
        f"{100 * truth.errors:.2f} errors per 100; two calls of a scenario correlate by "
        f"{clustering.scenario:.2f}, of a trial by {clustering.trial:.2f} on top"
    )


def _published(rules: Rules) -> tuple[Rehearsal, str]:
    worlds = [(f"scenario {number}", number, number) for number in range(PUBLISHED_TRIALS)]
    scenarios = frozenset(scenario for scenario, _, _ in worlds)
    design = Design(worlds, PUBLISHED_SIZES, scenarios, Clustering(0.0, rules.icc))
    size = "Without --baseline RUN, like the dense model of a published comparison"
    return Rehearsal(design, PUBLISHED, rules), size


# How large a run has to be.

PLANNED_PAIRS = 1_000
SCHEMA = "agenteval.plan/1"


@dataclass(frozen=True, slots=True)
class Planned:
    """The sizes that an equal candidate needs, and one that is worse by half the margin.

    None when no run of a sensible size would do.
    """

    run: RunSummary
    rehearsal: Rehearsal
    size: Size | None
    if_half: Size | None
    minimum: tuple[int, int] = (0, 0)  # trials and calls, without which the gate passes nothing

    @property
    def calls_per_minute(self) -> float | None:
        """Calls per minute of wall time at the run's concurrency; None if unknown."""
        calls = sum(trial.calls for trial in self.run.counted)
        return 60 * calls / self.run.seconds if self.run.seconds else None

    @property
    def hours(self) -> float | None:
        pace = self.calls_per_minute
        return self.size.calls / pace / 60 if self.size and pace else None

    def document(self) -> dict[str, Any]:
        """The JSON document. Its keys are stable, and docs/json.md describes them."""
        rules = self.rehearsal.rules
        return {
            "schema": SCHEMA,
            "baseline": self.run.id,
            "simulated": self.run.simulated,
            "margin": rules.margin,
            "ratio": rules.ratio,
            "about": rules.about,
            "rate": self.rehearsal.baseline.errors,
            "clustering": asdict(self.rehearsal.design.clustering),
            **(_document(self.size) or dict.fromkeys(("trials", "calls", "power"))),
            "if_half_as_good": _document(self.if_half),
            "calls_per_minute": self.calls_per_minute,
            "hours": self.hours,
        }


def _document(size: Size | None) -> dict[str, Any] | None:
    if size is None:
        return None
    power = {"value": size.power.value, "n": size.power.n}
    return {"trials": size.trials, "calls": size.calls, "power": power}


def planned(  # noqa: PLR0913 -- what a plan is asked for
    baseline: str,
    store: str,
    *,
    margin: float | None,
    ratio: float | None,
    about: str | None = None,
    declared: Rules | None = None,
) -> Planned:
    """Return the plan for the `declared` rules, or for those that are found here.

    Raises UsageError.
    """
    if margin is not None and not 0 < margin < 100:
        raise UsageError(f"--margin {margin:g}: points per 100 calls, between 0 and 100")
    if ratio is not None and ratio <= 1:
        raise UsageError(f"--ratio {ratio:g}: above 1; 1.5 allows half as many errors more")
    run = run_summary(baseline, store)
    rules_in_force = declared or rules_at(None, about)[0]
    share = ratio or (margin or 0) / 100
    rules = Rules(
        share,
        ratio=ratio is not None,
        about=rules_in_force.about,
        icc=rules_in_force.icc,
    )
    rehearsal = replace(_rehearsal_of(run, rules), pairs=PLANNED_PAIRS)
    if ratio is not None and not rehearsal.baseline.errors:
        raise UsageError(f"{run.id}: made no errors, and no ratio to none exists; give --margin")
    rng = np.random.default_rng(SEED)
    size = rehearsal.needed(rng)
    harder = rehearsal.needed(rng, rehearsal.half_as_good, least=size.trials) if size else None
    return Planned(run, rehearsal, size, harder, (rules_in_force.trials, rules_in_force.calls))


def sentences(plan: Planned) -> str:
    rules, size = plan.rehearsal.rules, plan.size
    margin = f"{rules.margin:g} times" if rules.ratio else f"{100 * rules.margin:g} points"
    mark = " SIMULATED" if plan.run.simulated else ""
    lines = [f"Like {plan.run.id}{mark}: {in_words(plan.rehearsal)}."]
    if size is None:
        lines.append(
            f"More than {MOST_TRIALS:,} trials would be needed to prove a margin of {margin}: "
            "ask for a wider one."
        )
        return "\n".join(lines)
    lines.append(
        f"To prove that an equally good model is no worse by {margin}: {size.trials:,} trials, "
        f"about {size.calls:,} calls, of each model in the same worlds. Simulated power "
        f"{size.power}, about {rules.about.label}."
    )
    if size.trials < plan.minimum[0] or size.calls < plan.minimum[1]:
        lines.append(_too_few(size, *plan.minimum))
    harder = f"more than {MOST_TRIALS:,} trials"
    if plan.if_half:
        harder = f"{plan.if_half.trials:,} trials, about {plan.if_half.calls:,} calls"
    lines.append(
        f"For one that is worse by half of that: {harder}. Choose the size before the run: do not "
        "add to one until it passes."
    )
    if plan.hours is not None and plan.calls_per_minute is not None:
        lines.append(
            f"At the measured {plan.calls_per_minute:,.0f} calls per minute "
            f"(concurrency {plan.run.concurrency}) that takes {_time(plan.hours)} per model."
        )
    else:
        lines.append(
            "How long that takes is not known: the time of this run was not kept (a table, a run "
            "that was cut off, or one of an older version)."
        )
    return "\n".join(lines)


def _too_few(size: Size, trials: int, calls: int) -> str:
    """Say that the gate requires more than its margin needs, and how many trials that is."""
    enough = max(trials, ceil(calls * size.trials / max(size.calls, 1)))
    return (
        f"That is fewer than the gate's [minimum] of {trials:,} trials and {calls:,} calls, below "
        f"which nothing passes: play at least {counted(enough, 'trial')}."
    )


def _time(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"


# The promotion.


@dataclass(frozen=True, slots=True)
class Promotion:
    """A promotion to try. `run_options` are the options of a run that the user gave himself."""

    candidate: str
    baseline: str
    run_options: Mapping[str, Any]
    gate: Path | None
    store: str
    allow_simulated: bool = False
    fresh: bool = False  # play the baseline anew, also where it has a run


def promote(promotion: Promotion, progress: Progress) -> GateView:
    """Return the verdict on a candidate. Raises UsageError, and CutOffError."""
    rules, _ = rules_at(promotion.gate)
    if not promotion.allow_simulated and promotion.candidate.startswith(SIMULATED):
        raise UsageError(
            f"{promotion.candidate}: simulated, which says nothing about a real model; give "
            "--allow-simulated to see how a promotion works"
        )
    _check_served(promotion.candidate)
    baseline = _baseline(promotion, progress)
    plan = _plan(baseline.id, rules, promotion.store, progress)
    if plan and (trials := _more_trials(plan, rules, baseline, promotion)):
        progress.note(f"Baseline: played anew, with {counted(trials, 'trial')} of each scenario")
        options = replace(_options(baseline), trials=trials)
        baseline = _played(options, promotion.store, progress)
    watch = InterimLooks(
        rules,
        run_summary(baseline.id, promotion.store),
        promotion.allow_simulated,
    )
    options = replace(_options(baseline), model=[promotion.candidate], base_url=None)
    candidate = _played(options, promotion.store, progress, watch)
    return judged(
        baseline.id,
        candidate.id,
        promotion.gate,
        promotion.store,
        allow_simulated=promotion.allow_simulated,
    )


def _check_served(name: str) -> None:
    """Before an hour is spent on the other model. Raises UsageError."""
    if not name.startswith(SIMULATED):
        asyncio.run(preflight(resolve(name, load_models(roots()), None)))


def _baseline(promotion: Promotion, progress: Progress) -> Run:
    """Return the baseline's last whole run with the wanted options; else play a new one."""
    stored_run = None if promotion.fresh else _stored(promotion)
    if stored_run:
        progress.note(f"Baseline: {stored_run.id}, which is stored; --fresh plays it anew")
        return stored_run
    progress.note(f"Baseline: {promotion.baseline} is played first")
    options = Options(model=[promotion.baseline], **{**USUAL, **promotion.run_options})
    return _played(options, promotion.store, progress)


def _stored(promotion: Promotion) -> Run | None:
    """Return the stored run, or None for a model of which no run will do. Raises UsageError."""
    if not Location(promotion.store).is_there:
        return None
    with closing(SqlStore(promotion.store)) as store:
        try:
            run, _ = store.summarized(store.resolve_name(promotion.baseline))
        except UsageError:
            return None  # then it is a model's name, or one that nobody knows
    differing = [
        name
        for name, value in promotion.run_options.items()
        if getattr(run.options, name, None) != value
    ]
    if run.complete and not differing:
        return run
    if run.model.name == promotion.baseline:
        return None
    why = f"--{differing[0]} is not what it was played with" if differing else "it is not finished"
    raise UsageError(f"--over {run.id}: {why}; leave that away, or name the model instead")


def _played(
    options: Options,
    store: str,
    progress: Progress,
    watch: InterimLooks | None = None,
) -> Run:
    """Play one model's run. Raises UsageError if the server broke all of it."""
    sides, interrupted = run_models(plan_of(options, store), watch, progress)
    runs = [side.run_and_score[0] for side in sides]
    if interrupted:
        going_on = "".join(
            f" `agenteval run --resume {as_word(run.id)}` plays the rest." for run in runs
        )
        raise CutOffError(f"Cut off; what was played is stored.{going_on}")
    check_usable(sides)
    return runs[0]


def _options(run: Run) -> Options:
    """Return the options of a run. Raises UsageError if an older version stored none."""
    if run.options is None:
        raise UsageError(f"{run.id}: an older version kept no options; give --fresh")
    return run.options


def _plan(
    baseline: str,
    rules: Rules,
    store: str,
    progress: Progress,
) -> Planned | None:
    margin, ratio = (None, rules.margin) if rules.ratio else (100 * rules.margin, None)
    try:
        plan = planned(
            baseline,
            store,
            margin=margin,
            ratio=ratio,
            declared=rules,
        )
    except UsageError as error:  # a baseline without errors has no ratio; the run is of use still
        progress.note(f"No plan: {error}")
        return None
    progress.note(sentences(plan))
    return plan


MOST = 50  # trials of each scenario that nobody asked for


def _more_trials(
    plan: Planned,
    rules: Rules,
    baseline: Run,
    promotion: Promotion,
) -> int | None:
    """Return how many trials of each scenario to play.

    None if the user gave a number, or the baseline has enough. It is as many as the margin of
    errors needs, and no fewer than a model without fault needs to pass the rest, with a tenth for
    void or short ones.
    """
    if "trials" in promotion.run_options or promotion.baseline == baseline.id:
        return None
    run = plan.run
    scenarios = len({trial.scenario for trial in run.counted})
    reach = [one.enough / one.n for one in out_of_reach(run, run, rules) if one.n]
    least = 1.1 * len(run.counted) * max((times for times in reach if isfinite(times)), default=0)
    needed = ceil(max(least, plan.size.trials) / scenarios) if plan.size else MOST
    capped = min(MOST, needed)
    return capped if capped > _options(baseline).trials else None
