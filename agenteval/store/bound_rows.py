"""Sessions out of logs as rows that a database's driver takes, bound wherever they were read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import JSON, Connection, Dialect, Table
from sqlalchemy.types import TypeEngine
from sqlmodel import SQLModel

from agenteval.core.logged import Session
from agenteval.core.trial import CallRecord, Trial
from agenteval.store import mapping
from agenteval.store.location import to_column
from agenteval.store.rows import CallRow, ExactText, TrialRow, TurnRow

if TYPE_CHECKING:
    from collections.abc import Callable

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


class Form:
    """How rows of a table are written: columns that are `given` on writing, then those bound."""

    def __init__(
        self, dialect: Dialect, row: object, given: Sequence[str], bound: Sequence[str]
    ) -> None:
        table = table_of(row)
        self.bound = bound
        self._binders: list[tuple[str, Callable[[Any], Any] | None]] = [
            (name, _binder(table.c[name].type, dialect)) for name in bound
        ]
        quote = dialect.identifier_preparer
        self._name, self._mark = quote.format_table(table), _MARKS.get(dialect.paramstyle, "%s")
        self._columns = [quote.quote(name) for name in (*given, *bound)]
        self._given = len(given)

    def bind(self, values: "Values") -> Bound:
        return tuple(
            [values[name] if bind is None else bind(values[name]) for name, bind in self._binders]
        )

    @property
    def insert(self) -> str:
        marks = ", ".join([self._mark] * len(self._columns))
        return f"INSERT INTO {self._name} ({', '.join(self._columns)}) VALUES ({marks})"  # noqa: S608 -- our own columns

    @property
    def update(self) -> str:
        """Of the row whose id stands behind what is bound."""
        news = ", ".join(f"{name} = {self._mark}" for name in self._columns[self._given :])
        return f"UPDATE {self._name} SET {news} WHERE id = {self._mark}"  # noqa: S608 -- our own columns

    def write(self, connection: Connection, given: Bound, rows: Sequence[Bound]) -> None:
        if rows:
            connection.exec_driver_sql(self.insert, [given + row for row in rows])


_MARKS = {"qmark": "?"}


def _binder(kind: TypeEngine[Any], dialect: Dialect) -> "Callable[[Any], Any] | None":
    """As SQLAlchemy binds a value of the kind, but for what is the same in each row."""
    if type(kind) is ExactText:
        return _exact
    bind = kind.dialect_impl(dialect).bind_processor(dialect)
    if bind is None or not isinstance(kind, JSON):
        return bind
    nothing: dict[type, Any] = {dict: bind({}), list: bind([])}

    def bound(value: Any) -> Any:
        return bind(value) if value or type(value) not in nothing else nothing[type(value)]

    return bound


def _exact(value: str | None) -> str | None:
    return None if value is None else to_column(value)


def table_of(row: Any) -> Table:
    return SQLModel.metadata.tables[str(row.__tablename__)]


class Forms:
    """The forms of all that is written of a session, for one database's `dialect`."""

    def __init__(self, dialect: Dialect, session_row: object, taxonomy: str) -> None:
        self._taxonomy = taxonomy
        self.trial = _form(dialect, TrialRow, ("run_id", "number", "scenario", "seed"))
        self.turn = _form(dialect, TurnRow, ("trial_id",))
        self.call = _form(dialect, CallRow, ("trial_id",))
        self.session = _form(dialect, session_row, ("run_id", "trial_id"))

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
        return [
            self.call.bind(
                {
                    **mapping.call_values(
                        0, one.record, agent="", policy=policy, taxonomy=self._taxonomy
                    ),
                    "derived": one.derived,
                    "offending": one.offending,
                    "shape": one.shape,
                }
            )
            for one in judged.records
        ]


def _form(dialect: Dialect, row: object, given: Sequence[str]) -> Form:
    bound = [column.name for column in table_of(row).c if column.name not in {"id", *given}]
    return Form(dialect, row, given, bound)


def _about(judged: Judged) -> "Values":
    one = judged.session
    return {name: getattr(one, name) for name in _OF_SESSION} | {
        "session": one.id,
        "size": list(one.size),
        "outcomes": dict(one.outcomes),
        "policy": judged.policy,
        "differ": judged.differ,
    }
