"""A transcript, and those of two runs in the same world, side by side."""

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
class CallSeen:
    """A call as a transcript has it; `otherwise` is what another allow list says, if asked."""

    shown: CallShown
    spot: str
    id: int | None
    review: Review | None
    otherwise: Verdict | None
    agents: "tuple[AgentSeen, ...]"


@dataclass(frozen=True, slots=True)
class TurnSeen:
    """`left` counts the calls of it that there is no room for."""

    number: int
    shown: TurnShown
    calls: tuple[CallSeen, ...]
    left: int


@dataclass(frozen=True, slots=True)
class AgentSeen:
    shown: AgentShown
    turns: tuple[TurnSeen, ...]
    agents: "tuple[AgentSeen, ...]"


@dataclass(frozen=True, slots=True)
class TrialSeen:
    """A trial of so many turns and calls, or of a long one the turns from the `first` on."""

    shown: TrialShown
    turns: tuple[TurnSeen, ...]
    agents: tuple[AgentSeen, ...]
    first: int
    all_turns: int
    all_calls: int
    ended: bool

    @property
    def part(self) -> bool:
        return self.all_calls > CALLS_WHOLE


@dataclass(frozen=True, slots=True)
class _Beside:
    """What is known of calls beside what the trial has."""

    ids: Mapping[Spot, int]
    reviews: Mapping[int, Review]
    otherwise: Mapping[Spot, Verdict]
    first: int = 0

    def turns(
        self, shown: Sequence[TurnShown], acted: Trial | AgentPart, label: str
    ) -> tuple[TurnSeen, ...]:
        made: dict[int, list[CallRecord]] = {}
        for record in acted.calls:
            made.setdefault(record.turn, []).append(record)
        return tuple(
            TurnSeen(
                self.first + at + 1,
                one,
                tuple(
                    self._call(call, label, record)
                    for call, record in zip(one.calls, made.get(at, ()), strict=True)
                ),
                len(turn.calls) - len(made.get(at, ())),
            )
            for at, (one, turn) in enumerate(zip(shown, acted.turns, strict=True))
        )

    def agents(self, shown: Sequence[AgentShown]) -> tuple[AgentSeen, ...]:
        return tuple(
            AgentSeen(one, self.turns(one.turns, one.part, one.part.label), self.agents(one.agents))
            for one in shown
        )

    def _call(self, shown: CallShown, label: str, record: CallRecord) -> CallSeen:
        place = (label, self.first + record.turn, record.position)
        number = self.ids.get(place)
        review = self.reviews.get(number) if number else None
        other = self.otherwise.get(place)
        return CallSeen(shown, spot(*place), number, review, other, self.agents(shown.agents))


def transcript(visit: Visit) -> Mapping[str, Any]:
    run = known_run(visit.query, visit.needed("run"))
    scenario, number = visit.needed("scenario"), visit.number("number") or 1
    seen = _seen(visit, run, scenario, number)
    return {
        "title": f"{scenario} #{number}",
        "run": run,
        "place": {"run": run, "scenario": scenario, "number": number},
        "seen": seen,
        "policies": workflows.rescore.policy_names(),
        "beside": _met_by_others(visit.query, run, seen.shown.trial),
        "size": TURNS_SHOWN,
    }


def _seen(visit: Visit, run: str, scenario: str, number: int) -> TrialSeen:
    """Raises UsageError where the run has no such trial."""
    place = {"run": run, "scenario": scenario, "number": number}
    rows = visit.query(_TRIAL, **place)
    if not rows:
        raise UsageError(f"{run} has no trial {number} of {scenario[:200]}")
    trial_id, outcome, calls, turns = rows[0]
    part = calls > CALLS_WHOLE
    begin = visit.number("from") or visit.number("turn") or 0
    first = min(begin, turns or 0) if part else 0
    wanted = Part(first, first + TURNS_SHOWN, CALLS_WHOLE) if part else WHOLE
    made = visit.query(_CALLS, trial=trial_id, **wanted._asdict())
    trial = load_trial(visit.query, run, scenario, number, wanted)
    if trial is None:  # it has been replaced since
        raise UsageError(f"{run} has no trial {number} of {scenario[:200]}")
    if part:  # of sub-agents it is not known which of these turns asked for them
        moved = tuple(replace(one, turn=one.turn - first) for one in trial.calls)
        trial = replace(trial, calls=moved, agents=())
    beside = _Beside(
        {(agent, turn, at): call for agent, turn, at, call in made},
        {one.call: one for one in reviews(visit.query, run=run)},
        _otherwise(visit, run, trial) if not part else {},
        first,
    )
    shown = shown_trial(trial)
    seen = beside.turns(shown.turns, trial, ""), beside.agents(shown.agents)
    return TrialSeen(shown, *seen, first, 0 if turns is None else turns + 1, calls, bool(outcome))


def _otherwise(visit: Visit, run: str, trial: Trial) -> Mapping[Spot, Verdict]:
    if not (allowlist := visit.get("allowlist")):
        return {}
    return workflows.rescore.otherwise(without_trials(visit.query, run), trial, allowlist)


def _met_by_others(query: Query, run: str, trial: Trial) -> Sequence[tuple[str, str]]:
    """The other runs that met the same world, each with how it ended there."""
    asked = """SELECT run_id, outcome FROM trial WHERE scenario = :scenario AND number = :number
        AND seed = :seed AND run_id != :run AND NOT replaced ORDER BY id DESC LIMIT 20"""
    place = {"scenario": trial.scenario, "number": trial.number, "seed": trial.seed}
    return [(other, outcome) for other, outcome in query(asked, run=run, **place)]


def side_by_side(visit: Visit) -> Mapping[str, Any]:
    """The turns of both in rows, with the first call in which they differ."""
    runs = [known_run(visit.query, visit.needed(name)) for name in ("a", "b")]
    scenario, number = visit.needed("scenario"), visit.number("number") or 1
    both = [_seen(visit, run, scenario, number) for run in runs]
    one, other = (seen.shown.trial for seen in both)
    differs = first_difference(one, other)
    return {
        "title": f"{scenario} #{number}, side by side",
        "scenario": scenario,
        "number": number,
        "sides": list(zip(runs, both, strict=True)),
        "rows": list(zip_longest(*(seen.turns for seen in both))),
        "marks": [spot("", at.turn, at.position) if at else "" for at in differs or ()],
        "alike": differs is None,
        "same_world": one.seed == other.seed,
    }


def first_difference(
    one: Trial, other: Trial
) -> tuple[CallRecord | None, CallRecord | None] | None:
    """The first calls that are not alike; None of a side that made no more. None: all are alike."""
    for ours, theirs in zip_longest(one.calls, other.calls):
        if ours is None or theirs is None or _asked(ours) != _asked(theirs):
            return ours, theirs
    return None


def _asked(record: CallRecord) -> tuple[str, Any]:
    call = record.call
    return call.name, call.raw if call.arguments is None else call.arguments
