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
from typing import Any

from agenteval.logs.json import (
    LONGEST,
    Found,
    Line,
    Object,
    at,
    code_at,
    count_at,
    full_part,
    name_at,
    nested,
    objects,
    read_lines,
    read_members,
    take_faults,
    text_at,
    usage_in,
    when,
    words,
)
from agenteval.logs.packed import opened_log, regular, small, unpacked_log
from agenteval.logs.tool_calls import TOO_MANY, called, has_too_many, is_deep
from agenteval.sandbox.inside.inquiry import FAULTS, LIMITS, allowed, defended
from agenteval.trial.session import Building, LoggedCall, LoggedTurn, Recorded, Session, Skipped
from agenteval.trial.trial import Usage

_DENIED = re.compile(
    r"specifically restricted access|rule which prevents|PermissionDeniedError"
    # The last one is our hook's
    r"|Permission denied: |\A(?:Error: )?Denied by the allow list "
)
_REJECTED = re.compile(r"PermissionRejectedError|user rejected permission|PermissionCorrectedError")
_INVALID = re.compile(r"call unavailable tool|NoSuchToolError")
_MALFORMED = re.compile(
    r"was called with invalid arguments|Invalid input for tool|JSON parsing failed"
)
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
        building.needs(info, "role")
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
    building.needs(part, "type")
    kind = part.get("type")
    if kind == "text" and not part.get("synthetic"):
        turn.says(text_at(part, "text"))
    elif kind == "tool":
        _check_tool_part(building, part)
        call = _call_of(part)
        # One malformed call can leave many parts behind.
        if call.recorded is Recorded.PENDING and not building.first(turn, call):
            return
        rules = _rules_in(call)
        building.called(turn, call)
        known = building.session.rules
        for rule in rules:
            if rule not in known and len(known) < _RULES:
                known.append(rule)


def _check_tool_part(building: Building, part: Object) -> None:
    building.needs(part, "tool", "state")
    for state in nested(part, "state"):
        building.needs(state, "status", "input")
        building.may_have(state, "error", "output", "metadata", "time")
        if part.get("tool") == "invalid":
            for arguments in nested(state, "input"):
                building.may_have(arguments, "tool", "error")


def _call_of(part: Object) -> LoggedCall:
    state = _object(part, "state")
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
        call=called(name_at(part, "callID"), name, {} if arguments is None else arguments),
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
        return Recorded.INVALID_TOOL if _INVALID.search(error) else Recorded.MALFORMED
    if status != "error":
        return Recorded.RAN if status in {"completed", "success"} else Recorded.PENDING
    return _refused(error, state.get("input"))


def _refused(error: str, arguments: object) -> Recorded:
    if _MALFORMED.search(error):
        return Recorded.MALFORMED
    if _INVALID.search(error):
        # Where `invalid` is denied too, a name that is offered was given with broken arguments.
        is_broken = isinstance(arguments, str) or _is_raw(arguments)
        return Recorded.MALFORMED if is_broken else Recorded.INVALID_TOOL
    if _REJECTED.search(error):
        return Recorded.REJECTED
    return Recorded.DENIED if _DENIED.search(error) else Recorded.TOOL_ERROR


def _quoted_arguments(error: str) -> str:
    """The arguments that could not be read, which the message quotes."""
    _, _, quoted = error.partition("Text: ")
    return quoted.partition("\nError message:")[0].rstrip(".") or error


def _between(text: str, opens: str, closes: str) -> str:
    """From the first mark to the last; a pattern would look for the end from each of the firsts."""
    begin = text.find(opens)
    end = text.rfind(closes)
    return text[begin : end + len(closes)] if 0 <= begin < end else ""


def _rules_in(call: LoggedCall) -> list[Mapping[str, str]]:
    """Return the rules that a denial quotes: a list from 1.1 on, the table of bash in 1.0."""
    if call.recorded is not Recorded.DENIED:
        return []
    listed = _between(call.said, "[{", "}]")
    table = _between(call.said.partition("settings configured: ")[2], "{", "}")
    rules: list[Mapping[str, str]] = []
    try:
        if listed:
            for quoted in objects(json.loads(listed)):
                values = [text_at(quoted, name) for name in _RULE]
                rules.append(dict(zip(_RULE, values, strict=True)))
        else:
            settings = json.loads(table or "{}")
            for key, action in settings.items():
                rule = (call.call.name, str(key), str(action))
                rules.append(dict(zip(_RULE, rule, strict=True)))
    except (ValueError, RecursionError, AttributeError):
        return []
    return [rule for rule in rules if rule["action"] in _ACTIONS]


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
# Milliseconds for who writes in it
_BUSY_TIMEOUT = 5_000
# Of SQLite's machine, and one for each byte; a good store takes a tenth
_STEPS = 20_000_000
# Of them, after which they are counted
_STRIDE = 100_000
_DECLARED = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?"
# By the table of sessions: the ids of all, and of the messages of one.
_SESSIONS = {
    "session": "SELECT id FROM session ORDER BY id",
    "session_v2": "SELECT id FROM session_v2 ORDER BY id",
}
_MESSAGES = {
    "session": (
        "SELECT id FROM message WHERE session_id = CAST(? AS TEXT) ORDER BY time_created, id"
    ),
    "session_v2": (
        "SELECT id FROM session_message WHERE session_id = CAST(? AS TEXT) ORDER BY seq, id"
    ),
}
_PART_IDS = "SELECT id FROM part WHERE message_id = CAST(? AS TEXT) ORDER BY id"


