"""Every page by its name: the function for its content, and its template.

The list of runs, one run with its figures, its trials, and two runs compared.

A transcript, and those of two runs on the same task instance, side by side.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from itertools import zip_longest
from typing import Any

from agenteval.errors import UsageError
from agenteval.report.details import detail_tables
from agenteval.report.html import templates_of
from agenteval.report.tables import MARK, comparison_table
from agenteval.report.transcripts import AgentShown, CallShown, TrialShown, TurnShown, shown_trial
from agenteval.report.view import View
from agenteval.stats.rates import Estimand, Layout, Rate, clustered
from agenteval.store.location import Query, decoded
from agenteval.store.read import WHOLE, Part, load_trial, without_trials
from agenteval.store.search import Review, Spot, reviews
from agenteval.store.summaries import Heading, begun_since, headings, listed, listed_trials
from agenteval.trial.call import Outcome, Verdict
from agenteval.trial.trial import AgentPart, CallRecord, ErrorCounts, Trial
from agenteval.viewer.calls import Visit, call_page, calls_found, known_run, reviews_page, spot
from agenteval.workflows.runs import errors_of, reached

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
    from agenteval.workflows import views  # noqa: PLC0415 -- start-up: few need it

    del stands
    found = views.models_of(runs, store, calls=False)
    return views.compared(found, "full", about, across_arms=across)


def comparison(visit: Visit) -> Mapping[str, Any]:
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


CALLS_WHOLE = 1000  # a trial of more is shown in parts
TURNS_SHOWN = 100  # of such a trial
_TRIAL = """SELECT id, outcome, (SELECT count(*) FROM "call" WHERE trial_id = trial.id),
    (SELECT max(number) FROM turn WHERE trial_id = trial.id AND agent = '')
    FROM trial WHERE run_id = :run AND scenario = :scenario AND number = :number AND NOT replaced"""
_CALLS = """SELECT agent, turn, position, id FROM "call"
    WHERE trial_id = :trial AND turn >= :first AND turn < :end ORDER BY id LIMIT :most"""


@dataclass(frozen=True, slots=True)
class _CallInPage:
    """A call in a transcript; `otherwise` is the verdict of another allow list, if requested."""

    shown: CallShown
    spot: str
    id: int | None
    review: Review | None
    otherwise: Verdict | None
    agents: "tuple[_AgentInPage, ...]"


@dataclass(frozen=True, slots=True)
class _TurnInPage:
    """A turn in a transcript; `left` counts its calls beyond the limit of a page."""

    number: int
    shown: TurnShown
    calls: tuple[_CallInPage, ...]
    left: int


@dataclass(frozen=True, slots=True)
class _AgentInPage:
    shown: AgentShown
    turns: tuple[_TurnInPage, ...]
    agents: "tuple[_AgentInPage, ...]"


@dataclass(frozen=True, slots=True)
class _TrialInPage:
    """A trial, or of a long one the turns from the `first` on.

    `all_turns` and `all_calls` are those of the whole trial.
    """

    shown: TrialShown
    turns: tuple[_TurnInPage, ...]
    agents: tuple[_AgentInPage, ...]
    first: int
    all_turns: int
    all_calls: int
    ended: bool

    @property
    def part(self) -> bool:
        return self.all_calls > CALLS_WHOLE


@dataclass(frozen=True, slots=True)
class _CallContext:
    """The store ids, reviews and other verdicts of the calls of a trial."""

    ids: Mapping[Spot, int]
    reviews: Mapping[int, Review]
    otherwise: Mapping[Spot, Verdict]
    first: int = 0

    def turns(
        self, turns_shown: Sequence[TurnShown], acted: Trial | AgentPart, label: str
    ) -> tuple[_TurnInPage, ...]:
        calls_by_turn: dict[int, list[CallRecord]] = {}
        for record in acted.calls:
            calls_by_turn.setdefault(record.turn, []).append(record)
        return tuple(
            _TurnInPage(
                self.first + at + 1,
                one,
                tuple(
                    self._call(call, label, record)
                    for call, record in zip(one.calls, calls_by_turn.get(at, ()), strict=True)
                ),
                len(turn.calls) - len(calls_by_turn.get(at, ())),
            )
            for at, (one, turn) in enumerate(zip(turns_shown, acted.turns, strict=True))
        )

    def agents(self, agents_shown: Sequence[AgentShown]) -> tuple[_AgentInPage, ...]:
        return tuple(
            _AgentInPage(
                one, self.turns(one.turns, one.part, one.part.label), self.agents(one.agents)
            )
            for one in agents_shown
        )

    def _call(self, call_shown: CallShown, label: str, record: CallRecord) -> _CallInPage:
        place = (label, self.first + record.turn, record.position)
        number = self.ids.get(place)
        review = self.reviews.get(number) if number else None
        other = self.otherwise.get(place)
        return _CallInPage(
            call_shown, spot(*place), number, review, other, self.agents(call_shown.agents)
        )


def transcript(visit: Visit) -> Mapping[str, Any]:
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
        "beside": _met_by_others(visit.query, run, trial_part.shown.trial),
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
    context = _CallContext(
        {(agent, turn, at): call for agent, turn, at, call in call_ids},
        {one.call: one for one in reviews(visit.query, run=run)},
        _otherwise(visit, run, trial) if not part else {},
        first,
    )
    trial_shown = shown_trial(trial)
    acted = context.turns(trial_shown.turns, trial, ""), context.agents(trial_shown.agents)
    return _TrialInPage(
        trial_shown, *acted, first, 0 if turns is None else turns + 1, calls, bool(outcome)
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


def side_by_side(visit: Visit) -> Mapping[str, Any]:
    """Return the turns of both in rows, with the first call in which they differ."""
    runs = [known_run(visit.query, visit.needed(name)) for name in ("a", "b")]
    scenario, number = visit.needed("scenario"), visit.number("number") or 1
    both = [_loaded(visit, run, scenario, number) for run in runs]
    first, second = (seen.shown.trial for seen in both)
    differs = _first_difference(first, second)
    return {
        "title": f"{scenario} #{number}, side by side",
        "scenario": scenario,
        "number": number,
        "sides": list(zip(runs, both, strict=True)),
        "rows": list(zip_longest(*(seen.turns for seen in both))),
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
    for first_call, second_call in zip_longest(first.calls, second.calls):
        if (
            first_call is None
            or second_call is None
            or _request(first_call) != _request(second_call)
        ):
            return first_call, second_call
    return None


def _request(record: CallRecord) -> tuple[str, Any]:
    call = record.call
    return call.name, call.raw if call.arguments is None else call.arguments


Shown = Mapping[str, Any]
FIRST = ""  # the name of the page that a visit begins with
PAGES: Mapping[str, tuple[str, Callable[[Visit], Shown]]] = {
    FIRST: ("runs.html", runs_page),
    "run": ("run.html", run_page),
    "trials": ("trials.html", trials_page),
    "calls": ("calls.html", calls_found),
    "call": ("call.html", call_page),
    "trial": ("trial.html", transcript),
    "side": ("side.html", side_by_side),
    "compare": ("compare.html", comparison),
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
    template, shows = PAGES[name]
    return written(template, visit, name=name, **shows(visit))


def asset(name: str) -> bytes:
    package, folder, _ = ASSETS[name]
    return files(package).joinpath(folder, name).read_bytes()


def complaint(visit: Visit, said: str) -> str:
    """Return the page that reports why there is no page."""
    return written("complaint.html", visit, name="", said=said)


def written(template: str, visit: Visit, **shown: Any) -> str:
    templates = templates_of("agenteval.viewer", "agenteval.report")
    return templates.get_template(template).render(visit=visit, mark=MARK, **shown)
