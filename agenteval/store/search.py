"""Calls of stored runs, searched, reviewed and counted by plain SQL: no transcript is read.

`calls_page` finds calls by class, scenario, outcome, agent or text, a page at a time; `grouped`
counts them. `reviews` are what people said of calls: a label that corrects the classifier's, and a
note. `tallied` has the sums of a run's turns and calls; `garbled` and `rejudged` have what those
hide: calls that were spoilt, or judged again.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from agenteval.errors import HostError
from agenteval.store.location import Connection, Query, decoded
from agenteval.store.read import malformed_value
from agenteval.store.tables import insert_row
from agenteval.store.texts import MARK, from_column, to_column
from agenteval.trial.call import MalformedCall, Outcome
from agenteval.trial.run import Rejudged
from agenteval.trial.tally import Request, Tallies, Tally, as_served

SIZE = 50  # calls a page
EXCERPT = 2000  # characters of a call's arguments; the store keeps the whole
SPAN = 50_000  # calls that one page of a search for text looks through
Key = tuple[int, int]  # trial and call, by the store's numbers
START: Key = (0, 0)
Spot = tuple[str, int, int]  # a call within its trial: its agent's label, turn and position
Group = Literal["class", "scenario", "outcome", "agent", "tool"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The filters of a search for calls: all must hold. `run` is a whole id; "" stands for any.

    `text` is looked for in the tool's name and in the arguments as written, whatever the case.
    `agent` is the label of a sub-agent, or its name for all of that name; "" is a trial's first
    agent, None any. `counted` are the calls that rates are made of: the first agent's, in trials
    that ended and are not void.
    """

    run: str = ""
    failure_class: str = ""
    scenario: str = ""
    number: int | None = None
    outcome: str = ""
    agent: str | None = None
    tool: str = ""
    text: str = ""
    denied: bool | None = None
    counted: bool = False


@dataclass(frozen=True, slots=True)
class FoundCall:
    """A call as a list has it: `arguments` is the beginning of the text, of `length` characters."""

    key: Key
    run: str
    model: str
    scenario: str
    number: int
    outcome: str  # of its trial; empty while that runs
    agent: str
    turn: int
    position: int
    tool: str
    arguments: str
    length: int
    failure_class: str
    allowed: bool
    exit_code: int | None

    @property
    def command_text(self) -> str:
        """The command, where its whole text is at hand; else the arguments as written."""
        try:
            given = json.loads(self.arguments)
        except (ValueError, RecursionError):
            return self.arguments
        command = given.get("command") if isinstance(given, dict) else None
        return command if isinstance(command, str) else self.arguments


@dataclass(frozen=True, slots=True)
class _CallPage:
    """`earlier` is what the page before it ends at, `later` what the next begins at; None: no more.

    A search for text looks through SPAN calls a page: where there are more it is `partial`.
    """

    calls: Sequence[FoundCall]
    earlier: Key | None
    later: Key | None
    partial: bool = False


# Pages are key-set pages in the order of trials, and of calls within a trial: each streams from two
# indexes, wherever it begins. SQLite takes the tables of a CROSS JOIN in the order in which they
# stand.
_FROM = """FROM trial CROSS JOIN "call" AS one
    WHERE one.trial_id = trial.id AND NOT trial.replaced"""
# Not by the bare id: SQLite would take the index of classes for its order, and read a whole class
# once for each trial.
_ORDER = "ORDER BY trial.id {0}, one.id + 0 {0}"
_COLUMNS = f"""trial.id, one.id, trial.run_id, run.model, trial.scenario, trial.number,
    trial.outcome, one.agent, one.turn, one.position, substr(one.name, 1, {EXCERPT}),
    substr(one.raw, 1, {EXCERPT}), length(one.raw), one.failure_class, one.allowed, one.exit_code"""
_WITH_RUN = """FROM "call" AS one JOIN trial ON trial.id = one.trial_id
    JOIN run ON run.id = trial.run_id"""
