"""OpenCode's database, from 1.2 on: a stranger's, whose views, triggers and damage do no harm.

OpenCode 2 writes into tables of its own, next to those of 1. It is opened as a trial's database is.
What cannot be read is reported by its row, and the rest is read on.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from errno import EBUSY
from pathlib import Path
from typing import Any

from agenteval.core.logged import Building, Session, Skipped
from agenteval.formats.tool_calls import TOO_MANY, has_too_many, is_deep
from agenteval.readers.json_documents import LONGEST
from agenteval.readers.json_source import objects, take_faults, text_at, words
from agenteval.readers.log_bytes import regular
from agenteval.readers.opencode_parts import Object, begun, message_of
from agenteval.sandbox.inside.inquiry import FAULTS, LIMITS, allowed, defended

_SESSION = ("id", "parent_id", "directory", "version", "agent")
_FIRST = {
    "session": _SESSION,
    "message": ("id", "session_id", "time_created", "data"),
    "part": ("id", "message_id", "data"),
}
_SECOND = {"session_v2": _SESSION, "session_message": ("id", "session_id", "seq", "type", "data")}
_LIMITS = LIMITS | {
    sqlite3.SQLITE_LIMIT_LENGTH: LONGEST,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 1,
}
# The limits of the process: beside what is read, our own store is written.
_HEAPS = "PRAGMA soft_heap_limit=268435456; PRAGMA hard_heap_limit=536870912;"
_BUSY_TIMEOUT = 5_000  # milliseconds for who writes in it
_STEPS = 20_000_000  # of SQLite's machine, and one for each byte; a good store takes a tenth
_STRIDE = 100_000  # of them, after which they are counted
_DECLARED = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?"
_SESSIONS = "SELECT id FROM session ORDER BY id"
_SESSIONS_2 = "SELECT id FROM session_v2 ORDER BY id"
_MESSAGES = "SELECT id FROM message WHERE session_id = CAST(? AS TEXT) ORDER BY time_created, id"
_MESSAGES_2 = "SELECT id FROM session_message WHERE session_id = CAST(? AS TEXT) ORDER BY seq, id"
_PARTS = "SELECT id FROM part WHERE message_id = CAST(? AS TEXT) ORDER BY id"


class _SpentError(Exception):
    """It takes more steps than a store of its size has any use for."""


def read(path: Path, *, is_logged: bool) -> Iterator[Session | Skipped]:
    """Read a database, opened to read only, with its WAL: what OpenCode has committed is read.

    One that is written by way of a WAL and has none is in use by nobody. Raises OSError if a
    program has locked it: it is to be read another time.
    """
    wal, *others = (path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal"))
    for beside in (wal, *others):
        if beside.exists():  # SQLite would wait for a pipe without end
            regular(beside).close()
    # A store without its -shm, in a folder that cannot be written, is read as it lies there.
    how = "&immutable=1" if is_logged and not wal.exists() else ""
    reading = _Reading(path, _STEPS + path.stat().st_size)
    try:
        with closing(defended(f"{path.absolute().as_uri()}?mode=ro{how}", _LIMITS)) as store:
            _open(store, reading)
            yield from reading.sessions(store)
    except _SpentError:
        yield Skipped(str(path), "the database", f"given up after {reading.steps:,} steps")
    except FAULTS as error:
        _unless_locked(error)
        yield Skipped(str(path), "the database", str(error) or "no memory for it")


def _unless_locked(error: BaseException) -> None:
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        raise OSError(EBUSY, f"{error}: by a running program") from error


def _open(store: Any, reading: "_Reading") -> None:
    """Bounded from here on. All is read as it is now, whoever writes."""
    store.text_factory = _text
    store.set_progress_handler(reading.stepped, _STRIDE)
    store.executescript(f"{_HEAPS} PRAGMA busy_timeout={_BUSY_TIMEOUT}; BEGIN;")
    is_second = store.execute(_DECLARED, ("session_v2",)).fetchone() is not None
    is_first = store.execute(_DECLARED, ("session",)).fetchone() is not None
    tables = (_FIRST if is_first or not is_second else {}) | (_SECOND if is_second else {})
    for table, names in tables.items():
        (sql,) = store.execute(_DECLARED, (table,)).fetchone() or ("",)
        columns = store.execute(f"PRAGMA table_xinfo({table})").fetchall()
        if not str(sql).startswith("CREATE TABLE ") or any(column[6] for column in columns):
            raise sqlite3.DatabaseError(f"{table} is no plain table that OpenCode made")
        reading.columns[table] = [each[1] for each in columns if each[1] in names]
    store.set_authorizer(allowed)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _bytes(name: object) -> object:
    """Encode a name as SQLite needs it, which takes no text that is no UTF-8."""
    return name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name


@dataclass(slots=True)
class _Reading:
    """A database under way, with the steps that it may take and its unreadable parts."""

    path: Path
    most_steps: int
    steps: int = 0
    columns: dict[str, Sequence[str]] = field(default_factory=dict)
    faults: list[Skipped] = field(default_factory=list)

    def stepped(self) -> bool:
        """Count steps; return True to stop the query."""
        self.steps += _STRIDE
        return self.steps > self.most_steps

    def sessions(self, store: Any) -> Iterator[Session | Skipped]:
        for table, query in (("session", _SESSIONS), ("session_v2", _SESSIONS_2)):
            names = self._ids(store, "the sessions", query) if table in self.columns else {}
            for name in names:
                yield from self._session(store, table, name)
                yield from self.faults
                self.faults.clear()
        yield from self.faults

    def _session(self, store: Any, table: str, name: object) -> Iterator[Session | Skipped]:
        info = self._row(store, table, name)
        building = Building(Session("")) if info is None else begun(info, self.path)
        query = _MESSAGES if table == "session" else _MESSAGES_2
        for message in self._ids(store, f"session {name}", query, name):
            if (whole := building.whole()) is not None:
                yield whole
            if table == "session":
                payload = self._payload(store, "message", message)
                parts = self._parts(store, message)
            else:
                row = self._payload(store, "session_message", message)
                payload, parts = (None, iter(())) if row is None else _of_second(row)
            if payload is not None:
                message_of(building, {**payload, "id": message}, parts)
                yield from take_faults(building, self.path, f"message {message}")
        if info is not None:
            yield building.session

    def _parts(self, store: Any, message: object) -> Iterator[Object]:
        for part in self._ids(store, f"message {message}", _PARTS, message):
            if (found := self._payload(store, "part", part)) is not None:
                yield found

    def _ids(self, store: Any, where: str, query: str, *of: object) -> dict[Any, None]:
        """Each once, in their order: of a damaged table one row can stand in many places."""
        idents: dict[Any, None] = {}
        try:
            for (one,) in store.execute(query, [_bytes(each) for each in of]):
                idents[one] = None
        except FAULTS as error:
            self._fault(where, error)
        return idents

    def _row(self, store: Any, table: str, name: object) -> Object | None:
        columns = self.columns[table]
        query = f"SELECT {', '.join(columns)} FROM {table} WHERE id = CAST(? AS TEXT)"  # noqa: S608 -- our own
        try:
            values = store.execute(query, (_bytes(name),)).fetchone()
            if values is None:
                raise sqlite3.DatabaseError("no row has its id")
        except FAULTS as error:
            self._fault(f"{table} {name}", error)
            return None
        known = dict(zip(columns, values, strict=True))
        return {**known, "parentID": known.get("parent_id")}

    def _payload(self, store: Any, table: str, name: object) -> Object | None:
        if (row := self._row(store, table, name)) is None:
            return None
        try:
            if isinstance(row["data"], str) and has_too_many(row["data"]):
                raise ValueError(TOO_MANY)
            payload = json.loads(row["data"])
        except (*FAULTS, TypeError, KeyError, RecursionError) as error:
            self._fault(f"{table} {name}", error, "no JSON: ")
            return None
        if is_deep(payload):
            self._fault(f"{table} {name}", RecursionError(), "no JSON: ")
            return None
        if not isinstance(payload, dict):
            return {}
        return {**payload, "type": row["type"]} if "type" in row else payload

    def _fault(self, at: str, error: BaseException, why: str = "") -> None:
        _unless_locked(error)
        if self.steps > self.most_steps:
            raise _SpentError from error
        said = "nested too deep" if isinstance(error, RecursionError) else str(error)
        self.faults.append(Skipped(str(self.path), at, f"{why}{said or 'no memory for it'}"))


def _of_second(message: Object) -> tuple[Object, Iterator[Object]]:
    """Return a message of OpenCode 2 in the form of 1, and its parts, which have other names."""
    info = {**message, "role": message.get("type"), "modelID": text_at(message, "model", "id")}
    return info, (_part_of_second(part) for part in objects(message.get("content")))


def _part_of_second(part: Object) -> Object:
    if part.get("type") != "tool":
        return part
    converted: Object = {**part, "callID": part.get("id")}
    if "name" in part:
        converted = {**converted, "tool": part["name"]}
    if isinstance(state := part.get("state"), dict):
        error, output = state.get("error"), state.get("output")
        if isinstance(error, dict):
            error = ": ".join(filter(None, (text_at(error, "type"), text_at(error, "message"))))
        texts = {"error": error, "output": output or words(state.get("content"))}
        converted = {
            **converted,
            "state": {**state, **{key: text for key, text in texts.items() if text}},
        }
    return converted
