"""The place of a store, the names of the runs in it, and a connection to it by plain SQL.

A file of SQLite is opened by the standard library's module. Any other database goes by SQLAlchemy
(`store.orm`), which is imported then.
"""

import json
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

import msgspec

from agenteval.errors import AgentevalError, HostError, UsageError, fault, is_damage
from agenteval.store.texts import as_written
from agenteval.trial.recovery import COUNTING
from agenteval.trial.text import as_word

SCHEMA = 19  # raised with every change of a table; `store.migration` adds what an older one lacks
_SQLITE, _BY_DRIVER = "sqlite:///", "sqlite+pysqlite:///"
# Options of a URL that are known not to be secret.
_OPEN = "user|host|hostaddr|port|dbname|service|sslmode|timeout|connect_timeout|mode|cache|uri"
_SECRET = rf"((?:^|&)(?!(?:{_OPEN})=)(?:[^&=]*=|(?=[^&=]+(?:&|$))))[^&]*"
# A text that is meant as a URL and is none: as the name of a file it would give each shard a store.
_NO_URL = re.compile(
    r"(?is)((?:postgres(?:ql)?|mysql|mariadb|oracle|mssql|sqlite|file)(?:\+\w+)?:(?!//)"
    r"|(?:host|hostaddr|port|dbname|user|password|service)\s*=).*"
)


@dataclass(frozen=True, slots=True)
class Location:
    """A store, given as a SQLAlchemy URL or as a plain file path. PostgreSQL goes by psycopg."""

    given: str

    @property
    def url(self) -> str:
        if "://" not in self.given:
            return f"{_SQLITE}{self.given}"
        if self.given.startswith(_BY_DRIVER):
            return self.given.replace(_BY_DRIVER, _SQLITE, 1)
        return re.sub(r"(?i)^postgres(ql)?://", "postgresql+psycopg://", self.given)

    @property
    def file(self) -> str | None:
        """The file of an SQLite database; None for any other, and if its URL has options."""
        path = self.url.removeprefix(_SQLITE)
        more = "://" in self.given and (not self.url.startswith(_SQLITE) or "?" in path)
        return None if more or path in {"", ":memory:"} else path

    @property
    def is_there(self) -> bool:
        """False for a file that does not exist; who speaks to a server finds out by asking."""
        return self.file is None or Path(self.file).is_file()

    def check_there(self) -> None:
        """Raises UsageError: who only reads must not make a store."""
        self.check_ours()
        if not self.is_there:
            raise UsageError(
                f"--store {self}: no such file. Make a run first: agenteval run --model NAME"
            )

    def check_ours(self) -> None:
        """Raise UsageError for what keeps nothing, a folder, and the database of another program.

        It is called before a run as well: nothing is added to another program's database.
        """
        if self.url in {"sqlite://", _SQLITE, f"{_SQLITE}:memory:"}:
            raise UsageError(f"--store {str(self)!r}: keeps no run; name a file, such as runs.db")
        if self._is_no_url:
            raise UsageError(
                f"--store {self}: neither a file nor a URL; write postgresql://HOST/NAME or the "
                "path of a file"
            )
        if self.file is None or not Path(self.file).exists():
            return
        if Path(self.file).is_dir():
            raise UsageError(f"--store {self}: a folder; name a file in it, such as {self}/runs.db")
        if (tables := _tables(self.file)) and "run" not in tables:
            raise UsageError(
                f"--store {self}: a database of another program, with a table {tables[0]!r}; name "
                "another file"
            )

    @property
    def _is_no_url(self) -> bool:
        """True of a URL that lacks its slashes, and of psql's words: "host=db dbname=runs"."""
        return "://" not in self.given and bool(_NO_URL.fullmatch(self.given))

    def __str__(self) -> str:
        """Return the location as it may be printed, without a password.

        A database URL can hold a password in one of two places. Where it cannot be told whether a
        "?" is of the password, all that follows is left out.
        """
        if self._is_no_url:
            return _NO_URL.sub(r"\1***", self.given)
        if "://" not in self.given:
            return self.given
        known = re.sub(r"(?s)(?<=://)([^:/]*):([^@]*\?.*@.*)", r"\1:***", self.given)
        known = re.sub(r"(?<=://)([^:/]*):[^?]*@", r"\1:***@", known)
        place, mark, options = known.partition("?")
        return place + mark + re.sub(_SECRET, r"\1***", options)