_DENIED = """SELECT failure_class, count(*) FROM "call" WHERE failure_class != '' GROUP BY 1"""
_DENIED_AWAY = """SELECT one.failure_class, count(*) FROM trial CROSS JOIN "call" AS one
    WHERE one.trial_id = trial.id AND trial.replaced AND one.failure_class != '' GROUP BY 1"""
_EXACT = {
    "run": "trial.run_id",
    "failure_class": "one.failure_class",
    "scenario": "trial.scenario",
    "number": "trial.number",
    "outcome": "trial.outcome",
}
_COUNTED = "trial.outcome NOT IN ('', 'void') AND one.agent = ''"
_GROUPS: Mapping[Group, str] = {
    "class": "one.failure_class",
    "scenario": "trial.scenario",
    "outcome": "trial.outcome",
    "agent": "one.agent",
    "tool": "one.name",
}


def calls_page(
    query: Query,
    filters: Wanted,
    *,
    after: Key = START,
    before: Key | None = None,
    size: int = SIZE,
) -> _CallPage:
    """The first calls behind `after`, or the last ones before `before`."""
    where, named = _conditions(filters)
    begin, order = ("<", "DESC") if before else (">", "ASC")
    key = before or after
    where = f"{where} AND {_beyond(begin, 'from', key, named)}"
    end = None
    if filters.text:
        last = f"{where} {_ORDER.format(order)} LIMIT 2 OFFSET {SPAN - 1}"
        # The last place that this page looks at, if calls remain after it.
        beyond = _keys(query, last, named)
        end = beyond[0] if len(beyond) > 1 else None
        if end:
            where = f"{where} AND {_beyond('>=' if before else '<=', 'to', end, named)}"
        where = f"{where} AND ({_texts(filters.text, named)})"
    # One more than the page has tells whether another page follows.
    keys = _keys(query, f"{where} {_ORDER.format(order)} LIMIT {size + 1}", named)
    ahead = keys[size - 1] if len(keys) > size else end
    calls = _load_calls(query, [call for _, call in keys[:size]])
    is_partial = end is not None
    if before:
        later = calls[0].key if calls else key
        return _CallPage(calls[::-1], ahead, later, partial=is_partial)
    earlier = None
    if after != START:
        earlier = calls[0].key if calls else after
    return _CallPage(calls, earlier, ahead, partial=is_partial)


def grouped(query: Query, filters: Wanted, by: Group) -> list[tuple[str, int]]:
    """Return the number of calls of each group, the largest first."""
    if by == "class" and filters == Wanted(denied=True):
        return _by_class(query)
    where, named = _conditions(filters)
    if filters.text:
        where = f"{where} AND ({_texts(filters.text, named)})"
    asked = f"SELECT {_GROUPS[by]}, count(*) {_FROM}{where} GROUP BY 1 ORDER BY 2 DESC, 1"
    return [(from_column(value), int(count)) for value, count in query(asked, **named)]


def _by_class(query: Query) -> list[tuple[str, int]]:
    """All denied calls, counted by the index of classes alone, but those of replaced trials."""
    counts = Counter({name: count for name, count in query(_DENIED)})  # noqa: C416 -- rows are no pairs
    counts.subtract({name: count for name, count in query(_DENIED_AWAY)})  # noqa: C416 -- likewise
    return sorted((+counts).items(), key=lambda group: (-group[1], group[0]))


def _conditions(filters: Wanted) -> tuple[str, dict[str, Any]]:
    """Return all conditions but the text's, as SQL behind `_FROM`, and their parameters."""
    named: dict[str, Any] = {}
    where = []
    for name, column in _EXACT.items():
        value = getattr(filters, name)
        if value not in {"", None}:
            where.append(f"{column} = :{name}")
            named[name] = value
    if filters.tool:
        where.append("one.name = :tool")
        named["tool"] = to_column(filters.tool)
    if filters.agent is not None:
        where.append("(one.agent = :agent OR one.agent LIKE :numbered ESCAPE '!')")
        numbered = f"{_escaped(filters.agent)}/%" if filters.agent else ""
        named |= {"agent": filters.agent, "numbered": numbered}
    if filters.denied is not None:
        where.append(f"one.failure_class {'!=' if filters.denied else '='} ''")
    if filters.counted:
        where.append(_COUNTED)
    return "".join(f" AND {one}" for one in where), named


