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
class Asked:
    """What is wanted. `given` are the options of a run that the user named himself."""

    candidate: str
    baseline: str
    given: Mapping[str, Any]
    gate: Path | None
    store: str
    allow_simulated: bool = False
    fresh: bool = False  # play the baseline anew, also where it has a run


def promote(asked: Asked, progress: Progress) -> GateView:
    """The verdict. Raises UsageError, and CutOffError."""
    rules, _ = rules_at(asked.gate)
    if not asked.allow_simulated and asked.candidate.startswith(SIMULATED):
        raise UsageError(
            f"{asked.candidate}: simulated, which says nothing about a real model; give "
            "--allow-simulated to see how a promotion works"
        )
    _check_served(asked.candidate)
    baseline = _baseline(asked, progress)
    plan = _plan(baseline.id, rules, asked.store, progress)
    if plan and (trials := _more_trials(plan, rules, baseline, asked)):
        progress.note(f"Baseline: played anew, with {counted(trials, 'trial')} of each scenario")
        options = replace(_options(baseline), trials=trials)
        baseline = _played(options, asked.store, progress)
    watch = InterimLooks(rules, run_summary(baseline.id, asked.store), asked.allow_simulated)
    options = replace(_options(baseline), model=[asked.candidate], base_url=None)
    candidate = _played(options, asked.store, progress, watch)
    return judged(
        baseline.id,
        candidate.id,
        asked.gate,
        asked.store,
        allow_simulated=asked.allow_simulated,
    )


def _check_served(name: str) -> None:
    """Before an hour is spent on the other model. Raises UsageError."""
    if not name.startswith(SIMULATED):
        asyncio.run(preflight(resolve(name, load_models(roots()), None)))


def _baseline(asked: Asked, progress: Progress) -> Run:
    """Its last whole run that was asked as it is wanted; else a new one."""
    found = None if asked.fresh else _stored(asked)
    if found:
        progress.note(f"Baseline: {found.id}, which is stored; --fresh plays it anew")
        return found
    progress.note(f"Baseline: {asked.baseline} is played first")
    options = Options(model=[asked.baseline], **{**USUAL, **asked.given})
    return _played(options, asked.store, progress)


def _stored(asked: Asked) -> Run | None:
    """None for a model of which no run will do. Raises UsageError for a run that will not."""
    if not Location(asked.store).is_there:
        return None
    with closing(SqlStore(asked.store)) as store:
        try:
            run, _ = store.summarized(store.resolve_name(asked.baseline))
        except UsageError:
            return None  # then it is a model's name, or one that nobody knows
    differing = [
        name for name, value in asked.given.items() if getattr(run.options, name, None) != value
    ]
    if run.complete and not differing:
        return run
    if run.model.name == asked.baseline:
        return None
    why = f"--{differing[0]} is not what it was played with" if differing else "it is not finished"
    raise UsageError(f"--over {run.id}: {why}; leave that away, or name the model instead")


def _played(
    options: Options, store: str, progress: Progress, watch: InterimLooks | None = None
) -> Run:
    """One model's run. Raises UsageError where the server broke all of it."""
    sides, interrupted = run_models(plan_of(options, store), watch, progress)
    runs = [side.known[0] for side in sides]
    if interrupted:
        going_on = "".join(
            f" `agenteval run --resume {as_word(run.id)}` plays the rest." for run in runs
        )
        raise CutOffError(f"Cut off; what was played is stored.{going_on}")
    check_usable(sides)
    return runs[0]


def _options(run: Run) -> Options:
    """How it was asked for. Raises UsageError."""
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


def _more_trials(plan: Planned, rules: Rules, baseline: Run, asked: Asked) -> int | None:
    """How many of each scenario to play, where nobody said so and the baseline has fewer.

    As many as the margin of errors needs, and no fewer than a model without fault needs to pass
    the rest, with a tenth for what is void or short.
    """
    if "trials" in asked.given or asked.baseline == baseline.id:
        return None
    run = plan.run
    scenarios = len({trial.scenario for trial in run.counted})
    reach = [one.enough / one.n for one in out_of_reach(run, run, rules) if one.n]
    least = 1.1 * len(run.counted) * max((times for times in reach if isfinite(times)), default=0)
    wanted = ceil(max(least, plan.size.trials) / scenarios) if plan.size else MOST
    capped = min(MOST, wanted)
    return capped if capped > _options(baseline).trials else None
