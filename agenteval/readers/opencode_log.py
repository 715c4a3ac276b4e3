"""OpenCode's sessions: its database, its older tree of files, `export`, and `run --format json`.

What a tool part means is the same in all of them, and differs by version: `opencode_parts` knows.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from errno import EBUSY
from pathlib import Path

from agenteval.core.logged import Building, LoggedTurn, Recorded, Session, Skipped
from agenteval.core.trial import Usage
from agenteval.readers.json_source import (
    LONGEST,
    Line,
    at,
    count_at,
    lines,
    objects,
    text_at,
    walked,
    when,
)
from agenteval.readers.log_bytes import regular, small, unpacked
from agenteval.readers.opencode_parts import Object, call_of, rules_in

_MARK = b"SQLite format 3\0"
_RULES = 1_000  # that are kept of a session: each is looked for among the others


def read(path: Path) -> Iterator[Session | Skipped]:
    """A database, a file of `export` or `run`, a folder of storage, or one session's file in it."""
    if path.is_dir():
        for found in sorted(path.glob("session/*/*.json")):
            yield from _of_tree(found)
        return
    with unpacked(path) as file:
        start = file.peek(4096)[:4096]
    if start.startswith(_MARK):
        yield from _of_database(path, is_logged=start[18:19] == b"\2")
    elif path.parent.parent.name == "session" and b'"messages"' not in start:
        yield from _of_tree(path)
    elif re.match(rb'(?:\xef\xbb\xbf)?\s*\{\s*"type"', start):
        yield from _of_run(path)
    else:
        yield from _of_export(path)


def _begun(info: Object, path: Path) -> Building:
    return Building(
        Session(
            id=text_at(info, "id"),
            agent=text_at(info, "agent"),
            version=text_at(info, "version"),
            project=text_at(info, "directory"),
            parent=text_at(info, "parentID"),
            path=str(path),
        )
    )


def _message(building: Building, info: Object, parts: Iterable[Object]) -> None:
    """One message with its parts; only the model's hold calls."""
    session = building.session
    agent = text_at(info, "agent") or text_at(info, "mode")
    session.agent = session.agent or agent
    if info.get("role") != "assistant":
        return
    turn = building.turn(text_at(info, "id"))
    turn.model = text_at(info, "modelID") or text_at(info, "model", "modelID")
    turn.at = when(at(info, "time", "completed")) or when(at(info, "time", "created"))
    turn.finish = text_at(info, "finish")
    turn.usage = _usage(at(info, "tokens"))
    for part in parts:
        _part(building, turn, part)


def _usage(tokens: object) -> Usage:
    return Usage(
        prompt_tokens=count_at(tokens, "input") + count_at(tokens, "cache", "read"),
        completion_tokens=count_at(tokens, "output"),
        reasoning_tokens=count_at(tokens, "reasoning"),
        cached_tokens=count_at(tokens, "cache", "read"),
    )


def _part(building: Building, turn: LoggedTurn, part: Object) -> None:
    if part.get("type") == "text" and not part.get("synthetic"):
        turn.says(text_at(part, "text"))
    elif part.get("type") == "tool":
        call = call_of(part)
        if call.recorded is Recorded.PENDING and any(
            one.recorded is Recorded.PENDING and one.call.name == call.call.name
            for one in turn.calls
        ):
            return  # one malformed call can leave many parts behind
        building.called(turn, call)
        for rule in rules_in(call):
            if rule not in building.session.rules and len(building.session.rules) < _RULES:
                building.session.rules.append(rule)


def _of_export(path: Path) -> Iterator[Session | Skipped]:
    building, found = Building(Session("", path=str(path))), False
    for one in walked(path, "messages"):
        if isinstance(one, Skipped):
            yield one
            continue
        key, value = one
        if key == "info" and isinstance(value, dict):
            building, found = _begun(value, path), True
        elif key == "messages" and isinstance(value, dict):
            if (whole := building.whole()) is not None:
                yield whole
            _message(building, _object(value, "info"), objects(value.get("parts")))
    if found and building.session.id:
        yield building.session


