"""The view as JSON: its keys are stable and documented in docs/json.md.

`encoded` gives the form of any figure; the functions below name the keys that differ from the
attributes of the view.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Any

from agenteval.report.provenance import agent_rates
from agenteval.report.tables import goal_turns, undone
from agenteval.report.view import Errors, Handshake, Pair, RecoveryFigures, RunView, View
from agenteval.stats.comparison import Difference, MeanDifference
from agenteval.stats.rates import LEVEL, Rate, clustered
from agenteval.stats.score import Ratio

SCHEMA = "agenteval.report/2"
Document = dict[str, Any]


def dumps(view: View) -> str:
    return json.dumps(document(view), indent=2, allow_nan=False)


def encoded(value: Any) -> Any:
    """Return a value as JSON has it: a dataclass by its fields, a rate with its value and interval.

    What is not finite is null in a ratio, which may be of nothing.
    """
    match value:
        case Rate():
            return _rate_document(value)
        case Ratio():
            ratios = attributes(value, *(field.name for field in fields(value)))
            return {name: ratio if isfinite(ratio) else None for name, ratio in ratios.items()}
        case Mapping():
            return {str(key): encoded(item) for key, item in value.items()}
        case list() | tuple():
            return [encoded(item) for item in value]
        case _ if is_dataclass(value):
            return attributes(value, *(field.name for field in fields(value)))
        case _:
            return value


def attributes(owner: object, *names: str) -> Document:
    """Return these attributes, under their own names."""
    return {name: encoded(getattr(owner, name)) for name in names}


def _rate_document(rate: Rate) -> Document:
    value = rate.value if rate.n else None
    counts = attributes(rate, "count", "n", "clusters")
    return {**counts, "value": value, "low": rate.low, "high": rate.high}


def document(view: View) -> Document:
    return {
        "schema": SCHEMA,
        "simulated": view.simulated,
        "level": LEVEL,
        **attributes(view, "title", "about", "basis", "warnings", "sentences"),
        "classes": encoded(view.rows),
        "models": [_errors(model, view) for model in view.models],
        "pairs": [_pair(pair) for pair in view.pairs],
        "architectures": _groups(view),
        "runs": [_run(run) for run in view.runs],
    }


def _errors(model: Errors, view: View) -> Document:
    by_class = zip(view.rows, model.rows, strict=True)
    influence = encoded(model.influence)
    if influence:
        influence["at"] = model.largest
    return {
        "model": model.label,
        **attributes(model, "simulated", "arm", "trials"),
        "errors": encoded(model.total),
        "influence": influence or None,
        "with_voids": encoded(model.with_voids or ()),
        "by_class": {row.id: encoded(rate) for row, rate in by_class},
        "cannot_occur": list(model.cannot_occur),
    }


def _pair(pair: Pair) -> Document:
    gap = pair.difference
    is_known = not pair.silent
    calls = gap.calls_needed if is_known and isfinite(gap.calls_needed) else None
    calls_if_half = gap.calls_for(abs(gap.value) / 2) if gap.value and is_known else None
    kinds = encoded(pair.kinds)
    if kinds:
        kinds["p_adjusted"] = pair.kinds_adjusted
    return {
        "first": pair.first,
        "second": pair.second,
        "difference": gap.value if is_known else None,
        **attributes(gap, "low", "high", "p"),
        "p_adjusted": pair.adjusted,
        "paired": gap.paired,
        "calls_left_out": list(pair.left_out),
        "calls_needed": calls,
        "calls_needed_if_half": calls_if_half,
        "first_rate": encoded(gap.first),
        "second_rate": encoded(gap.second),
        "ratio": encoded(gap.ratio),
        "kinds": kinds,
        "by_trial": pair.by_trial,
        "claims": pair.family_size,
        "classes": {one.id: _difference(one.difference, one.adjusted) for one in pair.classes},
        "figures": {one.label: _difference(one.difference, one.adjusted) for one in pair.figures},
    }


def _difference(gap: Difference | MeanDifference | None, adjusted: float | None) -> Document | None:
    if gap is None:
        return None
    if isinstance(gap, Difference):
        first, second, ratio = encoded(gap.first), encoded(gap.second), encoded(gap.ratio)
    else:
        means = (attributes(mean, *_OF_MEAN) for mean in (gap.first, gap.second))
        first, second = means
        ratio = None
    return {
        "first": first,
        "second": second,
        "difference": gap.value,
        **attributes(gap, "low", "high", "p", "paired"),
        "ratio": ratio,
        "p_adjusted": adjusted,
    }


_OF_MEAN = ("count", "n", "value", "low", "high")


def _groups(view: View) -> Document | None:
    groups = view.groups
    if groups is None:
        return None
    others = encoded(groups.others)
    if others:
        others["p_adjusted"] = groups.adjusted
    models = [encoded(dict(rates)) for rates in groups.models]
    return {**attributes(groups, "first", "second"), "models": models, "others": others}


def _ends(view: RunView) -> Document:
    turns, after = goal_turns(view)
    missed = []
    for trial in view.score.counted:
        if trial.goal and not trial.completed:
            checks = [encoded(check) for check in trial.goal if not check.held]
            place = attributes(trial, "scenario", "number", "outcome", "goal_turn")
            missed.append({**place, "checks": checks})
    return {
        "outcomes": encoded(dict(view.outcomes)),
        "missed": missed,
        "goal_held": {
            "undone": encoded(undone(view)),
            "median_turns": turns,
            "median_after": after,
        },
        "trials_with_denial": encoded(view.any_denial),
    }


_OF_RUN = (
    "sandbox",
    "prefork",
    "started",
    "complete",
    "seed",
    "trials_planned",
    "max_turns",
    "concurrency",
    "arm",
    "protocol",
    "taxonomy",
    "policies",
)


def _run(view: RunView) -> Document:
    run, score, ran = view.run, view.score, view.executions
    voids = [attributes(void, "scenario", "number", "cause", "reason") for void in score.voids]
    tool_errors = clustered(ran.tool_errors, view.layout) if ran else None
    return {
        "id": run.id,
        "model": encoded(run.model),
        "simulated": run.model.simulated,
        **attributes(run, *_OF_RUN),
        "trials": score.trials,
        "voids": voids,
        "replaced": encoded(run.replaced),
        "crashes": encoded(Rate(len(run.crashes), run.requests)),
        "looks": encoded(run.looks),
        "trials_saved": run.saved,
        **attributes(view, "retries", "stretched"),
        **_ends(view),
        "tool_errors": encoded(tool_errors),
        "limits": dict(sorted(ran.limits.items())) if ran else None,
        "second_reader_objections": ran.objections if ran else None,
        "second_reader": encoded(run.second_reader),
        "turns": score.turns,
        "completion_tokens": ran.completion_tokens if ran else None,
        "speed": encoded(view.served),
        "arrivals": encoded(view.arrivals),
        "recovery": _recovery(view.recovery),
        "scenarios": {
            scenario.name: attributes(scenario, "errors", "completed", "all_of", "any_of")
            for scenario in view.scenarios
        },
        "handshakes": [_handshake(handshake) for handshake in view.handshakes],
        "agents": encoded(agent_rates(view)),
    }


def _handshake(handshake: Handshake) -> Document:
    steps = [{"name": name, "passed": encoded(rate)} for name, rate in handshake.steps]
    return {
        "scenario": handshake.scenario,
        "steps": steps,
        "in_order": encoded(handshake.in_order),
    }


def _recovery(after: RecoveryFigures) -> Document:
    rates = ("no_chance", "at_once", "at_all", "turns_burned", "after_denied", "after_allowed")
    parts = ("difference", "low", "high")
    by_end: Document = {}
    for end, by_turns in after.incidence:
        by_end[end] = {}
        for turns, incidence in by_turns:
            figures = encoded(incidence)
            figures["value"] = incidence.value if isfinite(incidence.value) else None
            by_end[end][f"{turns:g}" if isfinite(turns) else "ever"] = figures
    return {
        **attributes(after, *rates),
        "kinds": encoded(dict(after.kinds)),
        "within": encoded(dict(after.recovered_within)),
        "lost": encoded(dict(after.unrecovered)),
        "by_told": {
            content: {"at_once": encoded(at_once), "at_all": encoded(at_all)}
            for content, at_once, at_all in after.by_told
        },
        "median_turns": after.turns,
        "median_calls": after.calls,
        "longest_run": after.longest_run,
        "dependence": after.dependence and dict(zip(parts, after.dependence, strict=True)),
        "incidence": by_end,
    }
