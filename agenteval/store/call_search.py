"""Calls of runs by class, scenario, outcome, agent or text: a page at a time, and how many of each.

Pages are key-set pages in the order of trials, and of calls within a trial: each streams from two
indexes, wherever it begins. Asked through `store.summaries`, without an ORM.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agenteval.errors import HostError
from agenteval.store.kept_texts import MARK, from_column, to_column
from agenteval.store.summaries import Query

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
class CallPage:
    """`earlier` is what the page before it ends at, `later` what the next begins at; None: no more.

    A search for text looks through SPAN calls a page: where there are more it is `partial`.
    """

    calls: Sequence[FoundCall]
    earlier: Key | None
    later: Key | None
    partial: bool = False


# SQLite takes the tables of a CROSS JOIN in the order in which they stand.
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
) -> CallPage:
    """The first calls behind `after`, or the last ones before `before`."""
    where, named = _conditions(filters)
    begin, order = ("<", "DESC") if before else (">", "ASC")
    key = before or after
    where = f"{where} AND {_beyond(begin, 'from', key, named)}"
    end = None
    if filters.text:
        end = _reach(query, where, named, order)
        if end:
            where = f"{where} AND {_beyond('>=' if before else '<=', 'to', end, named)}"
        where = f"{where} AND ({_texts(filters.text, named)})"
    keys = _keys(query, where, named, order, limit=size + 1)
    ahead = keys[size - 1] if len(keys) > size else end
    calls = _load_calls(query, [call for _, call in keys[:size]])
    if before:
        back = calls[::-1]
        return CallPage(back, ahead, back[-1].key if back else key, partial=end is not None)
    behind = None if after == START else calls[0].key if calls else after
    return CallPage(calls, behind, ahead, partial=end is not None)


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
    counts.subtract({name: count for name, count in query(_DENIED_AWAY)})  # noqa: C416 -- as above
    return sorted(((+counts).items()), key=lambda one: (-one[1], one[0]))


def _conditions(filters: Wanted) -> tuple[str, dict[str, Any]]:
    """Return all conditions but the text's, as SQL behind `_FROM`, and their parameters."""
    named: dict[str, Any] = {}
    where = []
    for name, column in _EXACT.items():
        if (value := getattr(filters, name)) not in {"", None}:
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


def _beyond(sign: str, name: str, key: Key, named: dict[str, Any]) -> str:
    """On that side of the key; the second half is what an index can begin at."""
    named |= {f"{name}_trial": key[0], f"{name}_call": key[1]}
    bound = f"trial.id {sign.rstrip('=')}= :{name}_trial"
    return f"(trial.id, one.id) {sign} (:{name}_trial, :{name}_call) AND {bound}"


def _keys(query: Query, where: str, named: dict[str, Any], order: str, limit: int) -> list[Key]:
    asked = f"SELECT trial.id, one.id {_FROM}{where} {_ORDER.format(order)}"
    return [(trial, call) for trial, call in query(f"{asked} LIMIT {limit}", **named)]


def _reach(query: Query, where: str, named: dict[str, Any], order: str) -> Key | None:
    """Return the last place of one page of a search for text; None if no calls remain after it."""
    asked = f"SELECT trial.id, one.id {_FROM}{where} {_ORDER.format(order)}"
    last = query(f"{asked} LIMIT 2 OFFSET {SPAN - 1}", **named)
    return (last[0][0], last[0][1]) if len(last) > 1 else None


def _texts(text: str, named: dict[str, Any]) -> str:
    """The text as it stands in a name, or in JSON, where it may be written in two ways."""
    forms = {text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]}
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
    texts = (_beginning(name), _beginning(raw), length)
    values: list[Any] = [*place, *texts, failure_class, bool(allowed), exit_code]
    return FoundCall((trial, call), *values)


def _beginning(stored: str) -> str:
    """A text that may have been cut, and then is no JSON any more."""
    try:
        return from_column(stored)
    except HostError:
        return stored.removeprefix(MARK)
