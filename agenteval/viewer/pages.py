"""Every page of the viewer by its name: the function for its content, and its template.

First the list of runs, one run with its figures, its trials, and two runs compared; then a
transcript, and those of two runs on the same task instance, side by side.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import Any

from agenteval import workflows
from agenteval.errors import UsageError
from agenteval.report.details import detail_tables
from agenteval.report.html import templates_of
from agenteval.report.tables import MARK, comparison_table
from agenteval.report.transcripts import TrialShown, shown_trial
from agenteval.report.view import View
from agenteval.stats.rates import Estimand, Rate, clustered
from agenteval.store.read import WHOLE, Part, load_trial, without_trials
from agenteval.store.search import Review, Spot, reviews
from agenteval.store.summaries import (
    Heading,
    ListedTrial,
    begun_since,
    headings,
    listed,
    listed_trials,
)
from agenteval.trial.call import Outcome, Verdict
from agenteval.trial.trial import CallRecord, Trial
from agenteval.viewer.calls import (
    Visit,
    call_page,
    calls_found,
    known_run,
    otherwise,
    reviews_page,
    spot,
)

_Content = Mapping[str, Any]  # of a page: the values of its template
_ALL = 1 << 62  # trials
_RUNS_SHOWN = 20  # on one page of the list
_TRIALS_SHOWN = 100
_WORLDS_SHOWN = 200  # of two runs, those that ended otherwise first
_RUNNING = "running"  # the outcome of a trial that has none yet
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


def _runs_page(visit: Visit) -> _Content:
    is_new = begun_since(visit.get("since"))
    all_runs = headings(visit.query)
    selected = [run.id for run in all_runs if _is_wanted(run, visit) and is_new(run.started)]
    # A run that was removed since its link was made leads to the first page.
    begin = selected.index(visit.get("from")) if visit.get("from") in selected else 0
    end = begin + _RUNS_SHOWN
    ids = selected[begin:end]
    runs = listed(visit.query, ids) if ids else []
    lines = [(run, workflows.runs.errors_of(run), workflows.runs.reached(run)) for run in runs]
    return {
        "title": "Runs",
        "runs": lines,
        "total": len(selected),
        "later": "".join(selected[end : end + 1]),
        "earlier": selected[max(0, begin - _RUNS_SHOWN)] if begin else "",
    }


def _is_wanted(run: Heading, visit: Visit) -> bool:
    label = visit.get("label")
    if visit.get("model") not in run.model or (label and label not in run.labels):
        return False
    kinds = {"1": run.simulated, "0": not run.simulated}
    return kinds.get(visit.get("simulated"), True)


def _run_page(visit: Visit) -> _Content:
    run_id = known_run(visit.query, visit.needed("id"))
    (run,) = listed(visit.query, [run_id])
    trials = listed_trials(visit.query, run_id, {}, size=_ALL)
    stored = without_trials(visit.query, run_id)
    others = [heading for heading in headings(visit.query) if heading.id != run_id]
    by_scenario = groupby(trials, key=attrgetter("scenario"))
    return {
        "title": run_id,
        "run": run,
        "kept": stored,
        "errors": workflows.runs.errors_of(run),
        "reached": workflows.runs.reached(run),
        "classes": _rates_by_class(trials),
        "scenarios": [_scenario_row(name, list(of_scenario)) for name, of_scenario in by_scenario],
        "outcomes": sorted({trial.outcome or _RUNNING for trial in trials}),
        "others": others[:_RUNS_SHOWN],
        "live": not stored.complete and not visit.addresses.static,
    }


def _rates_by_class(trials: Sequence[ListedTrial]) -> list[tuple[str, Rate]]:
    """Return the rate of each failure class, the most frequent first."""
    counting = [trial for trial in trials if _counts(trial)]
    rates = workflows.runs.rate_errors(counting).by_class
    return sorted(rates.items(), key=_by_count)


def _by_count(named_rate: tuple[str, Rate]) -> int:
    return -named_rate[1].count


def _counts(trial: ListedTrial) -> bool:
    """Return True if rates count the trial: it has ended, and is not void."""
    return trial.outcome not in {"", Outcome.VOID}


def _scenario_row(scenario: str, trials: Sequence[ListedTrial]) -> _Content:
    """Return how often each outcome occurred in these trials, and their error rate."""
    outcomes: Counter[str] = Counter()
    clusters = []
    for trial in trials:
        outcomes[trial.outcome or _RUNNING] += 1
        if _counts(trial):
            clusters.append((sum(trial.errors.values()), trial.calls))
    return {
        "label": scenario,
        "outcomes": outcomes,
        "errors": clustered(clusters),
    }


def _trials_page(visit: Visit) -> _Content:
    run_id = known_run(visit.query, visit.needed("run"))
    only = {name: visit.get(name) for name in ("scenario", "outcome") if visit.get(name)}
    if only.get("outcome") == _RUNNING:
        only["outcome"] = ""
    after = visit.get("after"), visit.number("number") or 0
    trials = listed_trials(
        visit.query,
        run_id,
        only,  # type: ignore[arg-type]
        after=after,
        size=_TRIALS_SHOWN + 1,
    )
    return {
        "title": f"Trials of {run_id}",
        "run": run_id,
        "trials": trials[:_TRIALS_SHOWN],
        "more": len(trials) > _TRIALS_SHOWN,
        "began": bool(visit.get("after")),
        "running": _RUNNING,
    }


@lru_cache(maxsize=32)
def _compared(
    store: str,
    runs: tuple[str, str],
    about: Estimand,
    *,
    across: bool,
    stands: object,
) -> View:
    """Return the comparison, cached while the state of the runs (`stands`) is the same.

    Permutations of large runs take seconds.
    """
    del stands
    sides = workflows.views.models_of(runs, store, calls=False)
    return workflows.views.compared(sides, "full", about, across_arms=across)


def _comparison(visit: Visit) -> _Content:
    """Return the content of `agenteval compare`, then the task instances that both met."""
    first, second = (known_run(visit.query, visit.needed(name)) for name in ("a", "b"))
    if first == second:
        raise UsageError("these are one run; name two")
    stands = visit.query(_STANDS, one=first, other=second)
    view = _compared(
        visit.store,
        (first, second),
        workflows.gate.declared(None),
        across=bool(visit.get("across")),
        stands=tuple(map(tuple, stands)),
    )
    worlds = visit.query(_WORLDS, one=first, other=second, size=_WORLDS_SHOWN)
    return {
        "title": view.title,
        "view": view,
        "runs": (first, second),
        "tables": (comparison_table(view), *detail_tables(view)),
        "worlds": worlds,
        "cut": len(worlds) == _WORLDS_SHOWN,
        "running": _RUNNING,
    }


# Transcripts.

_CALLS_WHOLE = 1000  # a trial of more is shown in parts
_TURNS_SHOWN = 100  # of such a trial
_TRIAL = """SELECT id, outcome, (SELECT count(*) FROM "call" WHERE trial_id = trial.id),
    (SELECT max(number) FROM turn WHERE trial_id = trial.id AND agent = '')
    FROM trial WHERE run_id = :run AND scenario = :scenario AND number = :number AND NOT replaced"""
_CALLS = """SELECT agent, turn, position, id FROM "call"
    WHERE trial_id = :trial AND turn >= :first AND turn < :end ORDER BY id LIMIT :most"""
_OTHERS = """SELECT run_id, outcome FROM trial WHERE scenario = :scenario AND number = :number
    AND seed = :seed AND run_id != :run AND NOT replaced ORDER BY id DESC LIMIT 20"""


@dataclass(frozen=True, slots=True)
class _TrialInPage:
    """A trial with the store ids of its calls, reviews by id, and verdicts of another allow list.

    Of a long one, `transcript` has the turns from the `first` on; `all_turns` and `all_calls` are
    those of the whole trial.
    """

    run: str
    transcript: TrialShown
    ids: Mapping[Spot, int]
    reviews: Mapping[int, Review]
    otherwise: Mapping[Spot, Verdict]
    first: int
    all_turns: int
    all_calls: int
    ended: bool

    @property
    def part(self) -> bool:
        return self.all_calls > _CALLS_WHOLE


def _transcript(visit: Visit) -> _Content:
    run = known_run(visit.query, visit.needed("run"))
    scenario, number = _trial_named(visit)
    trial_in_page = _loaded(visit, run, scenario, number)
    place = {"run": run, "scenario": scenario, "number": number}
    return {
        "title": f"{scenario} #{number}",
        "run": run,
        "place": place,
        "seen": trial_in_page,
        "policies": workflows.rescore.policy_names(),
        "beside": visit.query(_OTHERS, **place, seed=trial_in_page.transcript.trial.seed),
        "size": _TURNS_SHOWN,
    }


def _trial_named(visit: Visit) -> tuple[str, int]:
    return visit.needed("scenario"), visit.number("number") or 1


def _loaded(
    visit: Visit,
    run: str,
    scenario: str,
    number: int,
) -> _TrialInPage:
    """Load a trial with its context. Raises UsageError if the run has no such trial."""
    missing = UsageError(f"{run} has no trial {number} of {scenario[:200]}")
    rows = visit.query(_TRIAL, run=run, scenario=scenario, number=number)
    if not rows:
        raise missing
    trial_id, outcome, calls, last_turn = rows[0]
    is_part = calls > _CALLS_WHOLE
    first = 0
    part_to_load = WHOLE
    if is_part:
        begin = visit.number("from") or visit.number("turn") or 0
        first = min(begin, last_turn or 0)  # an address may name a turn beyond the last
        part_to_load = Part(first, first + _TURNS_SHOWN, _CALLS_WHOLE)
    call_ids = visit.query(_CALLS, trial=trial_id, **part_to_load._asdict())
    trial = load_trial(visit.query, run, scenario, number, part_to_load)
    if trial is None:  # it has been replaced since
        raise missing
    if is_part:  # of sub-agents it is not known which of these turns asked for them
        moved = tuple(replace(record, turn=record.turn - first) for record in trial.calls)
        trial = replace(trial, calls=moved, agents=())
    return _TrialInPage(
        run=run,
        transcript=shown_trial(trial, first=first),
        ids={(agent, turn, position): call for agent, turn, position, call in call_ids},
        reviews={review.call: review for review in reviews(visit.query, run=run)},
        otherwise={} if is_part else otherwise(visit, run, trial),
        first=first,
        all_turns=0 if last_turn is None else last_turn + 1,
        all_calls=calls,
        ended=bool(outcome),
    )


def _side_by_side(visit: Visit) -> _Content:
    """Return the turns of both in rows, with the first call in which they differ."""
    runs = [known_run(visit.query, visit.needed(name)) for name in ("a", "b")]
    scenario, number = _trial_named(visit)
    sides = [_loaded(visit, run, scenario, number) for run in runs]
    first, second = (side.transcript.trial for side in sides)
    differing = _first_difference(first, second)
    marks = [spot("", call.turn, call.position) if call else "" for call in differing or ()]
    return {
        "title": f"{scenario} #{number}, side by side",
        "scenario": scenario,
        "number": number,
        "sides": sides,
        "rows": list(zip_longest(*(side.transcript.turns for side in sides))),
        "marks": marks,
        "alike": differing is None,
        "same_world": first.seed == second.seed,
    }


def _first_difference(
    first: Trial,
    second: Trial,
) -> tuple[CallRecord | None, CallRecord | None] | None:
    """Return the first calls that differ; None if all are equal.

    One of the two is None if its side made no more calls.
    """
    for calls in zip_longest(first.calls, second.calls):
        first_request, second_request = map(_request, calls)
        if first_request != second_request:
            return calls
    return None


def _request(record: CallRecord | None) -> tuple[str, Any] | None:
    if record is None:
        return None
    call = record.call
    return call.name, call.raw if call.arguments is None else call.arguments


# The table of pages.

FIRST = ""  # the name of the page that a visit begins with
PAGES: Mapping[str, Callable[[Visit], _Content]] = {
    FIRST: _runs_page,
    "run": _run_page,
    "trials": _trials_page,
    "calls": calls_found,
    "call": call_page,
    "trial": _transcript,
    "side": _side_by_side,
    "compare": _comparison,
    "reviews": reviews_page,
}
ASSETS = {  # where each stands, and its type
    "report.css": ("agenteval.report", "templates", "text/css"),
    "viewer.css": ("agenteval.viewer", "static", "text/css"),
    "viewer.js": ("agenteval.viewer", "static", "text/javascript"),
    "htmx-2.0.11.min.js": ("agenteval.viewer", "static", "text/javascript"),
    "htmx-LICENSE.txt": ("agenteval.viewer", "static", "text/plain"),
}


def rendered(name: str, visit: Visit) -> str:
    """Return a whole page. Raises UsageError if its address is invalid for this store."""
    content = PAGES[name](visit)
    return _written(f"{name or 'runs'}.html", visit, name=name, **content)


def asset(name: str) -> bytes:
    package, folder, _ = ASSETS[name]
    return files(package).joinpath(folder, name).read_bytes()


def complaint(visit: Visit, reason: str) -> str:
    """Return the page that reports why there is no page."""
    return _written("complaint.html", visit, name="", said=reason)


def _written(template: str, visit: Visit, **content: Any) -> str:
    templates = templates_of("agenteval.viewer", "agenteval.report")
    page = templates.get_template(template)
    return page.render(visit=visit, mark=MARK, spot_of=spot, **content)
