"""OpenCode's sessions: its database, its older tree of files, `export`, and `run --format json`.

A tool part means the same in all four, and differs by version. A name that is not known, and
arguments that are no JSON, become a call of a tool `invalid`, which counts as completed; where
every tool is denied, that one is denied too.

The database (from 1.2 on) is a stranger's: it is opened as a trial's database is, so that its
views, triggers and damage do no harm. OpenCode 2 writes into tables of its own, next to those of 1.
What cannot be read is reported by its row, and the rest is read on.
"""

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from errno import EBUSY
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from agenteval.logs.json import (
    LONGEST,
    Found,
    Object,
    at,
    check_keys,
    code_at,
    count_at,
    full_part,
    name_at,
    object_at,
    objects,
    outcome_in,
    read_lines,
    read_members,
    take_faults,
    text_at,
    usage_in,
    when,
    words,
)
from agenteval.logs.packed import opened_log, regular, small, unpacked_log
from agenteval.logs.tool_calls import TOO_DEEP, TOO_MANY, called, has_too_many, is_deep
from agenteval.sandbox.inside.inquiry import FAULTS, LIMITS, allowed, defended
from agenteval.trial.session import Building, LoggedCall, LoggedTurn, Recorded, Session, Skipped
from agenteval.trial.trial import Usage

# That are kept of a session: each is looked for among the others
_RULES = 1_000
_ACTIONS = {"allow", "ask", "deny"}
_RULE = ("permission", "pattern", "action")


def _begun(info: Object, path: Path) -> Building:
    session = Session("", path=str(path))
    _fill(session, info)
    return Building(session)


def _fill(session: Session, info: Object) -> None:
    session.id = name_at(info, "id")
    session.agent = text_at(info, "agent") or session.agent
    session.version = text_at(info, "version")
    session.project = text_at(info, "directory")
    session.parent = name_at(info, "parentID")


def _add_message(building: Building, info: Object, parts: Iterable[Object]) -> None:
    """Add one message with its parts; only the model's messages hold calls."""
    session = building.session
    agent = text_at(info, "agent") or text_at(info, "mode")
    session.agent = session.agent or agent
    if info:
        check_keys(building, info, "opencode.info")
    if info.get("role") != "assistant":
        return
    turn = building.turn(name_at(info, "id"))
    turn.model = text_at(info, "modelID") or text_at(info, "model", "modelID")
    turn.at = when(at(info, "time", "completed")) or when(at(info, "time", "created"))
    turn.finish = text_at(info, "finish")
    turn.usage = _usage(at(info, "tokens"))
    for part in parts:
        _add_part(building, turn, part)


def _usage(tokens: object) -> Usage:
    cached = count_at(tokens, "cache", "read")
    usage = usage_in(tokens, "input", "output", "reasoning")
    return replace(usage, prompt_tokens=usage.prompt_tokens + cached, cached_tokens=cached)


def _add_part(building: Building, turn: LoggedTurn, part: Object) -> None:
    check_keys(building, part, "opencode.part")
    kind = part.get("type")
    if kind == "text" and not part.get("synthetic"):
        turn.says(text_at(part, "text"))
    elif kind == "tool":
        check_keys(building, part, "opencode.tool")
        if part.get("tool") == "invalid":
            check_keys(building, part, "opencode.invalid")
        call = _call_of(part)
        # One malformed call can leave many parts behind.
        if call.recorded is Recorded.PENDING and not building.first(turn, call):
            return
        # Before the reply of a call is cut
        rules = _rules_in(call)
        building.called(turn, call)
        known = building.session.rules
        for rule in rules:
            if rule not in known and len(known) < _RULES:
                known.append(rule)


