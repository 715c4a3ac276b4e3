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

from agenteval.errors import UsageError
from agenteval.report.details import detail_tables
from agenteval.report.html import templates_of
from agenteval.report.tables import MARK, comparison_table
from agenteval.report.transcripts import CallShown, TrialShown, shown_trial
from agenteval.report.view import View
from agenteval.stats.rates import Estimand, Rate
from agenteval.store.location import Query
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
from agenteval.viewer.calls import Visit, call_page, calls_found, known_run, reviews_page, spot
from agenteval.workflows.runs import errors_of, rate_errors, reached

Content = Mapping[str, Any]  # of a page: the values of its template
ALL = 1 << 62  # trials
RUNS_SHOWN = 20  # on one page of the list
TRIALS_SHOWN = 100
WORLDS_SHOWN = 200  # of two runs, those that ended otherwise first
RUNNING = "running"  # the outcome of a trial that has none yet
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


def _runs_page(visit: Visit) -> Content:
    is_new = begun_since(visit.get("since"))
    selected = [
        run.id for run in headings(visit.query) if _is_wanted(run, visit) and is_new(run.started)
    ]
    # A run that was removed since its link was made leads to the first page.
    begin = selected.index(visit.get("from")) if visit.get("from") in selected else 0
    end = begin + RUNS_SHOWN
    ids = selected[begin:end]
    runs = listed(visit.query, ids) if ids else []
    return {
        "title": "Runs",
        "runs": [(run, errors_of(run), reached(run)) for run in runs],
        "total": len(selected),
        "later": "".join(selected[end : end + 1]),
        "earlier": selected[max(0, begin - RUNS_SHOWN)] if begin else "",
    }


def _is_wanted(run: Heading, visit: Visit) -> bool:
    simulated = {"": True, "1": run.simulated, "0": not run.simulated}
    return (
        visit.get("model") in run.model
        and (not visit.get("label") or visit.get("label") in run.labels)
        and simulated.get(visit.get("simulated"), True)
    )


@dataclass(frozen=True, slots=True)
class _ScenarioRow:
    """The trials of one scenario: how often each outcome occurred, and the error rate."""

    label: str
    outcomes: Mapping[str, int]
    errors: Rate

    @property
    def trials(self) -> int:
        return sum(self.outcomes.values())


def _run_page(visit: Visit) -> Content:
    run_id = known_run(visit.query, visit.needed("id"))
    (run,) = listed(visit.query, [run_id])
    trials = listed_trials(visit.query, run_id, {}, size=ALL)
    counted = [trial for trial in trials if _counts(trial)]
    rates = rate_errors(counted)
    stored = without_trials(visit.query, run_id)
    others = [heading for heading in headings(visit.query) if heading.id != run_id]
    scenarios = groupby(trials, key=attrgetter("scenario"))
    return {
        "title": run_id,
        "run": run,
        "kept": stored,
        "errors": rates.total,
        "reached": reached(run),
        "classes": sorted(rates.by_class.items(), key=_by_count),
        "scenarios": [_scenario_row(name, list(of_scenario)) for name, of_scenario in scenarios],
        "outcomes": sorted({trial.outcome or RUNNING for trial in trials}),
        "others": others[:RUNS_SHOWN],
        "live": not stored.complete and not visit.addresses.static,
    }


def _counts(trial: ListedTrial) -> bool:
    """Return True if rates count the trial: it has ended, and is not void."""
    return trial.outcome not in {"", Outcome.VOID}


def _by_count(named_rate: tuple[str, Rate]) -> int:
    return -named_rate[1].count


def _scenario_row(scenario: str, trials: Sequence[ListedTrial]) -> _ScenarioRow:
    outcomes = Counter(trial.outcome or RUNNING for trial in trials)
    counted = [trial for trial in trials if _counts(trial)]
    return _ScenarioRow(scenario, outcomes, rate_errors(counted).total)