def _beyond(
    sign: str,
    name: str,
    key: Key,
    named: dict[str, Any],
) -> str:
    """Return the condition for rows on one side of the key; an index serves its second half."""
    named |= {f"{name}_trial": key[0], f"{name}_call": key[1]}
    bound = f"trial.id {sign.rstrip('=')}= :{name}_trial"
    return f"(trial.id, one.id) {sign} (:{name}_trial, :{name}_call) AND {bound}"


def _keys(query: Query, where: str, named: dict[str, Any]) -> list[Key]:
    rows = query(f"SELECT trial.id, one.id {_FROM}{where}", **named)
    return [(trial, call) for trial, call in rows]


def _texts(text: str, named: dict[str, Any]) -> str:
    """The text as it stands in a name, or in JSON, where it may be written in two ways."""
    in_json = json.dumps(text, ensure_ascii=False)
    in_ascii = json.dumps(text)
    forms = {text, in_json[1:-1], in_ascii[1:-1]}
    writable = sorted(form for form in forms if to_column(form) == form)
    named |= {f"text{at}": f"%{_escaped(form)}%" for at, form in enumerate(writable)}
    return " OR ".join(
        f"lower({column}) LIKE lower(:text{at}) ESCAPE '!'"
        for at in range(len(writable))
        for column in ("one.name", "one.raw")
    )


def _escaped(text: str) -> str:
    return "".join(f"!{one}" if one in "!%_" else one for one in text)


def _load_calls(query: Query, calls: Sequence[int]) -> tuple[FoundCall, ...]:
    """These calls, in this order."""
    if not calls:
        return ()
    asked = f"SELECT {_COLUMNS} {_WITH_RUN} WHERE one.id IN ({', '.join(map(str, calls))})"
    found = {row[1]: _found_call(*row) for row in query(asked)}
    return tuple(found[call] for call in calls if call in found)


def _found_call(trial: int, call: int, *row: Any) -> FoundCall:
    *place, name, raw, length, failure_class, allowed, exit_code = row
    texts = (_beginning(name), _beginning(raw))
    values: list[Any] = [*place, *texts, length, failure_class, bool(allowed), exit_code]
    return FoundCall((trial, call), *values)


def _beginning(stored: str) -> str:
    """A text that may have been cut, and then is no JSON any more."""
    try:
        return from_column(stored)
    except HostError:
        return stored.removeprefix(MARK)


# Reviews.

ALLOWED = "allowed"
_TRIAL = 'SELECT trial_id FROM "call" WHERE id = :call'
_FORGET = "DELETE FROM review WHERE call_id = :call"


def save_review(
    connection: Connection,
    call_id: int,
    label: str,
    note: str,
    at: str,
) -> bool:
    """Replace the review of the call; delete it if label and note are empty.

    Returns False if there is no such call.
    """
    with connection.together():
        trials = connection.ask(_TRIAL, call=call_id)
        connection.ask(_FORGET, call=call_id)
        if trials and (label or note):
            values = {"trial_id": trials[0][0], "call_id": call_id}
            insert_row(
                connection,
                "review",
                values | {"label": label, "note": note, "at": at},
            )
    return bool(trials)


@dataclass(frozen=True, slots=True)
class Review:
    """A person's review of a call, with the failure class of the judgement in force (`judged`)."""

    call: int
    trial: int
    run: str
    model: str
    scenario: str
    number: int
    agent: str
    turn: int
    tool: str
    arguments: str
    judged: str  # a failure class, or "allowed"
    label: str
    note: str
    at: str

    @property
    def agrees(self) -> bool:
        return self.label == self.judged


_REVIEWS = """SELECT review.call_id, review.trial_id, trial.run_id, run.model, trial.scenario,
    trial.number, one.agent, one.turn, one.name, one.raw, one.failure_class, review.label,
    review.note, review.at FROM review JOIN "call" AS one ON one.id = review.call_id
    JOIN trial ON trial.id = review.trial_id JOIN run ON run.id = trial.run_id"""


