"""A store through SQLAlchemy: any database but a file of SQLite, and what alters its tables."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, event
from sqlalchemy.exc import (
    DatabaseError,
    InterfaceError,
    InternalError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.pool import NullPool, StaticPool
from sqlmodel import create_engine

from agenteval.errors import UsageError, fault
from agenteval.store.location import (
    WAIT_SECONDS,
    Location,
    Query,
    decoded,
    is_fault,
    no_store,
    unopened,
)
from agenteval.store.migration import (
    SqlConnection,
    Upgrade,
    is_current,
    make_tables,
    show_as_today,
)
from agenteval.store.older import connection_to_read
from agenteval.trial.text import visible


def engine_of(where: Location) -> Engine:
    """Return the engine of the database there, with the tables of today.

    An older database is upgraded, and a line of the log says so. Raises UsageError if it cannot be
    opened or was written by a newer version's schema, and HostError if its file is damaged or its
    server is away.
    """
    if upgrade := upgraded(where):
        report = visible(upgrade.describe(str(where)))
        logging.getLogger(__name__).warning("agenteval: %s", report)
    return _engine(where)


def upgraded(where: Location) -> Upgrade | None:
    """Give the database the tables of today; None where it had them. Raises as `engine_of`."""
    store = str(where)
    try:
        engine = create_engine(_url(where), poolclass=NullPool)  # a file's mode is left as it is
        if where.file:
            Path(where.file).parent.mkdir(parents=True, exist_ok=True)
        return make_tables(engine, store)
    except (SQLAlchemyError, ModuleNotFoundError, OSError, ValueError) as error:
        if "readonly database" in str(error):
            raise UsageError(
                f"--store {store}: of an older agenteval, and not upgraded, as the file may not be "
                "written. It can be read; to go on with it, copy it to a folder of yours"
            ) from error
        raise unopened(store, error) from error


def _url(where: Location) -> URL | str:
    return URL.create("sqlite", database=where.file) if where.file else where.url


def _engine(where: Location) -> Engine:
    store = str(where)
    try:
        # Each claim of a run has a connection for as long as it is held.
        file = where.url.startswith("sqlite")
        more: dict[str, Any] = {"json_deserializer": decoded} if file else {"max_overflow": -1}
        engine = create_engine(_url(where), **more)
        if engine.dialect.name == "sqlite":
            _prepare_sqlite(engine)
        if engine.url.database in {None, "", ":memory:"}:  # of this engine alone
            make_tables(engine, store)
    except (SQLAlchemyError, ModuleNotFoundError, OSError, ValueError) as error:
        raise unopened(store, error) from error
    _tell_of_faults(engine, store)
    return engine


@contextmanager
def connected_to_read(store: str) -> Iterator[Connection]:
    """Connect SQLAlchemy to an existing store for queries that change nothing.

    A database on a server is given the tables of today in a transaction that is never committed.
    Raises UsageError and HostError as `summaries.opened`.
    """
    where = Location(store)
    where.check_there()
    with ExitStack() as stack:
        try:
            engine = _reading_engine(where, stack)
            connection = stack.enter_context(engine.connect())
            if where.file is None:
                show_as_today(connection, str(where))
        except (SQLAlchemyError, ModuleNotFoundError, ValueError) as error:
            raise unopened(str(where), error) from error
        _tell_of_faults(engine, str(where))
        try:
            yield connection
        except OperationalError as error:
            if not str(error.orig).startswith("no such "):
                raise
            raise UsageError(no_store(str(where), str(error.orig))) from error


def _reading_engine(where: Location, stack: ExitStack) -> Engine:
    """Return an engine that reads; the `stack` disposes of it."""
    if where.file is None:
        engine = create_engine(where.url, poolclass=NullPool)
    else:
        connection = stack.enter_context(connection_to_read(where))
        asks: dict[str, Any] = {"creator": lambda: connection, "poolclass": StaticPool}
        engine = create_engine("sqlite://", json_deserializer=decoded, **asks)
    stack.callback(engine.dispose)
    return engine


@contextmanager
def connected_query(store: str) -> Iterator[Query]:
    """Connect as `connected_to_read` does, for plain SQL."""
    with connected_to_read(store) as connection:
        yield SqlConnection(connection).ask


def is_older(where: Location) -> bool:
    """Return `summaries.is_older` of a database that is no plain file."""
    engine = create_engine(where.url, poolclass=NullPool)
    with engine.connect() as connection:
        return not is_current(connection)


class UrlConnection(SqlConnection):
    """Commits each statement by itself; a lost connection is made anew on use."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        super().__init__(self._connect())

    def _connect(self) -> Connection:
        return self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")

    def _usable(self) -> Connection:
        # SQLAlchemy would renew the connection itself, but not that it commits by itself.
        if self._connection.invalidated:
            lost, self._connection = self._connection, self._connect()
            lost.close()
        return self._connection


def _prepare_sqlite(engine: Engine) -> None:
    settings = ("journal_mode=WAL", "synchronous=NORMAL", f"busy_timeout={1000 * WAIT_SECONDS:g}")

    @event.listens_for(engine, "connect")
    def _settings(connection: Any, _record: Any) -> None:
        for setting in settings:
            connection.execute(f"PRAGMA {setting}")


def _tell_of_faults(engine: Engine, store: str) -> None:
    """Make one line of what the database can do nothing about: a full disk, a lost connection.

    PostgreSQL's internal errors are a damaged page, and a server that only reads for now.
    """

    @event.listens_for(engine, "handle_error")
    def _raise_fault(failed: Any) -> None:
        error, message = failed.sqlalchemy_exception, str(failed.original_exception)
        at_work = isinstance(error, OperationalError | InterfaceError | InternalError)
        if is_fault(message, error=at_work or type(error) is DatabaseError):
            raise fault(store, message) from error
        if message.startswith("permission denied"):
            reason = message.splitlines()[0]
            raise UsageError(f"--store {store}: {reason}; name a user who may write") from error