def _trials_page(visit: Visit) -> Content:
    run_id = known_run(visit.query, visit.needed("run"))
    only = {name: visit.get(name) for name in ("scenario", "outcome") if visit.get(name)}
    if only.get("outcome") == RUNNING:
        only["outcome"] = ""
    after = visit.get("after"), visit.number("number") or 0
    trials = listed_trials(visit.query, run_id, only, after=after, size=TRIALS_SHOWN + 1)  # type: ignore[arg-type]
    return {
        "title": f"Trials of {run_id}",
        "run": run_id,
        "trials": trials[:TRIALS_SHOWN],
        "more": len(trials) > TRIALS_SHOWN,
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
    from agenteval.workflows import views  # noqa: PLC0415 -- start-up: few need it

    del stands
    found = views.models_of(runs, store, calls=False)
    return views.compared(found, "full", about, across_arms=across)


def _comparison(visit: Visit) -> Content:
    """Return the content of `agenteval compare`, then the task instances that both met."""
    first, second = (known_run(visit.query, visit.needed(name)) for name in ("a", "b"))
    if first == second:
        raise UsageError("these are one run; name two")
    from agenteval.workflows import gate  # noqa: PLC0415 -- start-up: few need it

    about = gate.declared(None)
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


# Transcripts.

CALLS_WHOLE = 1000  # a trial of more is shown in parts
TURNS_SHOWN = 100  # of such a trial
_TRIAL = """SELECT id, outcome, (SELECT count(*) FROM "call" WHERE trial_id = trial.id),
    (SELECT max(number) FROM turn WHERE trial_id = trial.id AND agent = '')
    FROM trial WHERE run_id = :run AND scenario = :scenario AND number = :number AND NOT replaced"""
_CALLS = """SELECT agent, turn, position, id FROM "call"
    WHERE trial_id = :trial AND turn >= :first AND turn < :end ORDER BY id LIMIT :most"""


@dataclass(frozen=True, slots=True)
class _TrialInPage:
    """A trial with the store ids, reviews and other verdicts of its calls.

    Of a long one, `transcript` has the turns from the `first` on; `all_turns` and `all_calls` are
    those of the whole trial.
    """

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
        return self.all_calls > CALLS_WHOLE

    def spot(self, call: CallShown) -> str:
        return spot(*call.place)

    def id(self, call: CallShown) -> int | None:
        return self.ids.get(call.place)

    def review(self, call: CallShown) -> Review | None:
        return self.reviews.get(self.id(call) or 0)

    def verdict(self, call: CallShown) -> Verdict | None:
        """Return the verdict of the other allow list, if one was requested."""
        return self.otherwise.get(call.place)


def _transcript(visit: Visit) -> Content:
    run = known_run(visit.query, visit.needed("run"))
    scenario, number = visit.needed("scenario"), visit.number("number") or 1
    trial_part = _loaded(visit, run, scenario, number)
    from agenteval.workflows import rescore  # noqa: PLC0415 -- start-up: few need it

    return {
        "title": f"{scenario} #{number}",
        "run": run,
        "place": {"run": run, "scenario": scenario, "number": number},
        "seen": trial_part,
        "policies": rescore.policy_names(),
        "beside": _met_by_others(visit.query, run, trial_part.transcript.trial),
        "size": TURNS_SHOWN,
    }


def _loaded(visit: Visit, run: str, scenario: str, number: int) -> _TrialInPage:
    """Load a trial with its context. Raises UsageError if the run has no such trial."""
    place = {"run": run, "scenario": scenario, "number": number}
    rows = visit.query(_TRIAL, **place)
    if not rows:
        raise UsageError(f"{run} has no trial {number} of {scenario[:200]}")
    trial_id, outcome, calls, turns = rows[0]
    part = calls > CALLS_WHOLE
    begin = visit.number("from") or visit.number("turn") or 0
    first = min(begin, turns or 0) if part else 0
    part_to_load = Part(first, first + TURNS_SHOWN, CALLS_WHOLE) if part else WHOLE
    call_ids = visit.query(_CALLS, trial=trial_id, **part_to_load._asdict())
    trial = load_trial(visit.query, run, scenario, number, part_to_load)
    if trial is None:  # it has been replaced since
        raise UsageError(f"{run} has no trial {number} of {scenario[:200]}")
    if part:  # of sub-agents it is not known which of these turns asked for them
        moved = tuple(replace(one, turn=one.turn - first) for one in trial.calls)
        trial = replace(trial, calls=moved, agents=())
    return _TrialInPage(
        transcript=shown_trial(trial, first=first),
        ids={(agent, turn, at): call for agent, turn, at, call in call_ids},
        reviews={review.call: review for review in reviews(visit.query, run=run)},
        otherwise={} if part else _otherwise(visit, run, trial),
        first=first,
        all_turns=0 if turns is None else turns + 1,
        all_calls=calls,
        ended=bool(outcome),
    )


def _otherwise(visit: Visit, run: str, trial: Trial) -> Mapping[Spot, Verdict]:
    if not (allowlist := visit.get("allowlist")):
        return {}
    from agenteval.workflows import rescore  # noqa: PLC0415 -- start-up: few need it

    return rescore.otherwise(without_trials(visit.query, run), trial, allowlist)


def _met_by_others(query: Query, run: str, trial: Trial) -> Sequence[tuple[str, str]]:
    """Return the other runs that met the same task instance, each with its outcome there."""
    sql = """SELECT run_id, outcome FROM trial WHERE scenario = :scenario AND number = :number
        AND seed = :seed AND run_id != :run AND NOT replaced ORDER BY id DESC LIMIT 20"""
    place = {"scenario": trial.scenario, "number": trial.number, "seed": trial.seed}
    return [(other, outcome) for other, outcome in query(sql, run=run, **place)]


def _side_by_side(visit: Visit) -> Content:
    """Return the turns of both in rows, with the first call in which they differ."""
    runs = [known_run(visit.query, visit.needed(name)) for name in ("a", "b")]
    scenario, number = visit.needed("scenario"), visit.number("number") or 1
    both = [_loaded(visit, run, scenario, number) for run in runs]
    first, second = (trial.transcript.trial for trial in both)
    differs = _first_difference(first, second)
    return {
        "title": f"{scenario} #{number}, side by side",
        "scenario": scenario,
        "number": number,
        "sides": list(zip(runs, both, strict=True)),
        "rows": list(zip_longest(*(trial.transcript.turns for trial in both))),
        "marks": [spot("", at.turn, at.position) if at else "" for at in differs or ()],
        "alike": differs is None,
        "same_world": first.seed == second.seed,
    }


def _first_difference(
    first: Trial, second: Trial
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
PAGES: Mapping[str, tuple[str, Callable[[Visit], Content]]] = {
    FIRST: ("runs.html", _runs_page),
    "run": ("run.html", _run_page),
    "trials": ("trials.html", _trials_page),
    "calls": ("calls.html", calls_found),
    "call": ("call.html", call_page),
    "trial": ("trial.html", _transcript),
    "side": ("side.html", _side_by_side),
    "compare": ("compare.html", _comparison),
    "reviews": ("reviews.html", reviews_page),
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
    template, content_of = PAGES[name]
    return _written(template, visit, name=name, **content_of(visit))


def asset(name: str) -> bytes:
    package, folder, _ = ASSETS[name]
    return files(package).joinpath(folder, name).read_bytes()


def complaint(visit: Visit, reason: str) -> str:
    """Return the page that reports why there is no page."""
    return _written("complaint.html", visit, name="", said=reason)


def _written(template: str, visit: Visit, **content: Any) -> str:
    templates = templates_of("agenteval.viewer", "agenteval.report")
    return templates.get_template(template).render(visit=visit, mark=MARK, **content)
