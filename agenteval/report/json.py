"""The view as JSON: its keys are stable and documented in docs/json.md."""

import json
from dataclasses import asdict, replace
from math import isfinite
from typing import Any

from agenteval.report.provenance import agent_rates
from agenteval.report.tables import goal_turns, undone
from agenteval.report.view import (
    Arrivals,
    Errors,
    Groups,
    Handshake,
    Pair,
    RecoveryFigures,
    RunView,
    ScenarioView,
    View,
)
from agenteval.stats.comparison import Difference, MeanDifference
from agenteval.stats.rates import LEVEL, Mean, Rate, clustered
from agenteval.stats.score import Ratio
from agenteval.trial.summary import TrialSummary

SCHEMA = "agenteval.report/2"
Document = dict[str, Any]


def dumps(view: View) -> str:
    return json.dumps(document(view), indent=2, allow_nan=False)


def document(view: View) -> Document:
    return {
        "schema": SCHEMA,
        "simulated": view.simulated,
        "level": LEVEL,
        "title": view.title,
        "about": view.about,
        "basis": view.basis,
        "warnings": list(view.warnings),
        "sentences": list(view.sentences),
        "classes": [asdict(row) for row in view.rows],
        "models": [_errors(model, view) for model in view.models],
        "pairs": [_pair(pair) for pair in view.pairs],
        "architectures": _groups(view.groups) if view.groups else None,
        "runs": [_run(run) for run in view.runs],
    }


def rate_document(rate: Rate) -> Document:
    return {
        "count": rate.count,
        "n": rate.n,
        "clusters": rate.clusters,
        "value": rate.value if rate.n else None,
        "low": rate.low,
        "high": rate.high,
    }


def _errors(model: Errors, view: View) -> Document:
    by_class = zip(view.rows, model.rows, strict=True)
    return {
        "model": model.label,
        "simulated": model.simulated,
        "arm": model.arm,
        "trials": model.trials,
        "errors": rate_document(model.total),
        "influence": _influence(model),
        "with_voids": [rate_document(rate) for rate in model.with_voids or ()],
        "by_class": {row.id: rate_document(rate) for row, rate in by_class},
        "cannot_occur": list(model.cannot_occur),
    }


def _influence(model: Errors) -> Document | None:
    return asdict(model.influence) | {"at": model.largest} if model.influence else None


def _pair(pair: Pair) -> Document:
    gap = pair.difference
    return {
        "first": pair.first,
        "second": pair.second,
        "difference": None if pair.silent else gap.value,
        "low": gap.low,
        "high": gap.high,
        "p": gap.p,
        "p_adjusted": pair.adjusted,
        "paired": gap.paired,
        "calls_left_out": list(pair.left_out),
        "calls_needed": None if pair.silent or not isfinite(gap.calls_needed) else gap.calls_needed,
        "calls_needed_if_half": gap.calls_for(abs(gap.value) / 2)
        if gap.value and not pair.silent
        else None,
        "first_rate": rate_document(gap.first),
        "second_rate": rate_document(gap.second),
        "ratio": _ratio(gap.ratio),
        "kinds": asdict(pair.kinds) | {"p_adjusted": pair.kinds_adjusted} if pair.kinds else None,
        "by_trial": pair.by_trial,
        "claims": pair.family_size,
        "classes": {
            one.id: _difference(one.difference) | {"p_adjusted": one.adjusted}
            for one in pair.classes
        },
        "figures": {
            one.label: _difference(one.difference) | {"p_adjusted": one.adjusted}
            if one.difference
            else None
            for one in pair.figures
        },
    }


def _difference(gap: Difference | MeanDifference) -> Document:
    return {
        "first": _estimate(gap.first),
        "second": _estimate(gap.second),
        "difference": gap.value,
        "low": gap.low,
        "high": gap.high,
        "p": gap.p,
        "paired": gap.paired,
        "ratio": _ratio(gap.ratio) if isinstance(gap, Difference) else None,
    }


def _estimate(one: Rate | Mean) -> Document:
    if isinstance(one, Rate):
        return rate_document(one)
    return {"count": one.count, "n": one.n, "value": one.value, "low": one.low, "high": one.high}


def _ratio(ratio: Ratio) -> Document:
    return {name: value if isfinite(value) else None for name, value in asdict(ratio).items()}


def _groups(groups: Groups) -> Document:
    return {
        "first": groups.first,
        "second": groups.second,
        "models": [{name: rate_document(rate) for name, rate in of} for of in groups.models],
        "others": asdict(groups.others) | {"p_adjusted": groups.adjusted}
        if groups.others
        else None,
    }


def _void(void: TrialSummary) -> Document:
    names = ("scenario", "number", "cause", "reason")
    return {name: getattr(void, name) for name in names}


