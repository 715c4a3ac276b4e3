"""The pages of a search for calls, of one whole call, and of the reviews of calls.

The addresses of pages, and requests for them: an address has all the state of its page.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, get_args
from urllib.parse import urlencode

from agenteval.classes.catalogue import failure_classes
from agenteval.errors import UsageError
from agenteval.stats.rates import Layout, Rate, clustered
from agenteval.store.location import Query
from agenteval.store.read import load_trial, without_trials
from agenteval.store.search import (
    ALLOWED,
    SPAN,
    START,
    FoundCall,
    Group,
    Key,
    Review,
    Spot,
    Wanted,
    calls_page,
    grouped,
    reviews,
)
from agenteval.store.texts import from_column
from agenteval.trial.call import Verdict
from agenteval.trial.text import legible, shortened

State = Mapping[str, str]


class Addresses(Protocol):
    """The scheme of links between pages. `static` pages are files: no forms, and not every page."""

    static: bool

    def page(self, name: str, state: State) -> str:
        """Return the address of a page; empty if there is none."""
        ...

    def asset(self, name: str) -> str: ...


class Served:
    """The addresses of a server: the page's name, and its state as the query."""

    static = False

    def page(self, name: str, state: State) -> str:
        return f"/{name}?{urlencode(state)}" if state else f"/{name}"

    def asset(self, name: str) -> str:
        return f"/static/{name}"


@dataclass(frozen=True, slots=True)
class Visit:
    """One request for a page. `key` must be sent by a form that writes; "" means none may write."""

    store: str
    query: Query
    addresses: Addresses
    state: State = field(default_factory=dict)
    key: str = ""

    def get(self, name: str) -> str:
        return self.state.get(name, "")

    def to(self, page: str, /, **state: Any) -> str:
        """Return the address of a page in this state, without empty values."""
        filled = {name: legible(str(value)) for name, value in state.items() if _is_filled(value)}
        return self.addresses.page(page, filled)

    def changed(self, page: str, /, **state: Any) -> str:
        """Return the address of a page in the state of this one, with these changes."""
        return self.to(page, **(dict(self.state) | state))

    def number(self, name: str) -> int | None:
        """Return a number of the state; None if it is empty. Raises UsageError if it is none."""
        if not (text := self.get(name)):
            return None
        if not (text.isascii() and text.isdecimal() and len(text) < 16):
            raise UsageError(f"{name}={text[:40]}: must be a whole number")
        return int(text)

    def needed(self, name: str) -> str:
        """Return a value of the state. Raises UsageError if the address lacks it."""
        if not (value := self.get(name)):
            raise UsageError(f"the address of this page lacks {name}=")
        return value


def _is_filled(value: Any) -> bool:
    return value is not None and value is not False and value != ""


def known_run(query: Query, run_id: str) -> str:
    """Return the id of a run. Raises UsageError if the store has no such run."""
    if not query("SELECT 1 FROM run WHERE id = :run", run=run_id):
        raise UsageError(f"no run {run_id[:200]!r} in this store")
    return run_id


def spot(agent: str, turn: int, position: int) -> str:
    """Return the anchor of a call in its transcript."""
    return f"{agent or 'call'}-{turn + 1}-{position + 1}".replace("/", "-")


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
    from agenteval.workflows import rescore  # noqa: PLC0415 -- start-up: few need it

    return {
        "title": _described(criteria),
        "wanted": criteria,
        "page": page,
        "lines": {one.key: _in_a_line(one) for one in page.calls},
        "otherwise": _verdicts_under(visit.query, page.calls, other) if other else {},
        "policies": rescore.policy_names(),
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
    from agenteval.workflows import rescore  # noqa: PLC0415 -- start-up: few need it

    return rescore.otherwise(without_trials(query, run), trial, allowlist)


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
