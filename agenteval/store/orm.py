"""A store through SQLAlchemy: any database but a file of SQLite, and what alters its tables."""

from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import (
    JSON,
    URL,
    Column,
    Connection,
    Engine,
    TextClause,
    create_engine,
    event,
    text,
)
from sqlalchemy.exc import (
    DatabaseError,
    InterfaceError,
    InternalError,
    OperationalError,
    SQLAlchemyError,
)
from sqlmodel import Field, SQLModel

from agenteval.errors import UsageError, fault
from agenteval.store import ingesting, rescoring  # noqa: F401 -- whose tables are to be made too
from agenteval.store.connections import WAIT_SECONDS, Bound, all_or_none, is_fault, unopened
from agenteval.store.location import Location
from agenteval.store.migration import check_schema, make_tables
from agenteval.store.rows import ExactText
from agenteval.store.summaries import decoded


class ImportedRow(SQLModel, table=True):
    """A table of counts that no run stands behind."""

    __tablename__ = "imported"

    id: str = Field(primary_key=True)
    imported: str
    source: str
    card: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    trials: list[Any] = Field(sa_column=Column(JSON, nullable=False))
    by_trial: bool
    calls: list[int] = Field(sa_column=Column(JSON, nullable=False))
    by_class: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))


class ReviewRow(SQLModel, table=True):
    """At most one of a call. `label` is a failure class, "allowed", or empty for a note alone."""

    __tablename__ = "review"

    id: int | None = Field(default=None, primary_key=True)
    trial_id: int = Field(foreign_key="trial.id", index=True)
    call_id: int = Field(foreign_key="call.id", unique=True)
    label: str
    note: str = Field(sa_type=ExactText)
    at: str  # ISO 8601, UTC


def engine_of(where: Location) -> Engine:
    """The database there, with the tables of today.

    Raises UsageError when it cannot be opened or was written by a newer version's schema, and
    HostError when its file is damaged or its server is away.
    """
    shown = str(where)
    try:
        url = URL.create("sqlite", database=where.file) if where.file else where.url
        # Each claim of a run has a connection for as long as it is held.
        file = where.url.startswith("sqlite")
        more: dict[str, Any] = {"json_deserializer": decoded} if file else {"max_overflow": -1}
        engine = create_engine(url, **more)
        if engine.dialect.name == "sqlite":
            _prepare_sqlite(engine)
        check_schema(engine, shown)
        make_tables(engine)
    except (SQLAlchemyError, ModuleNotFoundError, OSError, ValueError) as error:
        raise unopened(shown, error) from error
    _tell_of_faults(engine, shown)
    return engine


class UrlConnection:
    """Implements `store.connections.Connection`. A lost connection is made anew when it is used."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection = self._made()
        self.database = engine.dialect.name
        self.mark = "?" if engine.dialect.paramstyle == "qmark" else "%s"

    def _made(self) -> Connection:
        return self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")

    def ask(self, sql: str, /, **named: Any) -> list[Any]:
        return _rows(self._usable().execute(_read(sql), named))

    def put(self, sql: str, values: Bound, /) -> list[Any]:
        return _rows(self._usable().exec_driver_sql(sql, values))

    def together(self) -> AbstractContextManager[None]:
        return all_or_none(self, "BEGIN IMMEDIATE" if self.database == "sqlite" else "BEGIN")

    def close(self) -> None:
        self._connection.close()

    def _usable(self) -> Connection:
        """Another one where it was lost: SQLAlchemy's own would commit nothing by itself."""
        if self._connection.invalidated:
            lost, self._connection = self._connection, self._made()
            lost.close()
        return self._connection


@cache
def _read(sql: str) -> TextClause:
    return text(sql)


def _rows(result: Any) -> list[Any]:
    return list(result.fetchall()) if result.returns_rows else []


def _prepare_sqlite(engine: Engine) -> None:
    file = engine.url.database
    if file and file != ":memory:":
        Path(file).parent.mkdir(parents=True, exist_ok=True)
    settings = ("journal_mode=WAL", "synchronous=NORMAL", f"busy_timeout={1000 * WAIT_SECONDS:g}")

    @event.listens_for(engine, "connect")
    def _settings(connection: Any, _record: Any) -> None:
        for setting in settings:
            connection.execute(f"PRAGMA {setting}")


def _tell_of_faults(engine: Engine, shown: str) -> None:
    """Make one line of what the database can do nothing about: a full disk, a lost connection.

    PostgreSQL's internal errors are a damaged page, and a server that only reads for now.
    """

    @event.listens_for(engine, "handle_error")
    def _told(failed: Any) -> None:
        error, said = failed.sqlalchemy_exception, str(failed.original_exception)
        at_work = isinstance(error, OperationalError | InterfaceError | InternalError)
        if is_fault(said, error=at_work or type(error) is DatabaseError):
            raise fault(shown, said) from error
        if said.startswith("permission denied"):
            reason = said.splitlines()[0]
            raise UsageError(f"--store {shown}: {reason}; name a user who may write") from error
