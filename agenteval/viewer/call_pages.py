"""The pages of a search for calls, of one whole call, and of the reviews of calls."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, get_args

from agenteval import workflows
from agenteval.core.call import Verdict
from agenteval.core.plain import shortened
from agenteval.errors import UsageError
from agenteval.stats.estimand import Layout
from agenteval.stats.rates import Rate, clustered
from agenteval.store.call_search import (
    SPAN,
    START,
    FoundCall,
    Group,
    Key,
    Spot,
    Wanted,
    calls_page,
    grouped,
)
from agenteval.store.kept_texts import from_column
from agenteval.store.loading import load_trial, without_trials
from agenteval.store.reviews import ALLOWED, Review, reviews
from agenteval.store.summaries import Query
from agenteval.taxonomy.catalogue import failure_classes
from agenteval.viewer.addresses import Visit, spot

WHOLE = 200_000  # characters of one text on the page of a call
LINE = 300  # of a call in a list
GROUPS = get_args(Group)
_STATE: Mapping[Group, str] = {
    "class": "failure_class",
    "scenario": "scenario",
    "outcome": "outcome",
    "agent": "agent",
    "tool": "tool",
}
_CALL = """SELECT trial.run_id, trial.scenario, trial.number, one.agent, one.turn, one.position
    FROM "call" AS one JOIN trial ON trial.id = one.trial_id WHERE one.id = :call"""
_TEXTS = 'SELECT name, raw, reply, output, objection, policy, taxonomy FROM "call" WHERE id = :call'


def calls_found(visit: Visit) -> Mapping[str, Any]:
    criteria = _criteria_of(visit)
    by: Group = next((one for one in GROUPS if one == visit.get("by")), "class")
    before = _key(visit.get("before"))
    page = calls_page(visit.query, criteria, after=_key(visit.get("after")) or START, before=before)
    other = visit.get("allowlist")
    counts = [] if criteria.text else _groups(visit.query, criteria, by)
    return {
        "title": _described(criteria),
        "wanted": criteria,
        "page": page,
        "lines": {one.key: _in_a_line(one) for one in page.calls},
        "otherwise": _verdicts_under(visit.query, page.calls, other) if other else {},
        "policies": workflows.rescore.policy_names(),
        "by": by,
        "filter": _STATE[by],
        "groups": GROUPS,
        "counts": counts,
        "classes": [one.id for one in failure_classes()],
        "span": SPAN,
        "spot": spot,
    }


def _groups(query: Query, criteria: Wanted, by: Group) -> list[tuple[str, int]]:
    """Return the counts by group; by class only of denied calls, which an index counts."""
    if by == "class" and criteria.denied is None and not criteria.failure_class:
        values = {one.name: getattr(criteria, one.name) for one in fields(criteria)}
        criteria = Wanted(**values | {"denied": True})
    return grouped(query, criteria, by)


def _criteria_of(visit: Visit) -> Wanted:
    denied = {"": None, "1": True, "0": False}.get(visit.get("denied"))
    agent = visit.get("agent")
    return Wanted(
        run=visit.get("run"),
        failure_class=visit.get("failure_class"),
        scenario=visit.get("scenario"),
        number=visit.number("number"),
        outcome=visit.get("outcome"),
        agent={"": None, FIRST_AGENT: ""}.get(agent, agent),
        tool=visit.get("tool"),
        text=visit.get("text"),
        denied=denied,
        counted=bool(visit.get("counted")),
    )


FIRST_AGENT = "-"  # in an address: the trial's first agent, whose label is empty


def _described(criteria: Wanted) -> str:
    """Return the description of a search in words."""
    parts = [
        "denied" if criteria.denied else "allowed" if criteria.denied is False else "",
        criteria.failure_class,
        "calls",
        f"in {criteria.scenario}" if criteria.scenario else "",
        f"#{criteria.number}" if criteria.number is not None else "",
        f"of {criteria.outcome} trials" if criteria.outcome else "",
        f"by {criteria.agent or 'the first agent'}" if criteria.agent is not None else "",
        f"of {criteria.tool}" if criteria.tool else "",
        f"with {criteria.text!r}" if criteria.text else "",
        f"of {criteria.run}" if criteria.run else "",
    ]
    line = shortened(" ".join(filter(None, parts)), LINE)
    return line[0].upper() + line[1:]


def _key(text: str) -> Key | None:
    trial, _, call = text.partition(".")
    if not text:
        return None
    if not all(part.isascii() and part.isdecimal() and len(part) < 16 for part in (trial, call)):
        raise UsageError(f"{text[:40]}: no place among the calls")
    return int(trial), int(call)


def _in_a_line(call: FoundCall) -> str:
    """Return the command of a call, or its arguments as written, cut to a line."""
    return shortened(call.command_text, LINE)


def _verdicts_under(
    query: Query, calls: Iterable[FoundCall], allowlist: str
) -> Mapping[Key, Verdict]:
    """Return the verdicts of another allow list on these calls, by their keys.

    A trial is judged as a whole: its files change what is allowed.
    """
    calls = list(calls)
    trials = {(one.run, one.scenario, one.number) for one in calls}
    verdicts = {place: _of_place(query, *place, allowlist) for place in sorted(trials)}
    return {
        one.key: verdict
        for one in calls
        if (
            verdict := verdicts[one.run, one.scenario, one.number].get(
                (one.agent, one.turn, one.position)
            )
        )
    }


def _of_place(
    query: Query, run: str, scenario: str, number: int, allowlist: str
) -> Mapping[Spot, Verdict]:
    trial = load_trial(query, run, scenario, number)
    if trial is None:
        return {}
    return workflows.rescore.otherwise(without_trials(query, run), trial, allowlist)


def call_page(visit: Visit) -> Mapping[str, Any]:
    call = visit.number("id") or 0
    rows = visit.query(_CALL, call=call)
    if not rows:
        raise UsageError(f"no call {call} in this store")
    run, scenario, number, agent, turn, position = rows[0]
    ((name, raw, reply, output, objection, policy, taxonomy),) = visit.query(_TEXTS, call=call)
    texts = {
        "arguments, as written": from_column(raw),
        "what the model read": from_column(reply),
        "output": from_column(output) if output and output != reply else "",
        "what the second reader said": from_column(objection),
    }
    place = {"run": run, "scenario": scenario, "number": number}
    return {
        "title": f"Call {turn + 1}.{position + 1} of {scenario} #{number}",
        "call": call,
        "place": place,
        "spot": (agent, turn, position, spot(agent, turn, position)),
        "tool": from_column(name),
        "texts": {title: text[:WHOLE] for title, text in texts.items() if text},
        "cut": {title: max(0, len(text) - WHOLE) for title, text in texts.items()},
        "judged": judged(visit.query, call),
        "review": next(iter(reviews(visit.query, call=call)), None),
        "labels": (ALLOWED, *(one.id for one in failure_classes())),
        "by": (policy, taxonomy),
    }


def judged(query: Query, call: int) -> Sequence[tuple[str, str]]:
    """Return the classes of a denied call with hints, the primary first; none if allowed."""
    (row,) = query('SELECT findings FROM "call" WHERE id = :call', call=call)
    findings = json.loads(row[0]) if isinstance(row[0], str) else row[0]
    return [(one["failure_class"], one["hint"]) for one in findings]


def reviews_page(visit: Visit) -> Mapping[str, Any]:
    all_reviews = reviews(visit.query, run=visit.get("run"))
    labelled = [one for one in all_reviews if one.label]
    moved = Counter((one.judged, one.label) for one in labelled if not one.agrees)
    return {
        "title": "Reviews" + (f" of {visit.get('run')}" if visit.get("run") else ""),
        "reviews": all_reviews,
        "agreement": agreement(all_reviews),
        "moved": moved.most_common(),
    }


def agreement(all_reviews: Sequence[Review]) -> Rate:
    """Return the share of reviewers' labels that agree with the classifier's.

    It is clustered by trial, as calls of one trial are correlated.
    """
    trials: dict[int, list[bool]] = {}
    for one in all_reviews:
        if one.label:
            trials.setdefault(one.trial, []).append(one.agrees)
    scenarios = {one.trial: one.scenario for one in all_reviews}
    return clustered(
        [(sum(agreed), len(agreed)) for agreed in trials.values()],
        Layout(scenarios=[scenarios[trial] for trial in trials]),
    )