def reviews(query: Query, *, run: str = "", call: int | None = None) -> list[Review]:
    """All, or those of a run's calls, or of one call; in the order of the calls."""
    values: dict[str, str | int] = {}
    condition = ""
    if run:
        condition = "WHERE trial.run_id = :run"
        values["run"] = run
    elif call is not None:
        condition = "WHERE review.call_id = :call"
        values["call"] = call
    asked = f"{_REVIEWS} {condition} ORDER BY review.trial_id, review.call_id"
    return [_review(*row) for row in query(asked, **values)]


def _review(*row: Any) -> Review:
    *place, tool, raw, judged, label, note, at = row
    texts = (from_column(tool), from_column(raw))
    values: list[Any] = [*place, *texts, judged or ALLOWED, label, from_column(note), at]
    return Review(*values)


# Sums, and what they hide.

Basis = tuple[str, Mapping[str, str]]  # taxonomy, and digests of allow lists by their names
DIGEST = 13  # characters: "sha256:" and six digits
TOGETHER = 500  # trials that are asked about at a time
Row = Sequence[Any]
Malformed = list[tuple[int, MalformedCall]]  # each with its turn
_TRIALS = """SELECT id, outcome FROM trial WHERE run_id = :run AND NOT replaced
    ORDER BY scenario, number"""
_CALLS = """SELECT trial_id, CASE WHEN own AND ran THEN "limit" ELSE '' END, count(*),
    sum(CASE WHEN own AND NOT allowed THEN 1 ELSE 0 END),
    sum(CASE WHEN own AND ran THEN 1 ELSE 0 END),
    sum(CASE WHEN own AND ran AND (exit_code IS NULL OR exit_code <> 0) THEN 1 ELSE 0 END),
    sum(CASE WHEN own AND objected THEN 1 ELSE 0 END),
    sum(CASE WHEN allowed AND ran THEN 1 ELSE 0 END)
    FROM (SELECT trial_id, "limit", exit_code, allowed, objection <> '' AS objected,
        agent = '' AS own, output IS NOT NULL AND seconds IS NOT NULL AS ran
        FROM "call" WHERE trial_id IN (%s)) AS made
    GROUP BY 1, 2"""
_TURNS = """SELECT trial_id, agent, number, garbles, repairs, calls, seconds, first_piece, pieces,
    gap_median, gap_p95, prompt_tokens, completion_tokens, reasoning_tokens, cached_tokens
    FROM turn WHERE trial_id IN (%s) ORDER BY id"""
_FIRST = """SELECT rescore.taxonomy_before, rescore.policies_before, run.taxonomy, run.policies
    FROM rescore JOIN run ON run.id = rescore.run_id WHERE run.id = :run ORDER BY rescore.id"""
_MOVED = """SELECT "call".allowed, count(*) FROM (SELECT min(judgement.id) AS id FROM judgement
        JOIN rescore ON rescore.id = judgement.rescore_id WHERE rescore.run_id = :run
        GROUP BY judgement.call_id) AS one
    JOIN judgement ON judgement.id = one.id JOIN "call" ON "call".id = judgement.call_id
    JOIN trial ON trial.id = "call".trial_id
    WHERE NOT trial.replaced AND "call".allowed <> judgement.allowed GROUP BY 1"""
# From the few turns to their trials: the other way, by an index on the run, all trials are read.
_GARBLED = """SELECT turn.trial_id, turn.number, turn.garbles FROM turn
    JOIN trial ON trial.id = turn.trial_id WHERE trial.run_id || '' = :run AND turn.agent = ''
    AND NOT trial.replaced AND trial.outcome NOT IN ('', 'void')
    AND CAST(turn.garbles AS TEXT) <> '[]' ORDER BY turn.trial_id, turn.number"""


def tallied(query: Query, run: str) -> Tallies | None:
    """Return the tallies of a run in the order of its summaries; None if it has no trial."""
    trials = [(int(trial), outcome) for trial, outcome in query(_TRIALS, run=run)]
    if not trials:
        return None
    tallies: list[Tally] = []
    served = as_served(_requests(query, trials, tallies))
    return Tallies(tuple(tallies), served)


