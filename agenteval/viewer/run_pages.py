"""The list of runs, one run with its figures, its trials, and two runs compared."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agenteval import workflows
from agenteval.core.counts import ErrorCounts
from agenteval.core.outcome import Outcome
from agenteval.errors import UsageError
from agenteval.report.details import detail_tables
from agenteval.report.tables import comparison_table
from agenteval.report.view import View
from agenteval.stats.estimand import Estimand, Layout
from agenteval.stats.rates import Rate, clustered
from agenteval.store.listed import Heading, begun_since, headings, listed, listed_trials
from agenteval.store.loading import without_trials
from agenteval.store.summaries import decoded
from agenteval.viewer.addresses import Visit, known_run
from agenteval.workflows.shelf import errors_of, reached

RUNS_SHOWN = 20  # on one page of the list
TRIALS_SHOWN = 100
WORLDS_SHOWN = 200  # of two runs, those that ended otherwise first
RUNNING = "running"  # the outcome of a trial that has none yet

_ENDED = """SELECT scenario, outcome, calls, errors FROM trial
    WHERE run_id = :run AND NOT replaced ORDER BY scenario, number"""
# What changes with every trial that ends, and when a run is judged again.
_STANDS = """SELECT run_id, count(*), sum(calls), max(id),
    (SELECT max(id) FROM rescore WHERE rescore.run_id = trial.run_id),
    (SELECT max(id) FROM look WHERE look.run_id = trial.run_id),
    (SELECT complete FROM run WHERE run.id = trial.run_id)
    FROM trial WHERE run_id IN (:one, :other) AND outcome != '' AND NOT replaced
    GROUP BY run_id ORDER BY run_id"""
_WORLDS = """SELECT one.scenario, one.number, one.outcome, other.outcome,
    one.calls, other.calls FROM trial AS one JOIN trial AS other
    ON other.scenario = one.scenario AND other.number = one.number AND other.seed = one.seed
    WHERE one.run_id = :one AND other.run_id = :other AND NOT one.replaced AND NOT other.replaced
    ORDER BY one.outcome = other.outcome, one.scenario, one.number LIMIT :size"""


def runs_page(visit: Visit) -> Mapping[str, Any]:
    is_new = begun_since(visit.get("since"))
    selected = [
        one for one in headings(visit.query) if _is_wanted(one, visit) and is_new(one.started)
    ]
    begin = next((at for at, one in enumerate(selected) if one.id == visit.get("from")), 0)
    ids = [one.id for one in selected[begin : begin + RUNS_SHOWN]]
    later = selected[begin + RUNS_SHOWN :]
    earlier = selected[max(0, begin - RUNS_SHOWN)] if begin else None
    return {
        "title": "Runs",
        "runs": [(run, errors_of(run), reached(run)) for run in listed(visit.query, ids) if ids],
        "total": len(selected),
        "later": later[0].id if later else "",
        "earlier": earlier.id if earlier else "",
    }


def _is_wanted(run: Heading, visit: Visit) -> bool:
    simulated = {"": True, "1": run.simulated, "0": not run.simulated}
    return (
        visit.get("model") in run.model
        and (not visit.get("label") or visit.get("label") in run.labels)
        and simulated.get(visit.get("simulated"), True)
    )


@dataclass(frozen=True, slots=True)
class Tally:
    """A group of a run's trials: how often each outcome occurred, and the error rate."""

    label: str
    outcomes: Mapping[str, int]
    errors: Rate

    @property
    def trials(self) -> int:
        return sum(self.outcomes.values())