def _call_of(part: Object) -> LoggedCall:
    state = object_at(part, "state")
    arguments = state.get("input")
    output = text_at(state, "error") or text_at(state, "output")
    recorded = _recorded(part, state)
    name = text_at(part, "tool")
    if name == "invalid" and isinstance(arguments, dict):
        name = text_at(arguments, "tool") or name
        output = text_at(arguments, "error") or output
        arguments = _quoted_arguments(output) if recorded is Recorded.MALFORMED else {}
    elif recorded is Recorded.MALFORMED and _is_raw(arguments):
        value = at(arguments, "value")
        arguments = value if isinstance(value, str) else arguments
    began = when(at(state, "time", "start"))
    ended = when(at(state, "time", "end"))
    return LoggedCall(
        call=called(
            name_at(part, "callID"),
            name,
            {} if arguments is None else arguments,
        ),
        recorded=recorded,
        said=output,
        exit_code=code_at(state, "metadata", "exit"),
        seconds=max(ended - began, 0.0) if began and ended else None,
    )


def _is_raw(arguments: object) -> bool:
    """Return True for arguments that stand under `value`, as what could not be parsed does."""
    return isinstance(arguments, dict) and [*arguments] == ["value"]


def _recorded(part: Object, state: Object) -> Recorded:
    status = text_at(state, "status")
    error = text_at(state, "error")
    if part.get("tool") == "invalid":
        error = text_at(state, "input", "error") or error
        return outcome_in(error, "opencode-invalid") or Recorded.MALFORMED
    if status != "error":
        return Recorded.RAN if status in {"completed", "success"} else Recorded.PENDING
    outcome = outcome_in(error, "opencode") or Recorded.TOOL_ERROR
    arguments = state.get("input")
    is_broken = isinstance(arguments, str) or _is_raw(arguments)
    if outcome is Recorded.INVALID_TOOL and is_broken:
        # Where `invalid` is denied too, a name that is offered was given with broken arguments.
        return Recorded.MALFORMED
    return outcome


def _quoted_arguments(error: str) -> str:
    """Return the arguments that could not be read, which the message quotes."""
    _, _, quoted = error.partition("Text: ")
    return quoted.partition("\nError message:")[0].rstrip(".") or error


def _between(text: str, opens: str, closes: str) -> str:
    """Return the text from the first mark to the last."""
    # A pattern would look for the end from each of the firsts
    begin = text.find(opens)
    end = text.rfind(closes)
    return text[begin : end + len(closes)] if 0 <= begin < end else ""


def _rules_in(call: LoggedCall) -> list[Mapping[str, str]]:
    """Return the rules that a denial quotes: a list from 1.1 on, the table of bash in 1.0."""
    if call.recorded is not Recorded.DENIED:
        return []
    listed = _between(call.said, "[{", "}]")
    table = _between(call.said.partition("settings configured: ")[2], "{", "}")
    try:
        if listed:
            quoted = objects(json.loads(listed))
            values = [tuple(text_at(rule, name) for name in _RULE) for rule in quoted]
        else:
            settings = json.loads(table or "{}").items()
            values = [(call.call.name, str(key), str(action)) for key, action in settings]
    except (ValueError, RecursionError, AttributeError):
        return []
    rules = [dict(zip(_RULE, rule, strict=True)) for rule in values]
    return [rule for rule in rules if rule["action"] in _ACTIONS]


class _Tables(NamedTuple):
    """The tables of one generation of OpenCode: of sessions, messages and, in the first, parts."""

    sessions: str
    messages: str
    # The column by which messages stand in their order
    order: str
    # By table, those that are read
    columns: Mapping[str, Sequence[str]]


