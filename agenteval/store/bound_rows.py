"""Sessions out of logs as rows that a database's driver takes, bound wherever they were read."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import JSON, Connection, Dialect, Table
from sqlalchemy.types import TypeEngine
from sqlmodel import SQLModel

from agenteval.core.logged import Session
from agenteval.core.trial import CallRecord, Trial
from agenteval.store import mapping
from agenteval.store.location import to_column
from agenteval.store.rows import CallRow, ExactText, TrialRow, TurnRow
from agenteval.store.summaries import Values

Bound = tuple[Any, ...]

_NEW_TRIAL = {
    name: column.default
    for name, column in TrialRow.model_fields.items()
    if name != "id" and not column.is_required()
}
_OF_SESSION = ("agent", "version", "project", "parent", "path", "part", "began", "ended")


class LoggedRecord(NamedTuple):
    """A call as it is stored: with what is derived of it, beside what was recorded."""

    record: CallRecord
    derived: str
    offending: str
    shape: str


@dataclass(frozen=True, slots=True)
class Judged:
    """A session with the trial that it is; its number is given to it where it is stored.

    `trial` has what it takes to count it; `records` what is kept of each call.
    """

    session: Session
    trial: Trial
    records: Sequence[LoggedRecord]
    policies: Mapping[str, str]
    policy: str
    differ: int


@dataclass(frozen=True, slots=True)
class Entry:
    """All rows of a session, but for what only the store knows: its run, its trial, its number."""

    session: str
    part: int
    model: str
    size: tuple[int, int, int]
    scenario: str
    seed: int
    trial: Bound
    about: Bound
    turns: Sequence[Bound]
    calls: Sequence[Bound]


class TableWriter:
    """How rows of a table are written: columns that are `given` on writing, then those bound.

    `update` is of the row whose id stands behind what is bound.
    """

    def __init__(self, dialect: Dialect, row: object, given: Sequence[str] = ()) -> None:
        table, quote = table_of(row), dialect.identifier_preparer
        bound = [each for each in table.c if each.name not in {"id", *given}]
        self._taken = itemgetter(*(each.name for each in bound))
        binders = [_binder(each.type, dialect) for each in bound]
        self._binders = [(at, bind) for at, bind in enumerate(binders) if bind is not None]
        name, mark = quote.format_table(table), "?" if dialect.paramstyle == "qmark" else "%s"
        news = [quote.quote(each.name) for each in bound]
        columns = [*map(quote.quote, given), *news]
        marks = ", ".join([mark] * len(columns))
        self.insert = f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 -- our own columns
        self.update = f"UPDATE {name} SET {f' = {mark}, '.join(news)} = {mark} WHERE id = {mark}"  # noqa: S608 -- likewise

    def bind(self, values: Values) -> Bound:
        row = [*self._taken(values)]
        for at, bind in self._binders:
            row[at] = bind(row[at])
        return tuple(row)

    def write(self, connection: Connection, given: Bound, rows: Sequence[Bound]) -> None:
        if rows:
            connection.exec_driver_sql(self.insert, [given + row for row in rows])


def _binder(kind: TypeEngine[Any], dialect: Dialect) -> Callable[[Any], Any] | None:
    """As SQLAlchemy binds a value of the kind, but for what is the same in each row."""
    if type(kind) is ExactText:
        return _exact
    bind = kind.dialect_impl(dialect).bind_processor(dialect)
    if bind is None or not isinstance(kind, JSON):
        return bind
    nothing: dict[type, Any] = {dict: bind({}), list: bind([])}
    write = _text_of if isinstance(nothing[dict], str) else bind

    def bound(value: Any) -> Any:
        if not value:
            return nothing[type(value)] if type(value) in nothing else bind(value)
        return write(value)

    return bound


def _text_of(value: Any) -> str:
    """JSON in a tenth of the time that the standard library takes.

    That one writes what msgspec cannot: lone surrogates, and a NaN, for which msgspec has null.
    """
    try:
        text = msgspec.json.encode(value)
    except (ValueError, OverflowError):
        return json.dumps(value)
    return json.dumps(value) if b"null" in text else text.decode()


def _exact(value: str | None) -> str | None:
    return to_column(value) if value else value


def table_of(row: Any) -> Table:
    return SQLModel.metadata.tables[str(row.__tablename__)]


class SessionTables:
    """The tables that a session is written to, for one database's `dialect`."""

    def __init__(self, dialect: Dialect, session_row: object, taxonomy: str) -> None:
        self._taxonomy = taxonomy
        self.trial = TableWriter(dialect, TrialRow, ("run_id", "number", "scenario", "seed"))
        self.turn = TableWriter(dialect, TurnRow, ("trial_id",))
        self.call = TableWriter(dialect, CallRow, ("trial_id",))
        self.session = TableWriter(dialect, session_row, ("run_id", "trial_id"))

    def entry(self, judged: Judged) -> Entry:
        session, trial = judged.session, judged.trial
        turns = (mapping.turn_values(0, n, turn, agent="") for n, turn in enumerate(trial.turns))
        return Entry(
            session=session.id,
            part=session.part,
            model=session.model,
            size=session.size,
            scenario=trial.scenario,
            seed=trial.seed,
            trial=self.trial.bind(_NEW_TRIAL | mapping.ended_values(trial)),
            about=self.session.bind(_about(judged)),
            turns=[self.turn.bind(one) for one in turns],
            calls=self._calls(judged),
        )

    def _calls(self, judged: Judged) -> list[Bound]:
        policy = next(iter(judged.policies.values()), "")
        known = {"agent": "", "policy": policy, "taxonomy": self._taxonomy}
        return [
            self.call.bind(
                mapping.call_values(0, record, **known)
                | {"derived": derived, "offending": offending, "shape": shape}
            )
            for record, derived, offending, shape in judged.records
        ]


def _about(judged: Judged) -> Values:
    one = judged.session
    return {name: getattr(one, name) for name in _OF_SESSION} | {
        "session": one.id,
        "size": list(one.size),
        "outcomes": dict(one.outcomes),
        "policy": judged.policy,
        "differ": judged.differ,
    }
