"""Plain SQL to a store, by which runs are written and read.

A file of SQLite is opened by the standard library's module. Any other database goes by SQLAlchemy
(`store.orm`), which is imported then.
"""

import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from agenteval.core.recovery import COUNTING
from agenteval.errors import AgentevalError, HostError, UsageError, fault, is_damage
from agenteval.store.location import SCHEMA, Telling

Bound = tuple[Any, ...]  # values as a driver takes them
WAIT_SECONDS = 10.0  # for what another process writes
_RETRY_SECONDS = 0.02


class Connection(Protocol):
    """Statements in plain SQL; each is committed by itself, unless it is one of several `together`.

    What the database can do nothing about, such as a full disk, is raised as HostError.
    """

    @property
    def database(self) -> str:
        """The kind of the database, such as "sqlite" or "postgresql"."""

    @property
    def mark(self) -> str:
        """The placeholder of a value in a statement that is executed."""

    def ask(self, sql: str, /, **named: Any) -> list[Any]:
        """The rows of a statement whose values stand as `:name`."""

    def execute(self, sql: str, values: Bound, /) -> list[Any]:
        """The rows of a statement as the database's driver takes it."""

    def together(self) -> AbstractContextManager[None]:
        """All statements within, or none."""

    def close(self) -> None:
        """Close the connection; no statement may follow."""


@contextmanager
def all_or_none(connection: Connection, begin: str) -> Iterator[None]:
    connection.ask(begin)
    try:
        yield
    except BaseException:
        with suppress(Exception):  # the connection may be what broke
            connection.ask("ROLLBACK")
        raise
    connection.ask("COMMIT")


class FileConnection:
    """A connection to an SQLite file, made if missing, in WAL mode: reading goes on meanwhile."""

    database, mark = "sqlite", "?"

    def __init__(self, file: str, shown: str) -> None:
        """Raises sqlite3.Error and OSError where it cannot be opened."""
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        self._shown = shown
        self._connection = sqlite3.connect(
            file, timeout=WAIT_SECONDS, isolation_level=None, factory=Telling
        )
        try:
            self._connection.execute("PRAGMA synchronous=NORMAL")
            if version_of(self._done) == SCHEMA or not self._count_tables():
                self.log_ahead()
        except (sqlite3.Error, AgentevalError):
            self._connection.close()
            raise

    def ask(self, sql: str, /, **named: Any) -> list[Any]:
        return self._done(sql, named)

    def execute(self, sql: str, values: Bound, /) -> list[Any]:
        return self._done(sql, values)

    def together(self) -> AbstractContextManager[None]:
        return all_or_none(self, "BEGIN IMMEDIATE")

    def close(self) -> None:
        self._connection.close()

    def log_ahead(self) -> None:
        """Put the file into WAL mode. An older store is unchanged until it has been copied.

        SQLite itself does not wait here for another process that uses the file.
        """
        until = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                self.ask("PRAGMA journal_mode=WAL")
            except HostError as error:
                if "is locked" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                return

    def is_current(self) -> bool:
        """Return `is_current` of the file; a new file is given the tables of today."""
        if version_of(self._done) == 0:
            self._make()
        return is_current(self._done)

    def _count_tables(self) -> int:
        return int(self.ask("SELECT count(*) FROM sqlite_master")[0][0])

    def _make(self) -> None:
        with self.together():
            if self._count_tables():
                return  # of a time when no number was kept, or made by another process just now
            for statement in statements():
                self.ask(statement)
            self.ask(f"PRAGMA user_version={SCHEMA}")

    def _done(self, sql: str, values: Any) -> list[Any]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            failed = isinstance(error, sqlite3.OperationalError | sqlite3.InterfaceError)
            if is_fault(str(error), error=failed or type(error) is sqlite3.DatabaseError):
                raise fault(self._shown, str(error)) from error
            raise


Rows = Callable[[str, Mapping[str, int]], Iterable[Any]]  # of a statement and its values by name


def is_current(rows: Rows) -> bool:
    """Return True if a file has the tables of today, and all its trials are counted as today.

    An older store is read through `store.older`, or upgraded by `store.orm`.
    """
    if version_of(rows) != SCHEMA:
        return False
    [(uncounted,)] = rows(_UNCOUNTED, {"counting": COUNTING})
    return not uncounted


def version_of(rows: Rows) -> int:
    """The number of a file's schema; 0 where it has none."""
    [(version,)] = rows("PRAGMA user_version", {})
    return int(version)


def statements() -> list[str]:
    """The statements that make all tables of an SQLite store, with their indexes."""
    text = files(__package__).joinpath("tables.sql").read_text(encoding="utf-8")
    return [statement for statement in text.split(";\n") if statement.strip()]


# Trials of a time when none was counted, or otherwise than today: two ends of an index.
_UNCOUNTED = """SELECT EXISTS (SELECT 1 FROM trial
        WHERE counting < :counting AND outcome <> '' AND NOT replaced)
    OR EXISTS (SELECT 1 FROM trial
        WHERE counting > :counting AND outcome <> '' AND NOT replaced)"""


def is_fault(said: str, *, error: bool) -> bool:
    """Return True for an `error` of a database at work that is no fault of our SQL."""
    return error and not said.startswith("no such ") and not said.endswith(": syntax error")


# What libpq says of a server that is down, starts or is full, and of a resolver that is; not of a
# name that nobody knows. What poolers say of theirs, and SQLite of a disk.
_AWAY = re.compile(
    "Is the server running|the database system is|timeout expired|closed the connection"
    "|too many (clients|connections)|no more connections allowed|remaining connection slots"
    "|Temporary failure in name resolution|[Cc]onnection reset|SYSCALL error|terminating connection"
    "|disk is full|disk I/O error"
)


NO_DATABASE = "is not a database"  # so SQLite says of a text


def no_store(shown: str, said: str) -> str:
    return f"--store {shown}: not a store of agenteval ({said}); name the file of one"


def unopened(store: str, error: Exception) -> AgentevalError:
    """The user's error, unless the file is damaged or the server is away for now."""
    said = str(error)
    reason = re.sub(r"'[^'\s]*@", "'***@", said.splitlines()[0])  # of a password with an @ in it
    reason = re.sub(r"(?<=host ')[^']*[&=][^']*", "***", reason)  # of one that is an option
    if is_damage(reason) or _AWAY.search(said):
        return fault(store, reason)
    if NO_DATABASE in reason:
        return UsageError(no_store(store, reason))
    cure = (
        "install its driver (for PostgreSQL: agenteval-gate[postgres])"
        if isinstance(error, ModuleNotFoundError)
        else "give one that you may write, or copy it to a folder of yours"
        if "unable to open database file" in reason
        else "give a file path or a database URL such as sqlite:///runs.db"
    )
    return UsageError(f"--store {store}: cannot be opened ({reason}); {cure}")