class Telling(sqlite3.Connection):
    """A connection that reports a malformed name in a damaged schema as a DatabaseError."""

    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        try:
            return super().execute(sql, values)
        except UnicodeDecodeError as error:
            raise sqlite3.DatabaseError(f"a name in the file is malformed: {error}") from error


def check_version(version: int, store: str) -> None:
    """Raises UsageError for a store that a newer agenteval wrote."""
    if version > SCHEMA:
        raise UsageError(
            f"--store {store}: written with schema {version}, this agenteval has {SCHEMA}; "
            "use the agenteval that wrote it, or give another --store"
        )


def connected(file: str) -> sqlite3.Connection:
    """Open a SQLite store read-only. Raises UsageError where the file cannot be opened."""
    path = Path(file).resolve()
    try:
        return sqlite3.connect(f"{path.as_uri()}?{_mode(path)}", uri=True, factory=Telling)
    except sqlite3.OperationalError as error:
        raise UsageError(f"--store {file}: {error}; give one that you may read") from error


def _mode(file: Path) -> str:
    """Return the options with which SQLite opens a store that is to be read.

    It keeps files next to a store even for that, and only a process that may write the store
    removes them again. If that cannot be, the file is read as it lies there, unless a log next to
    it holds more. A process that may write also moves a log that a killed process left into the
    file: not into an older one.
    """
    log = Path(f"{file}-wal")
    has_log = size_of(log) > 0
    if not all(os.access(place, os.W_OK) for place in (file, file.parent)):
        return "mode=ro" if has_log else "mode=ro&immutable=1"
    return "mode=ro" if has_log and _version_in(file) != SCHEMA else "mode=rw"


def size_of(file: Path) -> int:
    """Return the bytes of a file; 0 if there is none, as when SQLite has just removed its log."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _version_in(file: Path) -> int:
    """The number of the schema, where SQLite's header has it; 0 where it cannot be read."""
    try:
        with file.open("rb") as opened:
            return int.from_bytes(opened.read(64)[60:], "big")
    except OSError:
        return 0


def _tables(file: str) -> list[str]:
    """Return the names of a database's tables; [] if it cannot be read: its opener says why."""
    try:
        with closing(connected(file)) as asked:
            found = asked.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except sqlite3.DatabaseError:
        return []
    return [name for (name,) in found]


# The names of a run.

SHOWN = 5
_LAST = re.compile(r"last(?:-(\d{1,4}))?(?: (\S.*))?")


@dataclass(frozen=True, slots=True)
class Known:
    """A run by all that can name it. Without a trial that counts it is not `usable`."""

    id: str
    model: str = ""
    labels: Sequence[str] = ()
    simulated: bool = False
    usable: bool = True

    @property
    def aside(self) -> str:
        """The reason why `last` passes it over if there is another run; "" if it does not."""
        if not self.usable:
            return "without a trial that counts"
        return "simulated" if self.simulated else ""

    def __str__(self) -> str:
        return f"{self.id} ({self.aside})" if self.aside else self.id