def _missed(trial: TrialSummary) -> Document:
    return {
        "scenario": trial.scenario,
        "number": trial.number,
        "outcome": trial.outcome,
        "goal_turn": trial.goal_turn,
        "checks": [asdict(check) for check in trial.goal if not check.held],
    }


def _ends(view: RunView) -> Document:
    turns, after = goal_turns(view)
    rate = rate_document(undone(view))
    return {
        "outcomes": {str(end): rate_document(rate) for end, rate in view.outcomes},
        "missed": [_missed(one) for one in view.score.counted if one.goal and not one.completed],
        "goal_held": {"undone": rate, "median_turns": turns, "median_after": after},
        "trials_with_denial": rate_document(view.any_denial),
    }


def _run(view: RunView) -> Document:
    run, score, ran = view.run, view.score, view.executions
    return {
        "id": run.id,
        "model": asdict(replace(run.model, sampling=dict(run.model.sampling))),
        "simulated": run.model.simulated,
        "sandbox": run.sandbox,
        "prefork": run.prefork,
        "started": run.started,
        "complete": run.complete,
        "seed": run.seed,
        "trials_planned": run.trials_planned,
        "max_turns": run.max_turns,
        "concurrency": run.concurrency,
        "arm": asdict(run.arm) if run.arm else None,
        "protocol": run.protocol,
        "taxonomy": run.taxonomy,
        "policies": dict(run.policies),
        "trials": score.trials,
        "voids": [_void(void) for void in score.voids],
        "replaced": dict(run.replaced),
        "crashes": rate_document(Rate(len(run.crashes), run.requests)),
        "looks": [asdict(look) for look in run.looks],
        "trials_saved": run.saved,
        "retries": sum(one.retries for one in (*score.counted, *score.voids)),
        "stretched": max((one.stretched for one in (*score.counted, *score.voids)), default=1.0),
        **_ends(view),
        "tool_errors": rate_document(clustered(ran.tool_errors, view.layout)) if ran else None,
        "limits": dict(sorted(ran.limits.items())) if ran else None,
        "second_reader_objections": ran.objections if ran else None,
        "second_reader": dict(view.run.second_reader),
        "turns": score.turns,
        "completion_tokens": ran.completion_tokens if ran else None,
        "speed": asdict(view.served) if view.served else None,
        "arrivals": _arrivals(view.arrivals) if view.arrivals else None,
        "recovery": _recovery(view.recovery),
        "scenarios": {one.name: _scenario(one) for one in view.scenarios},
        "handshakes": [_handshake(handshake) for handshake in view.handshakes],
        "agents": {name: rate_document(rate) for name, rate in agent_rates(view).items()},
    }


def _arrivals(arrivals: Arrivals) -> Document:
    return {
        "faulty": rate_document(arrivals.faulty),
        "kinds": {kind: rate_document(rate) for kind, rate in arrivals.kinds.items()},
        "blames": {blame: rate_document(rate) for blame, rate in arrivals.blames.items()},
        "repairs": arrivals.repairs,
    }


def _recovery(after: RecoveryFigures) -> Document:
    rates = ("no_chance", "at_once", "at_all", "turns_burned", "after_denied", "after_allowed")
    return {
        **{name: rate_document(getattr(after, name)) for name in rates},
        "kinds": {str(kind): rate_document(rate) for kind, rate in after.kinds},
        "within": {str(turns): rate_document(rate) for turns, rate in after.recovered_within},
        "lost": {str(end): rate_document(rate) for end, rate in after.unrecovered},
        "by_told": {
            told: {"at_once": rate_document(at_once), "at_all": rate_document(at_all)}
            for told, at_once, at_all in after.by_told
        },
        "median_turns": after.turns,
        "median_calls": after.calls,
        "longest_run": after.longest_run,
        "dependence": after.dependence
        and dict(zip(("difference", "low", "high"), after.dependence, strict=True)),
        "incidence": {
            end: {
                f"{turns:g}" if isfinite(turns) else "ever": asdict(one)
                | {"value": one.value if isfinite(one.value) else None}
                for turns, one in by_turns
            }
            for end, by_turns in after.incidence
        },
    }


def _scenario(scenario: ScenarioView) -> Document:
    return {
        "errors": rate_document(scenario.errors),
        "completed": rate_document(scenario.completed),
        "all_of": asdict(scenario.all_of) if scenario.all_of else None,
        "any_of": asdict(scenario.any_of) if scenario.any_of else None,
    }


def _handshake(handshake: Handshake) -> Document:
    steps = [{"name": name, "passed": rate_document(rate)} for name, rate in handshake.steps]
    return {
        "scenario": handshake.scenario,
        "steps": steps,
        "in_order": rate_document(handshake.in_order),
    }
