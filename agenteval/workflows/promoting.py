"""A promotion in one go: baseline found or played, candidate planned, watched and judged."""

import asyncio
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from math import ceil, isfinite
from pathlib import Path
from typing import Any

from agenteval.config.gate_rules import rules_at
from agenteval.config.models import SIMULATED, load_models, resolve
from agenteval.config.project_files import DEFAULT_ARM
from agenteval.config.roots import roots
from agenteval.core.plain import as_word
from agenteval.core.run import Options, Run
from agenteval.errors import CutOffError, UsageError
from agenteval.protocols import Progress
from agenteval.report.gate_view import GateView
from agenteval.report.tables import counted
from agenteval.stats.criteria import Rules
from agenteval.stats.feasibility import out_of_reach
from agenteval.store.location import Location
from agenteval.store.sql import SqlStore
from agenteval.workflows.evaluate import run_models
from agenteval.workflows.explaining import Planned, planned, sentences
from agenteval.workflows.gating import judged, run_summary
from agenteval.workflows.interim_looks import InterimLooks
from agenteval.workflows.preflight import preflight
from agenteval.workflows.stages import plan_of
from agenteval.workflows.views import check_usable

# What a run is asked for where neither the user nor the baseline's run says it.
USUAL: Mapping[str, Any] = {
    "targets": [],
    "base_url": None,
    "trials": 5,
    "seed": 1,
    "concurrency": "4",
    "max_turns": None,
    "arm": DEFAULT_ARM,
    "prompt_variant": None,
    "rules": "start",
    "context": "0",
    "sandbox": None,
    "prefork": True,
}


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
        rules, run_summary(baseline.id, promotion.store), promotion.allow_simulated
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
    options: Options, store: str, progress: Progress, watch: InterimLooks | None = None
) -> Run:
    """One model's run. Raises UsageError where the server broke all of it."""
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


def _plan(baseline: str, rules: Rules, store: str, progress: Progress) -> Planned | None:
    margin, ratio = (None, rules.margin) if rules.ratio else (100 * rules.margin, None)
    try:
        plan = planned(baseline, store, margin=margin, ratio=ratio, declared=rules)
    except UsageError as error:  # a baseline without errors has no ratio; the run is of use still
        progress.note(f"No plan: {error}")
        return None
    progress.note(sentences(plan))
    return plan


MOST = 50  # trials of each scenario that nobody asked for


def _more_trials(plan: Planned, rules: Rules, baseline: Run, promotion: Promotion) -> int | None:
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