def resolve_name(
    word: str,
    runs: Sequence[Known],
    tables: Sequence[str] = (),
    *,
    where: str,
    whatever: bool = False,
) -> str:
    """Return the id of the run, or of the imported counts, that a word names.

    `runs` and `tables` are given newest first. A word is an id or the only one that begins so,
    `last`, `last-1`, `last MODEL`, a label, or a model's name, which means its last run. Only an id
    means a run without a trial that counts, unless `whatever` happened to it is wanted. Raises
    UsageError if the word means none of them, or several.
    """
    idents = (*(run.id for run in runs), *tables)
    if word in idents:
        return word
    if found := _named(word, runs, whatever=whatever):
        _check_one_meaning(word, found, runs, idents)
        return found.id
    fitting = [one for one in idents if one.startswith(word)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        several = f"{len(fitting)} runs in {where} (newest: {', '.join(fitting[:SHOWN])})"
        raise UsageError(f"{word!r} begins the ids of {several}; give more of the one you mean")
    like = sorted({run.model for run in runs if word and word in run.model})
    passes = bool(_LAST.fullmatch(word)) and len({bool(run.aside) for run in runs}) > 1
    names = ", ".join([*map(str, runs if passes else idents)][:SHOWN])
    newest = f"newest: {names or 'none yet'}"
    if passes:
        newest = f"`last` passes over what stands in brackets; {newest}"
    near = f"models like it: {', '.join(like)}" if like else newest
    if not passes and (void := _named(word, runs, whatever=True)):
        near = f"but {void.id}, which is {void.aside}: give this id to mean it"
    raise UsageError(f"no run {word!r} in {where} ({near}); `agenteval show` lists all")


def _check_one_meaning(
    word: str,
    chosen: Known,
    runs: Sequence[Known],
    ids: Sequence[str],
) -> None:
    """Raises UsageError for a label that is a model's name as well, or begins the id of a run."""
    if word not in chosen.labels:
        return
    of_model = [run.id for run in runs if run.usable and run.model == word]
    begun = [ident for ident in ids if ident.startswith(word) and ident != chosen.id]
    what, others = "an id", begun
    if of_model and of_model[0] != chosen.id:
        what, others = "a model's last run", of_model
    if others:
        off = f"agenteval runs label {as_word(chosen.id)} {as_word(word)} --off"
        raise UsageError(
            f"{word!r} is the label of {chosen.id} and names {what}, {others[0]}: give the id of "
            f"the one you mean, or take the label off ({off})"
        )


def passed_over(word: str, runs: Sequence[Known]) -> Sequence[Known]:
    """The newer runs that `last` and `last-1` without a model do not count."""
    last = _LAST.fullmatch(word)
    chosen = _named(word, runs, whatever=False)
    if not last or last[2] or not chosen:
        return ()
    newer = runs[: runs.index(chosen)]
    return [run for run in newer if run.aside and not (run.usable and chosen.simulated)]


def _named(word: str, runs: Sequence[Known], *, whatever: bool) -> Known | None:
    """Return the run with this label, model or `last-N`; None without one."""
    usable = [run for run in runs if run.usable or whatever]
    if (last := _LAST.fullmatch(word)) is None:
        labelled = (run for run in usable if word in run.labels)
        return next(labelled, next((run for run in usable if run.model == word), None))
    back, model = int(last[1] or 0), last[2]
    if model is not None:
        usable = [run for run in usable if run.model == model]
    elif not whatever:  # a simulated run is meant where there is no other
        usable = [run for run in usable if not run.simulated] or usable
    return usable[back] if back < len(usable) else None


# Plain SQL to a store.

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

    def execute_each(self, sql: str, rows: Sequence[Bound], /) -> None:
        """Execute a statement for each of these rows."""

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

    def execute_each(self, sql: str, rows: Sequence[Bound], /) -> None:
        for row in rows:
            self._done(sql, row)

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


Query = Callable[..., Sequence[Any]]  # SQL text and its parameters by name; rows
Values = dict[str, Any]  # of one row, by column


def query_file(connection: sqlite3.Connection) -> Query:
    """Return what puts plain SQL, whose values stand as `:name`, to a file."""

    def query(sql: str, **values: Any) -> list[Any]:
        return connection.execute(sql, values).fetchall()

    return query


def decoded(column: Any) -> Any:
    """A JSON column: SQLite gives its text, other databases its value. Raises HostError."""
    if not isinstance(column, str):
        return column
    try:
        return msgspec.json.decode(column)
    except msgspec.DecodeError:  # half a surrogate pair, which the standard library reads
        with as_written():
            return json.loads(column)