def _requests(
    query: Query, trials: Sequence[tuple[int, str]], tallies: list[Tally]
) -> Iterator[Request]:
    """Yield the requests of trials that are not void; add the tally of each trial to `tallies`."""
    for start in range(0, len(trials), TOGETHER):
        batch = trials[start : start + TOGETHER]
        ids = ", ".join(str(trial) for trial, _ in batch)
        rows = query(_TURNS % ids)
        counts = _Counts()
        counts.add_turns(rows)
        counts.add_calls(query(_CALLS % ids))
        void = {trial for trial, outcome in batch if outcome in {"", Outcome.VOID}}
        for trial, _ in batch:
            tallies.append(counts.tally(trial, void=trial in void))
        yield from (Request(*row[6:]) for row in rows if row[0] not in void)


@dataclass(slots=True)
class _Counts:
    """The counts of some trials, by their row numbers; `numbers` by the fields of a Tally."""

    numbers: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    limits: dict[int, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    malformed: dict[int, Malformed] = field(default_factory=lambda: defaultdict(list))

    def add_turns(self, rows: Sequence[Row]) -> None:
        for trial, agent, number, garbles, repairs, calls, *_, completion, _, _ in rows:
            if agent:
                continue
            for stored in decoded(garbles):
                self.malformed[trial].append((number, malformed_value(stored)))
            self.numbers[trial].update(
                completion_tokens=completion,
                written=_length(calls),
                repairs=_length(repairs),
            )

    def add_calls(self, rows: Sequence[Row]) -> None:
        for trial, limit, count, denied, ran, failed, objections, useful in rows:
            if limit:
                self.limits[trial][limit] = int(count)
            self.numbers[trial].update(
                denied=int(denied),
                ran=int(ran),
                failed=0 if limit else int(failed),
                objections=int(objections),
                useful=int(useful),
            )

    def tally(self, trial: int, *, void: bool) -> Tally:
        return Tally(
            void,
            limits=self.limits[trial],
            malformed=tuple(self.malformed[trial]),
            **self.numbers[trial],
        )


def _length(column: Any) -> int:
    """Return the length of a JSON list, whose entries stay unread: SQLite gives its text."""
    if not isinstance(column, str):
        return len(column)
    try:
        return 0 if column == "[]" else len(msgspec.json.decode(column, type=list[msgspec.Raw]))
    except msgspec.DecodeError:  # NaN, which Python writes
        return len(decoded(column))


def garbled(query: Query, run: str) -> Sequence[Malformed]:
    """The calls that did not arrive as such, each with its turn, of the trials that have any."""
    trials: dict[int, Malformed] = {}
    for trial, turn, garbles in query(_GARBLED, run=run):
        of_trial = trials.setdefault(trial, [])
        of_trial += [(turn, malformed_value(stored)) for stored in decoded(garbles)]
    return [*trials.values()]


def rejudged(query: Query, run: str) -> Rejudged | None:
    """Return what judged the calls last; None if nothing but the first judgement did."""
    rows = query(_FIRST, run=run)
    if not rows:
        return None
    taxonomy, lists, taxonomy_now, lists_now = rows[0]
    first = taxonomy, decoded(lists)
    now = taxonomy_now, decoded(lists_now)
    if first == now:
        return None
    moved = {bool(allowed): int(calls) for allowed, calls in query(_MOVED, run=run)}
    return Rejudged(
        _basis_text(first, now),
        _basis_text(now, first),
        allowed=moved.get(True, 0),
        denied=moved.get(False, 0),
    )


def _basis_text(basis: Basis, other: Basis) -> str:
    """Its allow lists, and its taxonomy where that differs; a list's digest, where names do not."""
    taxonomy, lists = basis
    other_taxonomy, other_lists = other
    names = sorted(lists)
    if lists != other_lists and {*lists} == {*other_lists}:
        names = sorted(f"{name} ({digest[:DIGEST]})" for name, digest in lists.items())
    rules = ", ".join(names) or "its own rules"
    return rules if taxonomy == other_taxonomy else f"{rules}, taxonomy {taxonomy}"
