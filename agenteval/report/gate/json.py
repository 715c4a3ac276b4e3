"""A gate's verdict as JSON, with keys that stay.

Figures are fractions of 1, but for a margin that is a ratio; bounds are one-sided.

    schema      "agenteval.gate/1"; a new number means that a key changed its meaning or went
    verdict     PASS, FAIL or INCONCLUSIVE
    simulated   whether any of the two runs is simulated
    level       of each bound
    ratio       whether the margin is a ratio, and no difference
    over        what the verdict is about: other "scenarios" like these, or these "trials" again
    worlds_met  pairs of trials that the margin compares; 0: the runs had no world in common
    baseline, candidate     {id, model, simulated, trials, void, calls}
    criteria    [{name, estimate, lower, upper, limit, count, n, of, forbidden, p_fail, verdict,
                  more_trials}]   of those that bear on it; null when no number would settle it
    minimums    [{of, asked, seen, verdict}]
    remarks     texts
"""

import json
from math import ceil, isfinite
from typing import Any

from agenteval.core.gated import GatedRun
from agenteval.report.gate.view import GateView, bearing
from agenteval.stats.criteria import MOST
from agenteval.stats.gate import Criterion

SCHEMA = "agenteval.gate/1"


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
        "over": judgement.rules.over,
        "worlds_met": judgement.worlds_met,
        "rules": view.rules,
        "baseline": _run(view.baseline),
        "candidate": _run(view.candidate),
        "criteria": [_criterion(one, view.candidate) for one in judgement.criteria],
        "minimums": [
            {"of": one.of, "asked": one.asked, "seen": one.seen, "verdict": one.verdict}
            for one in judgement.minimums
        ],
        "remarks": list(view.remarks),
    }


def _run(run: GatedRun) -> dict[str, Any]:
    return {
        "id": run.id,
        "model": run.model,
        "simulated": run.simulated,
        "trials": len(run.counted),
        "void": len(run.trials) - len(run.counted),
        "calls": sum(trial.calls for trial in run.counted),
    }


def _criterion(one: Criterion, candidate: GatedRun) -> dict[str, Any]:
    measure, more = one.measure, one.more
    trials = len(bearing(measure, candidate))
    lower, upper = one.bounds or (None, None)
    return {
        "name": measure.name,
        "estimate": _number(one.estimate),
        "lower": lower,
        "upper": None if upper is not None and upper >= MOST else upper,
        "limit": measure.limit,
        "count": measure.count,
        "n": measure.n,
        "of": measure.of,
        "forbidden": measure.forbidden,
        "p_fail": one.p_fail,
        "verdict": one.verdict,
        "more_trials": ceil(more * trials) if isfinite(more) else None,
    }


def _number(value: float | None) -> float | None:
    return value if value is None or isfinite(value) else None
