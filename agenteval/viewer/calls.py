"""A visit to a page, and the pages of calls: found by a search, one in full, and their reviews.

An address has all the state of its page, so that every page can be linked and written as a file.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, get_args
from urllib.parse import urlencode

from agenteval import workflows
from agenteval.classes.catalogue import failure_classes
from agenteval.errors import UsageError
from agenteval.stats.rates import Layout, Rate, clustered
from agenteval.store.location import Query, decoded
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
from agenteval.trial.trial import Trial

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
        if not is_number(text):
            raise UsageError(f"{name}={text[:40]}: must be a whole number")
        return int(text)

    def needed(self, name: str) -> str:
        """Return a value of the state. Raises UsageError if the address lacks it."""
        if not (value := self.get(name)):
            raise UsageError(f"the address of this page lacks {name}=")
        return value


def is_number(text: str) -> bool:
    """Return True for a whole number that every database can hold."""
    return text.isascii() and text.isdecimal() and len(text) < 16


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


# The pages of calls.

_WHOLE = 200_000  # characters of one text on the page of a call
_LINE = 300  # of a call in a list
_GROUPS = get_args(Group)
_GROUPS_IN_STATE = {"class": "failure_class"}  # other groups have their own name in an address
_CALL = """SELECT trial.run_id, trial.scenario, trial.number, one.agent, one.turn, one.position,
    one.policy, one.taxonomy, one.findings, one.name, one.raw, one.reply, one.output, one.objection
    FROM "call" AS one JOIN trial ON trial.id = one.trial_id WHERE one.id = :call"""


def calls_found(visit: Visit) -> Mapping[str, Any]:
    criteria = _criteria_of(visit)
    by: Group = next((group for group in _GROUPS if group == visit.get("by")), "class")
    after, before = _key(visit.get("after")), _key(visit.get("before"))
    page = calls_page(
        visit.query,
        criteria,
        after=after or START,
        before=before,
    )
    return {
        "title": _described(criteria),
        "wanted": criteria,
        "page": page,
        # The command of a call, or its arguments as written, cut to a line.
        "lines": {call.key: shortened(call.command_text, _LINE) for call in page.calls},
        "otherwise": _verdicts_under(visit, page.calls),
        "policies": workflows.rescore.policy_names(),
        "by": by,
        "filter": _GROUPS_IN_STATE.get(by, by),
        "groups": _GROUPS,
        "counts": [] if criteria.text else _counts(visit.query, criteria, by),
        "classes": [failure_class.id for failure_class in failure_classes()],
        "span": SPAN,
    }


def _counts(
    query: Query,
    criteria: Wanted,
    by: Group,
) -> list[tuple[str, int]]:
    """Return the counts by group; by class only of denied calls, which an index counts."""
    if by == "class" and criteria.denied is None and not criteria.failure_class:
        criteria = replace(criteria, denied=True)
    return grouped(query, criteria, by)


_FIRST_AGENT = "-"  # in an address: the trial's first agent, whose label is empty


def _criteria_of(visit: Visit) -> Wanted:
    names = ("run", "failure_class", "scenario", "outcome", "tool", "text")
    agent = visit.get("agent")
    return Wanted(
        **{name: visit.get(name) for name in names},
        number=visit.number("number"),
        agent={"": None, _FIRST_AGENT: ""}.get(agent, agent),
        denied={"1": True, "0": False}.get(visit.get("denied")),
        counted=bool(visit.get("counted")),
    )


def _described(criteria: Wanted) -> str:
    """Return the description of a search in words."""
    verdict = {True: "denied", False: "allowed", None: ""}[criteria.denied]
    agent = criteria.agent
    clauses = (
        ("in {}", criteria.scenario),
        ("#{}", "" if criteria.number is None else criteria.number),
        ("of {} trials", criteria.outcome),
        ("by {}", "" if agent is None else agent or "the first agent"),
        ("of {}", criteria.tool),
        ("with {!r}", criteria.text),
        ("of {}", criteria.run),
    )
    parts = [verdict, criteria.failure_class, "calls"]
    parts += [clause.format(value) for clause, value in clauses if value != ""]
    line = shortened(" ".join(filter(None, parts)), _LINE)
    return line[0].upper() + line[1:]


def _key(text: str) -> Key | None:
    if not text:
        return None
    trial, _, call = text.partition(".")
    if not (is_number(trial) and is_number(call)):
        raise UsageError(f"{text[:40]}: no place among the calls")
    return int(trial), int(call)


def _verdicts_under(visit: Visit, calls: Sequence[FoundCall]) -> Mapping[Key, Verdict]:
    """Return the verdicts on these calls of the allow list that the address names, by their keys.

    A trial is judged as a whole: its files change what is allowed.
    """
    trials: dict[tuple[str, str, int], Mapping[Spot, Verdict]] = {}
    verdicts = {}
    for call in calls if visit.get("allowlist") else ():
        place = (call.run, call.scenario, call.number)
        if place not in trials:
            trial = load_trial(visit.query, *place)
            # It may have been replaced since.
            trials[place] = otherwise(visit, call.run, trial) if trial else {}
        verdict = trials[place].get((call.agent, call.turn, call.position))
        if verdict:
            verdicts[call.key] = verdict
    return verdicts


def otherwise(
    visit: Visit,
    run: str,
    trial: Trial,
) -> Mapping[Spot, Verdict]:
    """Return the verdicts of the allow list that the address names; none if it names none."""
    allowlist = visit.get("allowlist")
    if not allowlist:
        return {}
    return workflows.rescore.otherwise(
        without_trials(visit.query, run),
        trial,
        allowlist,
    )


def call_page(visit: Visit) -> Mapping[str, Any]:
    call = visit.number("id") or 0
    rows = visit.query(_CALL, call=call)
    if not rows:
        raise UsageError(f"no call {call} in this store")
    run, scenario, number, agent, turn, position, policy, taxonomy, findings, *columns = rows[0]
    name, raw, reply, output, objection = [from_column(column or "") for column in columns]
    texts = {
        "arguments, as written": raw,
        "what the model read": reply,
        "output": output if output != reply else "",
        "what the second reader said": objection,
    }
    return {
        "title": f"Call {turn + 1}.{position + 1} of {scenario} #{number}",
        "call": call,
        "place": {"run": run, "scenario": scenario, "number": number},
        "spot": (agent, turn, position, spot(agent, turn, position)),
        "tool": name,
        "texts": {title: text[:_WHOLE] for title, text in texts.items() if text},
        "cut": {title: max(0, len(text) - _WHOLE) for title, text in texts.items()},
        "judged": [(finding["failure_class"], finding["hint"]) for finding in decoded(findings)],
        "review": next(iter(reviews(visit.query, call=call)), None),
        "labels": (ALLOWED, *(failure_class.id for failure_class in failure_classes())),
        "by": (policy, taxonomy),
    }


def reviews_page(visit: Visit) -> Mapping[str, Any]:
    run = visit.get("run")
    all_reviews = reviews(visit.query, run=run)
    labelled = [review for review in all_reviews if review.label]
    moved = Counter((review.judged, review.label) for review in labelled if not review.agrees)
    return {
        "title": f"Reviews of {run}" if run else "Reviews",
        "reviews": all_reviews,
        "agreement": _agreement(labelled),
        "moved": moved.most_common(),
    }


def _agreement(labelled: Sequence[Review]) -> Rate:
    """Return the share of reviewers' labels that agree with the classifier's.

    It is clustered by trial, as calls of one trial are correlated.
    """
    agreements: dict[tuple[int, str], list[bool]] = defaultdict(list)
    for review in labelled:
        agreements[review.trial, review.scenario].append(review.agrees)
    clusters = []
    scenarios = []
    for (_, scenario), agreed in agreements.items():
        clusters.append((sum(agreed), len(agreed)))
        scenarios.append(scenario)
    return clustered(clusters, Layout(scenarios=scenarios))