def _object(value: Object, key: str) -> Object:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _of_run(path: Path) -> Iterator[Session | Skipped]:
    """What `run --format json` prints: 1.1 leaves failed calls out, and nobody names the model."""
    buildings: dict[str, Building] = {}
    for line in lines(path):
        if not isinstance(line, Line):
            yield line
            continue
        part = _object(line.value, "part")
        name = text_at(line.value, "sessionID")
        if not name or not part:
            continue
        building = buildings.setdefault(name, Building(Session(name, path=str(path))))
        if text_at(part, "type") in {"tool", "text"}:
            if (whole := building.whole()) is not None:
                yield whole
            turn = building.turn(text_at(part, "messageID"))
            turn.at = when(line.value.get("timestamp")) or turn.at
            _part(building, turn, part)
    yield from (one.session for one in buildings.values())


def _of_tree(path: Path) -> Iterator[Session | Skipped]:
    """One session of a tree: its messages and their parts are files, named in their order."""
    root, faults = path.parent.parent.parent, list[Skipped]()
    info = _file(path, faults)
    building = _begun(info, path)
    if building.session.id:
        loose = [_file(part, faults) for part in sorted((root / "part").glob("*.json"))]
        for file in sorted((root / "message" / building.session.id).glob("*.json")):
            if (whole := building.whole()) is not None:
                yield whole
            message = _file(file, faults)
            name = text_at(message, "id") or file.stem
            parts = [_file(part, faults) for part in sorted((root / "part" / name).glob("*.json"))]
            parts += [part for part in loose if part.get("messageID") == name]
            _message(building, message, parts)
        yield building.session
    yield from faults


def _file(path: Path, faults: list[Skipped]) -> Object:
    """The object in a small file; none, and a fault more, where there is none."""
    try:
        found = small(path)
    except (OSError, ValueError) as error:
        faults.append(Skipped(str(path), "the file", f"no JSON: {error}"))
        return {}
    return found if isinstance(found, dict) else {}


def _of_database(path: Path, *, is_logged: bool) -> Iterator[Session | Skipped]:
    """Opened to read only, with its WAL: what a running OpenCode has committed is read.

    One that is written by way of a WAL and has none is nobody's at work. Raises OSError where a
    program has locked it: it is to be read another time.
    """
    wal = path.with_name(f"{path.name}-wal")
    if wal.exists():
        regular(wal).close()
    try:
        # A store without its -shm, in a folder that cannot be written, is read as it lies there.
        uri = path.absolute().as_uri()
        how = "&immutable=1" if is_logged and not wal.exists() else ""
        with closing(sqlite3.connect(f"{uri}?mode=ro{how}", uri=True, timeout=5)) as store:
            store.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
            store.row_factory = sqlite3.Row
            store.text_factory = _text
            yield from _sessions(store, path)
    except sqlite3.Error as error:
        if "locked" in str(error):
            raise OSError(EBUSY, f"{error}: by a running program") from error
        yield Skipped(str(path), "the database", str(error))


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _sessions(store: sqlite3.Connection, path: Path) -> Iterator[Session | Skipped]:
    for row in store.execute("SELECT * FROM session ORDER BY id"):
        known = dict(row)
        info = {**known, "parentID": known.get("parent_id")}
        building, faults = _begun(info, path), list[Skipped]()
        load = _loader(path, faults)
        own = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
        for message, data in store.execute(own, (known["id"],)):
            if (whole := building.whole()) is not None:
                yield whole
            of = "SELECT id, data FROM part WHERE message_id = ? ORDER BY id"
            parts = [load(part, text) for part, text in store.execute(of, (message,))]
            _message(building, {**load(message, data), "id": message}, parts)
        yield building.session
        yield from faults


def _loader(path: Path, faults: list[Skipped]) -> Callable[[str, str], Object]:
    def load(name: str, data: str) -> Object:
        try:
            found = json.loads(data)
        except (ValueError, TypeError, RecursionError, MemoryError) as error:
            faults.append(Skipped(str(path), f"row {name}", f"no JSON: {error}"))
            return {}
        return found if isinstance(found, dict) else {}

    return load
