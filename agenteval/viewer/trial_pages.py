"""A transcript, and those of two runs on the same task instance, side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from agenteval import workflows
from agenteval.core.call import Verdict
from agenteval.core.trial import AgentPart, CallRecord, Trial
from agenteval.errors import UsageError
from agenteval.report.transcripts import (
    AgentShown,
    CallShown,
    TrialShown,
    TurnShown,
    shown_trial,
)
from agenteval.store.call_search import Spot
from agenteval.store.loading import WHOLE, Part, load_trial, without_trials
from agenteval.store.reviews import Review, reviews
from agenteval.store.summaries import Query
from agenteval.viewer.addresses import Visit, known_run, spot

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
    return {
        "title": f"{scenario} #{number}",
        "run": run,
        "place": {"run": run, "scenario": scenario, "number": number},
        "seen": trial_part,
        "policies": workflows.rescore.policy_names(),
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
    return workflows.rescore.otherwise(without_trials(visit.query, run), trial, allowlist)


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