def run_page(visit: Visit) -> Mapping[str, Any]:
    run_id = known_run(visit.query, visit.needed("id"))
    read: dict[str, Mapping[str, int]] = {}  # most trials have the errors of many others
    trials = [
        (
            scenario,
            outcome or RUNNING,
            calls,
            read.get(str(errors)) or read.setdefault(str(errors), decoded(errors)),
        )
        for scenario, outcome, calls, errors in visit.query(_ENDED, run=run_id)
    ]
    counted = [one for one in trials if one[1] not in {RUNNING, Outcome.VOID}]
    scenarios = [scenario for scenario, *_ in counted]
    counts = ErrorCounts.added([(calls, errors) for _, _, calls, errors in counted])
    classes = {name: counts.clusters(name) for name in counts.by_class}
    (run,) = listed(visit.query, [run_id])
    stored = without_trials(visit.query, run_id)
    rates = {name: clustered(of, Layout(scenarios=scenarios)) for name, of in classes.items()}
    return {
        "title": run_id,
        "run": run,
        "kept": stored,
        "errors": clustered(counts.total(), Layout(scenarios=scenarios)),
        "reached": reached(run),
        "classes": sorted(rates.items(), key=lambda one: (-one[1].count, one[0])),
        "scenarios": _by_scenario(trials),
        "outcomes": sorted({outcome for _, outcome, _, _ in trials}),
        "others": [one for one in headings(visit.query) if one.id != run_id][:RUNS_SHOWN],
        "live": not stored.complete and not visit.addresses.static,
    }


def _by_scenario(trials: Sequence[tuple[str, str, int, Mapping[str, int]]]) -> list[Tally]:
    grouped = defaultdict(list)
    for trial in trials:
        grouped[trial[0]].append(trial)
    return [
        Tally(
            scenario,
            {end: [one for _, one, _, _ in of].count(end) for end in {end for _, end, _, _ in of}},
            clustered(
                [
                    (sum(errors.values()), calls)
                    for _, outcome, calls, errors in of
                    if outcome not in {RUNNING, Outcome.VOID}
                ]
            ),
        )
        for scenario, of in sorted(grouped.items())
    ]


def trials_page(visit: Visit) -> Mapping[str, Any]:
    run_id = known_run(visit.query, visit.needed("run"))
    only = {name: visit.get(name) for name in ("scenario", "outcome") if visit.get(name)}
    if only.get("outcome") == RUNNING:
        only["outcome"] = ""
    after = visit.get("after"), visit.number("number") or 0
    listed = listed_trials(visit.query, run_id, only, after=after, size=TRIALS_SHOWN + 1)  # type: ignore[arg-type]
    return {
        "title": f"Trials of {run_id}",
        "run": run_id,
        "trials": listed[:TRIALS_SHOWN],
        "more": len(listed) > TRIALS_SHOWN,
        "began": bool(visit.get("after")),
        "running": RUNNING,
    }


@lru_cache(maxsize=32)
def _compared(
    store: str, runs: tuple[str, str], about: Estimand, *, across: bool, stands: object
) -> View:
    """Return the comparison, cached while the state of the runs (`stands`) is the same.

    Permutations of large runs take seconds.
    """
    del stands
    found = workflows.views.models_of(runs, store, calls=False)
    return workflows.views.compared(found, "full", about, across_arms=across)


def comparison(visit: Visit) -> Mapping[str, Any]:
    """Return the content of `agenteval compare`, then the task instances that both met."""
    first, second = (known_run(visit.query, visit.needed(name)) for name in ("a", "b"))
    if first == second:
        raise UsageError("these are one run; name two")
    about = workflows.gating.declared(None)
    stands = visit.query(_STANDS, one=first, other=second)
    view = _compared(
        visit.store,
        (first, second),
        about,
        across=bool(visit.get("across")),
        stands=tuple(tuple(row) for row in stands),
    )
    worlds = visit.query(_WORLDS, one=first, other=second, size=WORLDS_SHOWN)
    return {
        "title": view.title,
        "view": view,
        "runs": (first, second),
        "tables": (comparison_table(view), *detail_tables(view)),
        "worlds": worlds,
        "cut": len(worlds) == WORLDS_SHOWN,
        "running": RUNNING,
    }