_SESSION = ("id", "parent_id", "directory", "version", "agent")
_MESSAGE = ("id", "session_id")
_FIRST = _Tables(
    "session",
    "message",
    "time_created",
    {
        "session": _SESSION,
        "message": (*_MESSAGE, "time_created", "data"),
        "part": ("id", "message_id", "data"),
    },
)
_SECOND = _Tables(
    "session_v2",
    "session_message",
    "seq",
    {"session_v2": _SESSION, "session_message": (*_MESSAGE, "seq", "type", "data")},
)
_LIMITS = LIMITS | {
    sqlite3.SQLITE_LIMIT_LENGTH: LONGEST,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 1,
}
# The limits of the process: beside what is read, our own store is written.
_HEAPS = "PRAGMA soft_heap_limit=268435456; PRAGMA hard_heap_limit=536870912;"
# Milliseconds for who writes in it
_BUSY_TIMEOUT = 5_000
# Of SQLite's machine, and one for each byte; a good store takes a tenth
_STEPS = 20_000_000
# Of them, after which they are counted
_STRIDE = 100_000
_DECLARED = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?"


class _SpentError(Exception):
    """A query took more steps than a store of its size can need."""


def _read_database(path: Path, *, is_logged: bool) -> Found:
    """Read a database, opened to read only, with its WAL: what OpenCode has committed is read.

    One that is written by way of a WAL and has none is in use by nobody. Raises OSError if a
    program has locked it: it is to be read another time.
    """
    wal, *others = (path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal"))
    for beside in (wal, *others):
        # SQLite would wait for a pipe without end
        if beside.exists():
            regular(beside).close()
    # A store without its -shm, in a folder that cannot be written, is read as it lies there.
    how = "&immutable=1" if is_logged and not wal.exists() else ""
    reading = _Reading(path, _STEPS + path.stat().st_size)
    try:
        with closing(defended(f"{path.absolute().as_uri()}?mode=ro{how}", _LIMITS)) as store:
            reading.open(store)
            yield from reading.sessions()
    except _SpentError:
        yield Skipped(str(path), "the database", f"given up after {reading.steps:,} steps")
    except FAULTS as error:
        _unless_locked(error)
        yield Skipped(str(path), "the database", str(error) or "no memory for it")


def _unless_locked(error: BaseException) -> None:
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        raise OSError(EBUSY, f"{error}: by a running program") from error


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
    store: Any = None
    steps: int = 0
    # By table, those that it has
    columns: dict[str, Sequence[str]] = field(default_factory=dict)
    faults: list[Skipped] = field(default_factory=list)

    def open(self, store: Any) -> None:
        """Begin to read. From here on it is bounded; all is read as it is now, whoever writes."""
        self.store = store
        store.text_factory = _text
        store.set_progress_handler(self._step, _STRIDE)
        store.executescript(f"{_HEAPS} PRAGMA busy_timeout={_BUSY_TIMEOUT}; BEGIN;")
        generations = [
            tables for tables in (_FIRST, _SECOND) if self._declaration(tables.sessions) is not None
        ]
        for tables in generations or [_FIRST]:
            for table, names in tables.columns.items():
                self._check_table(table, names)
        store.set_authorizer(allowed)

    def _declaration(self, table: str) -> str | None:
        row = self.store.execute(_DECLARED, (table,)).fetchone()
        return None if row is None else str(row[0])

    def _check_table(self, table: str, names: Sequence[str]) -> None:
        """Keep the columns of a table; what only looks like one may compute whatever it likes."""
        declaration = self._declaration(table) or ""
        columns = self.store.execute(f"PRAGMA table_xinfo({table})").fetchall()
        is_hidden = any(column[6] for column in columns)
        if not declaration.startswith("CREATE TABLE ") or is_hidden:
            raise sqlite3.DatabaseError(f"{table} is no plain table that OpenCode made")
        self.columns[table] = [column[1] for column in columns if column[1] in names]

    def _step(self) -> bool:
        """Count steps; return True to stop the query."""
        self.steps += _STRIDE
        return self.steps > self.most_steps

    def sessions(self) -> Found:
        for tables in (_FIRST, _SECOND):
            if tables.sessions not in self.columns:
                continue
            query = f"SELECT id FROM {tables.sessions} ORDER BY id"  # noqa: S608 -- our own
            for name in self._ids("the sessions", query):
                yield from self._session(tables, name)
                yield from self.faults
                self.faults.clear()
        yield from self.faults

    def _session(self, tables: _Tables, name: object) -> Found:
        info = self._row(tables.sessions, name)
        building = Building(Session("")) if info is None else _begun(info, self.path)
        for message in self._ids(
            f"session {name}",
            f"SELECT id FROM {tables.messages} WHERE session_id = CAST(? AS TEXT) "  # noqa: S608
            f"ORDER BY {tables.order}, id",
            name,
        ):
            yield from full_part(building)
            payload = self._payload(tables.messages, message)
            parts = self._parts(message)
            if tables is _SECOND and payload is not None:
                payload, parts = _in_first_form(payload)
            if payload is not None:
                _add_message(building, {**payload, "id": message}, parts)
                yield from take_faults(building, self.path, f"message {message}")
        if info is not None:
            yield building.session

    def _parts(self, message: object) -> Iterator[Object]:
        query = "SELECT id FROM part WHERE message_id = CAST(? AS TEXT) ORDER BY id"
        for name in self._ids(f"message {message}", query, message):
            part = self._payload("part", name)
            if part is not None:
                yield part

    def _ids(self, place: str, query: str, *names: object) -> dict[Any, None]:
        """Return each once, in their order: in a damaged table one row can stand in many places."""
        idents: dict[Any, None] = {}
        try:
            for (ident,) in self.store.execute(query, [*map(_bytes, names)]):
                idents[ident] = None
        except FAULTS as error:
            self._fault(place, error)
        return idents

    def _row(self, table: str, name: object) -> Object | None:
        columns = self.columns[table]
        query = f"SELECT {', '.join(columns)} FROM {table} WHERE id = CAST(? AS TEXT)"  # noqa: S608 -- our own
        try:
            values = self.store.execute(query, (_bytes(name),)).fetchone()
            if values is None:
                raise sqlite3.DatabaseError("no row has its id")
        except FAULTS as error:
            self._fault(f"{table} {name}", error)
            return None
        row = dict(zip(columns, values, strict=True))
        return {**row, "parentID": row.get("parent_id")}

    def _payload(self, table: str, name: object) -> Object | None:
        """Return the JSON of a row; None, and a fault more, where there is none."""
        row = self._row(table, name)
        if row is None:
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

    def _fault(
        self,
        place: str,
        error: BaseException,
        why: str = "",
    ) -> None:
        _unless_locked(error)
        if self.steps > self.most_steps:
            raise _SpentError from error
        reason = TOO_DEEP if isinstance(error, RecursionError) else str(error)
        reason = reason or "no memory for it"
        self.faults.append(Skipped(str(self.path), place, f"{why}{reason}"))


def _in_first_form(message: Object) -> tuple[Object, Iterator[Object]]:
    """Return a message of OpenCode 2 in the form of 1, and its parts, which have other names."""
    model = text_at(message, "model", "id")
    info = {**message, "role": message.get("type"), "modelID": model}
    return info, map(_part_in_first_form, objects(message.get("content")))


def _part_in_first_form(part: Object) -> Object:
    if part.get("type") != "tool":
        return part
    converted: dict[str, Any] = {**part, "callID": part.get("id")}
    if "name" in part:
        converted["tool"] = part["name"]
    state = part.get("state")
    if isinstance(state, dict):
        error = state.get("error")
        if isinstance(error, dict):
            error = ": ".join(filter(None, (text_at(error, "type"), text_at(error, "message"))))
        output = state.get("output") or words(state.get("content"))
        texts = {"error": error, "output": output}
        converted["state"] = {**state, **{key: text for key, text in texts.items() if text}}
    return converted


_MARK = b"SQLite format 3\0"
_PARTS = {"tool_use", "text", "step_start", "step_finish"}
_NO_SESSION = "no session of OpenCode's in it"


def read(path: Path) -> Found:
    """Read a database, a file of `export` or `run`, or the file of a session in a tree."""
    with unpacked_log(path) as file:
        start = file.peek(4096)[:4096]
    if start.startswith(_MARK):
        # By way of a WAL, as the header tells
        yield from _read_database(path, is_logged=start[18:19] == b"\2")
    elif path.parent.parent.name == "session" and b'"messages"' not in start:
        yield from _of_tree(path)
    else:
        with opened_log(path) as text:
            is_run = re.match(rb'\s*\{\s*"type"', text.read(4096))
        yield from _of_run(path) if is_run else _of_export(path)


def _of_export(path: Path) -> Found:
    building = Building(Session("", path=str(path)))
    has_info = False
    numbers = count(1)

    def take(key: str, value: Any) -> Found:
        nonlocal has_info
        if key not in {"info", "messages"}:
            check_keys(building, {key: None}, "opencode.export")
            yield from take_faults(building, path, "the file")
        elif not isinstance(value, dict):
            return
        elif key == "info":
            _fill(building.session, value)
            has_info = True
        else:
            # A part is named by the info, which may come last.
            if has_info:
                yield from full_part(building)
            check_keys(building, value, "opencode.message")
            _add_message(building, object_at(value, "info"), objects(value.get("parts")))
            yield from take_faults(building, path, f"message {next(numbers)}")

    yield from read_members(path, take, "messages")
    if has_info and building.session.id:
        yield building.session
    else:
        yield Skipped(str(path), "the file", _NO_SESSION)


def _of_run(path: Path) -> Found:
    """Read the output of `run --format json`: 1.1 omits failed calls, and none names the model."""
    buildings: dict[str, Building] = {}
    faulty = Building(Session(""))

    def take(value: Object) -> Found:
        part = object_at(value, "part")
        name = name_at(value, "sessionID")
        if name and part:
            session = Session(name, path=str(path))
            building = buildings.setdefault(name, Building(session, faulty.faults))
            yield from _take_event(building, part, when(value.get("timestamp")))
        elif "part" in value or text_at(value, "type") in _PARTS:
            check_keys(faulty, value, "opencode.run")

    yield from read_lines(path, take, faulty)
    for building in buildings.values():
        yield building.session
    if not buildings:
        yield Skipped(str(path), "the file", _NO_SESSION)


def _take_event(
    building: Building,
    part: Object,
    moment: float | None,
) -> Iterator[Session]:
    if text_at(part, "type") not in {"tool", "text"}:
        check_keys(building, part, "opencode.part")
        return
    yield from full_part(building)
    check_keys(building, part, "opencode.run-part")
    turn = building.turn(name_at(part, "messageID"))
    turn.at = moment or turn.at
    _add_part(building, turn, part)


def _of_tree(path: Path) -> Found:
    """Read one session of a tree: its messages and their parts are files, named in their order."""
    root = path.parent.parent.parent
    faults = list[Skipped]()
    info = _file(path, faults)
    building = _begun(info, path)
    if building.session.id:
        loose = [_file(part, faults) for part in sorted((root / "part").glob("*.json"))]
        for file in sorted((root / "message" / building.session.id).glob("*.json")):
            yield from full_part(building)
            message = _file(file, faults)
            name = name_at(message, "id") or file.stem
            parts = [_file(part, faults) for part in sorted((root / "part" / name).glob("*.json"))]
            parts += [part for part in loose if name_at(part, "messageID") == name]
            _add_message(building, message, parts)
            yield from take_faults(building, file, "the message or a part of it")
        yield building.session
    yield from faults


def _file(path: Path, faults: list[Skipped]) -> Object:
    """Return the object in a small file; none, and a fault more, where there is none."""
    try:
        content = small(path)
    except (OSError, ValueError) as error:
        faults.append(Skipped(str(path), "the file", f"no JSON: {error}"))
        return {}
    return content if isinstance(content, dict) else {}