class _SpentError(Exception):
    """It takes more steps than a store of its size has any use for."""


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

    def sessions(self, store: Any) -> Found:
        for table, query in _SESSIONS.items():
            names = self._ids(store, "the sessions", query) if table in self.columns else {}
            for name in names:
                yield from self._session(store, table, name)
                yield from self.faults
                self.faults.clear()
        yield from self.faults

    def _session(self, store: Any, table: str, name: object) -> Found:
        info = self._row(store, table, name)
        building = Building(Session("")) if info is None else _begun(info, self.path)
        for message in self._ids(store, f"session {name}", _MESSAGES[table], name):
            yield from full_part(building)
            if table == "session":
                payload = self._payload(store, "message", message)
                parts = self._parts(store, message)
            else:
                row = self._payload(store, "session_message", message)
                payload, parts = (None, iter(())) if row is None else _in_first_form(row)
            if payload is not None:
                _add_message(building, {**payload, "id": message}, parts)
                yield from take_faults(building, self.path, f"message {message}")
        if info is not None:
            yield building.session

    def _parts(self, store: Any, message: object) -> Iterator[Object]:
        for part in self._ids(store, f"message {message}", _PART_IDS, message):
            found = self._payload(store, "part", part)
            if found is not None:
                yield found

    def _ids(
        self,
        store: Any,
        where: str,
        query: str,
        *of: object,
    ) -> dict[Any, None]:
        """Each once, in their order: of a damaged table one row can stand in many places."""
        idents: dict[Any, None] = {}
        try:
            for (one,) in store.execute(query, [_bytes(each) for each in of]):
                idents[one] = None
        except FAULTS as error:
            self._fault(where, error)
        return idents

    def _row(
        self,
        store: Any,
        table: str,
        name: object,
    ) -> Object | None:
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

    def _payload(
        self,
        store: Any,
        table: str,
        name: object,
    ) -> Object | None:
        row = self._row(store, table, name)
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
        at: str,
        error: BaseException,
        why: str = "",
    ) -> None:
        _unless_locked(error)
        if self.steps > self.most_steps:
            raise _SpentError from error
        said = "nested too deep" if isinstance(error, RecursionError) else str(error)
        self.faults.append(Skipped(str(self.path), at, f"{why}{said or 'no memory for it'}"))


def _in_first_form(message: Object) -> tuple[Object, Iterator[Object]]:
    """Return a message of OpenCode 2 in the form of 1, and its parts, which have other names."""
    info = {
        **message,
        "role": message.get("type"),
        "modelID": text_at(message, "model", "id"),
    }
    return info, (_part_in_first_form(part) for part in objects(message.get("content")))


def _part_in_first_form(part: Object) -> Object:
    if part.get("type") != "tool":
        return part
    converted: Object = {**part, "callID": part.get("id")}
    if "name" in part:
        converted = {**converted, "tool": part["name"]}
    state = part.get("state")
    if isinstance(state, dict):
        error = state.get("error")
        output = state.get("output")
        if isinstance(error, dict):
            error = ": ".join(
                filter(
                    None,
                    (text_at(error, "type"), text_at(error, "message")),
                )
            )
        texts = {"error": error, "output": output or words(state.get("content"))}
        converted = {
            **converted,
            "state": {**state, **{key: text for key, text in texts.items() if text}},
        }
    return converted


_MARK = b"SQLite format 3\0"
_PARTS = {"tool_use", "text", "step_start", "step_finish"}
_NO_SESSION = "no session of OpenCode's in it"


def read(path: Path) -> Found:
    """A database, a file of `export` or `run`, a folder of storage, or one session's file in it."""
    if path.is_dir():
        for found in sorted(path.glob("session/*/*.json")):
            yield from _of_tree(found)
        return
    with unpacked_log(path) as file:
        start = file.peek(4096)[:4096]
    if start.startswith(_MARK):
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
            building.may_have({key: None}, "messages")
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
            building.needs(value, "info", "parts")
            _add_message(building, _object(value, "info"), objects(value.get("parts")))
            yield from take_faults(building, path, f"message {next(numbers)}")

    yield from read_members(path, take, "messages")
    if has_info and building.session.id:
        yield building.session
    else:
        yield Skipped(str(path), "the file", _NO_SESSION)


def _object(value: Object, key: str) -> Object:
    return next(iter(nested(value, key)), {})


def _of_run(path: Path) -> Found:
    """Read the output of `run --format json`: 1.1 omits failed calls, and none names the model."""
    buildings: dict[str, Building] = {}
    unnamed = Building(Session(""))

    def take(line: Line) -> Found:
        part = _object(line.value, "part")
        name = name_at(line.value, "sessionID")
        building = unnamed
        if name and part:
            building = buildings.setdefault(
                name,
                Building(Session(name, path=str(path))),
            )
            yield from _take_event(building, part, when(line.value.get("timestamp")))
        elif "part" in line.value or text_at(line.value, "type") in _PARTS:
            building.needs(line.value, "sessionID", "part")
        yield from take_faults(building, path, f"line {line.number}")

    yield from read_lines(path, take)
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
        building.needs(part, "type")
        return
    yield from full_part(building)
    building.may_have(part, "messageID")
    turn = building.turn(name_at(part, "messageID"))
    turn.at = moment or turn.at
    _add_part(building, turn, part)


def _of_tree(path: Path) -> Found:
    """One session of a tree: its messages and their parts are files, named in their order."""
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
    """The object in a small file; none, and a fault more, where there is none."""
    try:
        content = small(path)
    except (OSError, ValueError) as error:
        faults.append(Skipped(str(path), "the file", f"no JSON: {error}"))
        return {}
    return content if isinstance(content, dict) else {}
