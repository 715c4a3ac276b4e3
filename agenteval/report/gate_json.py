"""A gate's verdict as JSON: its keys are stable and documented in docs/json.md."""

import json
from math import ceil, isfinite
from typing import Any

from agenteval.core.summary import RunSummary
from agenteval.report.gate_view import GateView
from agenteval.report.json import rate_document
from agenteval.stats.feasibility import needed
from agenteval.stats.limit_tests import MOST
from agenteval.stats.promotion import Result
from agenteval.stats.rates import Rate

SCHEMA = "agenteval.gate/2"


def dumps(view: GateView) -> str:
    return json.dumps(document(view), indent=2, allow_nan=False)


def document(view: GateView) -> dict[str, Any]:
    judgement = view.judgement
    return {
        "schema": SCHEMA,
        "verdict": judgement.verdict,
        "simulated": view.simulated,
        "level": judgement.level,
        "ratio": judgement.rules.ratio,
        "about": judgement.rules.about,
        "worlds_met": judgement.pairing.worlds,
        "calls_left_out": list(judgement.pairing.left_out),
        "rules": view.rules,
        "baseline": _run(view.baseline, view.goals[0]),
        "candidate": _run(view.candidate, view.goals[1]),
        "criteria": [_criterion(one, view.candidate) for one in judgement.criteria],
        "minimums": [
            {"of": one.of, "asked": one.required, "seen": one.observed, "verdict": one.verdict}
            for one in judgement.minimums
        ],
        "out_of_reach": [one.fields for one in view.reach],
        "remarks": list(view.remarks),
    }


def _run(run: RunSummary, reached: Rate | None) -> dict[str, Any]:
    return {
        "id": run.id,
        "model": run.model,
        "simulated": run.simulated,
        "arm": run.conditions.arm,
        "trials": len(run.counted),
        "void": len(run.trials) - len(run.counted),
        "calls": run.calls,
        "completed": None if reached is None else rate_document(reached),
    }


def _criterion(result: Result, candidate: RunSummary) -> dict[str, Any]:
    measure, trials = result.measure, len(result.bearing(candidate))
    lower, upper = result.bounds or (None, None)
    return {
        "name": measure.name,
        "estimate": _number(result.estimate),
        "lower": lower,
        "upper": None if upper is not None and upper >= MOST else upper,
        "limit": measure.limit,
        "count": measure.count,
        "n": measure.n,
        "of": measure.of,
        "forbidden": measure.forbidden,
        "p_fail": result.p_fail,
        "verdict": result.verdict,
        "trials_needed": [
            ceil(times * trials) if isfinite(times) else None for times in needed(result) or ()
        ],
    }


def _number(value: float | None) -> float | None:
    return value if value is None or isfinite(value) else None
