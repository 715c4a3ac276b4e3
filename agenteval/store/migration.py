"""SQLAlchemy's form of the tables that `tables.sql` describes, made when new and upgraded when old.

A file of SQLite that has the tables of today needs none of it. A change of schema so far adds
columns, each with a default for the rows that are there or filled from them, or frees the rows of a
constraint. All of it is one transaction: whatever happens to the process, the database is as it was
or as it should be. A file of SQLite is copied before.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    JSON,
    Boolean,
    Connection,
    CursorResult,
    DefaultClause,
    Dialect,
    Engine,
    Float,
    Inspector,
    Integer,
    StaticPool,
    String,
    Table,
    Text,
    TextClause,
    create_engine,
    event,
    false,
    inspect,
    text,
)
from sqlalchemy.engine.interfaces import ReflectedColumn
from sqlalchemy.exc import OperationalError
from sqlalchemy.types import TypeDecorator, TypeEngine
from sqlmodel import SQLModel

from agenteval.store import tables
from agenteval.store.location import SCHEMA, Bound, all_or_none, check_version, statements
from agenteval.store.older import back_up, judges_by_calls
from agenteval.store.read import trial_of_row
from agenteval.store.summaries import summary_values
from agenteval.store.tables import change_row, read_rows
from agenteval.store.texts import from_column, packed, to_column
from agenteval.trial.recovery import COUNTING
from agenteval.trial.summary import summarize

if TYPE_CHECKING:
    from alembic.operations import Operations


class ExactText(TypeDecorator[str]):
    """A text column that keeps NUL and lone surrogates, which models write and databases refuse."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 -- SQLAlchemy's signature
        return value if value is None else to_column(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 -- SQLAlchemy's signature
        return value if value is None else from_column(value)


class _PackedText(ExactText):
    """An ExactText that is compressed."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 -- SQLAlchemy's signature
        return value if value is None else packed(value)


_TYPES: dict[str, type[TypeEngine[Any]]] = {
    "VARCHAR": String,
    "TEXT": ExactText,
    "JSON": JSON,
    "INTEGER": Integer,
    "FLOAT": Float,
    "BOOLEAN": Boolean,
}
METADATA = SQLModel.metadata


def _type_of(column: tables.Column) -> TypeEngine[Any]:
    if column.is_packed:
        return _PackedText()
    if column.name == "recovery":
        # NULL until its trial has ended; of a call's arguments, None is what a model wrote.
        return JSON(none_as_null=True)
    return _TYPES[column.kind]()


@event.listens_for(METADATA, "column_reflect")
def _describe(_: Inspector, table: Table, column: ReflectedColumn) -> None:
    described = tables.TABLES[table.name][column["name"]]
    column["type"] = _type_of(described)
    if described.kind == "BOOLEAN" and described.default:
        # PostgreSQL refuses SQLite's 0 for a truth value.
        column["default"] = DefaultClause(false())  # type: ignore[typeddict-item] # its stub


def _read_tables() -> None:
    """Have SQLAlchemy read from SQLite what this has read of `tables.sql`."""
    # Every other connection would have a database in memory of its own, which is empty.
    engine = create_engine("sqlite://", poolclass=StaticPool)
    with engine.begin() as connection:
        for statement in statements():
            connection.exec_driver_sql(statement)
        METADATA.reflect(connection)
    engine.dispose()
    for table in METADATA.tables.values():
        for index in table.indexes:
            condition = index.dialect_options["sqlite"]["where"]
            index.dialect_options["postgresql"]["where"] = condition


_read_tables()


class SqlConnection:
    """An implementation of `location.Connection`; when it commits is SQLAlchemy's to say."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.database = connection.dialect.name
        self.mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"

    def ask(self, sql: str, /, **named: Any) -> list[Any]:
        return _rows_of(self._usable().execute(_read_sql(sql), named))

    def execute(self, sql: str, values: Bound, /) -> list[Any]:
        return _rows_of(self._usable().exec_driver_sql(sql, values))

    def execute_each(self, sql: str, rows: Sequence[Bound], /) -> None:
        self._usable().exec_driver_sql(sql, [*rows])

    def together(self) -> AbstractContextManager[None]:
        return all_or_none(self, "BEGIN IMMEDIATE" if self.database == "sqlite" else "BEGIN")

    def close(self) -> None:
        self._connection.close()

    def _usable(self) -> Connection:
        return self._connection


@cache
def _read_sql(sql: str) -> TextClause:
    return text(sql)


def _rows_of(result: CursorResult[Any]) -> list[Any]:
    return list(result.fetchall()) if result.returns_rows else []


# Upgrades.

TRIALS = METADATA.tables["trial"]
_INDEXED = (TRIALS, METADATA.tables["turn"], METADATA.tables["call"])
# Its place is taken by one that has the class too, so that calls are counted without being read.
_CALLS_BY_TRIAL = "DROP INDEX IF EXISTS ix_call_trial_id"
# Once there was no outcome of this name; what ended the trial was always kept.
_TIMED_OUT = """UPDATE trial SET outcome = 'timed-out'
    WHERE outcome = 'out-of-turns' AND ending = 'time'"""
# Nothing of a trial without sub-agents was counted differently by the third way to count.
_COUNTED = "UPDATE trial SET counting = 4 WHERE counting = 3 AND CAST(agent_calls AS TEXT) = '{}'"
_UNCOUNTED = "WHERE counting <> :counting AND outcome <> '' AND NOT replaced"
ALONE_SECONDS = 3600.0  # to wait for another process that upgrades the same file


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The schemas before and after. `copy` is the old file; None for a database on a server."""

    before: int
    after: int
    copy: Path | None

    def describe(self, store: str) -> str:
        note = (
            f"as it was, it is kept in {self.copy}"
            if self.copy
            else "in one transaction; no copy was made, as a dump is yours to make"
        )
        return f"--store {store}: upgraded from schema {self.before} to {self.after}; {note}"


_NUMBERED = "agenteval schema "  # the comment on PostgreSQL's table of runs, with the number
_COMMENT = "SELECT obj_description(to_regclass('run'), 'pg_class')"


def _stored_version(connection: Connection) -> int:
    """The number of the schema; 0 where there is none yet."""
    if connection.dialect.name == "sqlite":
        return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    if connection.dialect.name != "postgresql":
        return 0
    number = str(connection.exec_driver_sql(_COMMENT).scalar_one() or "").removeprefix(_NUMBERED)
    return int(number) if number.isdecimal() else 0


# Processes that open a database of PostgreSQL at once make its tables one after another: what its
# catalogue says to the later one has no fixed form. The number is nobody else's.
_LOCK = "SELECT pg_advisory_xact_lock(7161118931)"


def make_tables(engine: Engine, store: str) -> Upgrade | None:
    """Make the tables of today, or upgrade existing ones: all of it, or nothing.

    Raises UsageError for a database of a newer schema, and HostError if no copy can be made.
    """
    with engine.connect() as connection:
        version = _stored_version(connection)
    check_version(version, store)
    if version == SCHEMA:
        with engine.begin() as connection:
            _summarize(connection)
        return None
    with _alone(engine) as connection:
        version = _stored_version(connection)
        if version == SCHEMA:  # another process was quicker
            return None
        upgrade = None
        if _has_runs(connection):
            upgrade = _begun(connection, version, store)
        _widen(connection)
        return upgrade


def is_current(connection: Connection) -> bool:
    return _stored_version(connection) == SCHEMA


def show_as_today(connection: Connection, store: str) -> None:
    """Give the tables of today to this transaction, which is not to be committed.

    Raises UsageError for a database of a newer schema.
    """
    check_version(_stored_version(connection), store)
    if is_current(connection):
        _summarize(connection)
    else:
        _lock(connection)
        _widen(connection)


@contextmanager
def _alone(engine: Engine) -> Iterator[Connection]:
    """Hold one transaction, in which no other process alters anything."""
    with engine.begin() as connection:
        _lock(connection)
        yield connection


def _lock(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        _begin_alone(connection)
    elif connection.dialect.name == "postgresql":
        connection.exec_driver_sql(_LOCK)


def _begin_alone(connection: Connection) -> None:
    """Wait in short steps, between which Ctrl-C is heard: a copy of gigabytes takes minutes."""
    end = time.monotonic() + ALONE_SECONDS
    while True:
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        except OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
        else:
            return


def _has_runs(connection: Connection) -> bool:
    return inspect(connection).has_table("run")


def _begun(connection: Connection, version: int, store: str) -> Upgrade:
    """Return the upgrade of the store, whose copy is made now."""
    if connection.dialect.name != "sqlite":
        return Upgrade(version, SCHEMA, None)
    file = connection.exec_driver_sql("PRAGMA database_list").all()[0][2]
    return Upgrade(version, SCHEMA, back_up(file, version, store))


def _widen(connection: Connection) -> None:
    METADATA.create_all(connection)
    for table in METADATA.sorted_tables:
        there = {column["name"] for column in inspect(connection).get_columns(table.name)}
        for column in table.columns:
            if column.name not in there:
                _altering(connection).add_column(table.name, column)
    _free_numbers(connection)
    for table in _INDEXED:
        for index in table.indexes:
            index.create(connection, checkfirst=True)
    for change in (_CALLS_BY_TRIAL, _TIMED_OUT, _COUNTED):
        connection.exec_driver_sql(change)
    _summarize(connection)
    _tell_judges(connection)
    keeps = {
        "sqlite": f"PRAGMA user_version={SCHEMA}",
        "postgresql": f"COMMENT ON TABLE run IS '{_NUMBERED}{SCHEMA}'",
    }
    if connection.dialect.name in keeps:
        connection.exec_driver_sql(keeps[connection.dialect.name])


def _summarize(connection: Connection) -> None:
    """Count the trials of a version that counted none, or counted them differently."""
    plain = SqlConnection(connection)
    rows = list(read_rows(plain.ask, "trial", _UNCOUNTED, counting=COUNTING))
    for row in rows:
        summary = summarize(trial_of_row(plain.ask, row.id))
        change_row(plain, "trial", row, summary_values(summary))


def _tell_judges(connection: Connection) -> None:
    """Record which allow list judged whom, for runs of a time when calls alone told it."""
    plain = SqlConnection(connection)
    for run in list(read_rows(plain.ask, "run", "")):
        if not run.judged and not run.source:
            change_row(
                plain,
                "run",
                run,
                {"judged": judges_by_calls(plain.ask, run.id)},
            )


def _free_numbers(connection: Connection) -> None:
    """A trial that is played again has the number of the one it replaces: once no two might."""
    for name in _numbered(inspect(connection)):
        # SQLite drops no constraint: the table is written again without it.
        with _altering(connection).batch_alter_table(
            TRIALS.name, naming_convention={"uq": _UNNAMED}
        ) as trials:
            trials.drop_constraint(name or _UNNAMED % {"table_name": TRIALS.name}, "unique")


_UNNAMED = "uq_%(table_name)s"  # SQLite reports no name for unnamed constraints; this makes one up


def _numbered(schema: Inspector) -> list[str | None]:
    """The constraints by which a number is a single trial's."""
    known = schema.get_unique_constraints(TRIALS.name)
    return [one["name"] for one in known if "number" in one["column_names"]]


def _altering(connection: Connection) -> "Operations":
    from alembic import migration, operations  # noqa: PLC0415 -- 0.1 s; few stores are of old

    return operations.Operations(migration.MigrationContext.configure(connection))
