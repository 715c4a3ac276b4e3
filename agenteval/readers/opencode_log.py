"""OpenCode's sessions: its database, its older tree of files, `export`, and `run --format json`.

What a tool part means is the same in all of them, and differs by version: `opencode_parts` knows.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from agenteval.core.logged import Building, Session, Skipped
from agenteval.readers import opencode_database
from agenteval.readers.json_documents import walked
from agenteval.readers.json_source import Line, lines, name_at, objects, take_faults, text_at, when
from agenteval.readers.log_bytes import opened, small, unpacked
from agenteval.readers.opencode_parts import Object, begun, fill, message_of, part_of

_MARK = b"SQLite format 3\0"
_PARTS = {"tool_use", "text", "step_start", "step_finish"}
_NO_SESSION = "no session of OpenCode's in it"


def read(path: Path) -> Iterator[Session | Skipped]:
    """A database, a file of `export` or `run`, a folder of storage, or one session's file in it."""
    if path.is_dir():
        for found in sorted(path.glob("session/*/*.json")):
            yield from _of_tree(found)
        return
    with unpacked(path) as file:
        start = file.peek(4096)[:4096]
    if start.startswith(_MARK):
        yield from opencode_database.read(path, is_logged=start[18:19] == b"\2")
    elif path.parent.parent.name == "session" and b'"messages"' not in start:
        yield from _of_tree(path)
    else:
        with opened(path) as text:
            is_run = re.match(rb'\s*\{\s*"type"', text.read(4096))
        yield from _of_run(path) if is_run else _of_export(path)


def _of_export(path: Path) -> Iterator[Session | Skipped]:
    building, has_info, number = Building(Session("", path=str(path))), False, 0
    for item in walked(path, "messages"):
        if isinstance(item, Skipped):
            yield item
            continue
        key, value = item
        if key == "info" and isinstance(value, dict):
            fill(building.session, value)
            has_info = True
        elif key not in {"info", "messages"}:
            building.may_have({key: None}, "messages")
            yield from take_faults(building, path, "the file")
        elif key == "messages" and isinstance(value, dict):
            if has_info and (whole := building.whole()) is not None:  # no part without its name
                yield whole
            number += 1
            building.needs(value, "info", "parts")
            message_of(building, _object(value, "info"), objects(value.get("parts")))
            yield from take_faults(building, path, f"message {number}")
    if has_info and building.session.id:
        yield building.session
    else:
        yield Skipped(str(path), "the file", _NO_SESSION)


def _object(value: Object, key: str) -> Object:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _of_run(path: Path) -> Iterator[Session | Skipped]:
    """Read the output of `run --format json`: 1.1 omits failed calls, and none names the model."""
    buildings: dict[str, Building] = {}
    for line in lines(path):
        if not isinstance(line, Line):
            yield line
            continue
        part = _object(line.value, "part")
        name = name_at(line.value, "sessionID")
        if not name or not part:
            yield from _unnamed(line, path)
            continue
        building = buildings.setdefault(name, Building(Session(name, path=str(path))))
        if text_at(part, "type") in {"tool", "text"}:
            if (whole := building.whole()) is not None:
                yield whole
            building.may_have(part, "messageID")
            turn = building.turn(name_at(part, "messageID"))
            turn.at = when(line.value.get("timestamp")) or turn.at
            part_of(building, turn, part)
        else:
            building.needs(part, "type")
        yield from take_faults(building, path, f"line {line.number}")
    yield from (one.session for one in buildings.values())
    if not buildings:
        yield Skipped(str(path), "the file", _NO_SESSION)


def _unnamed(line: Line, path: Path) -> Iterator[Skipped]:
    """Report an event that has a part but no session, or a session but no part."""
    building = Building(Session(""))
    if "part" in line.value or text_at(line.value, "type") in _PARTS:
        building.needs(line.value, "sessionID", "part")
    yield from take_faults(building, path, f"line {line.number}")


def _of_tree(path: Path) -> Iterator[Session | Skipped]:
    """One session of a tree: its messages and their parts are files, named in their order."""
    root, faults = path.parent.parent.parent, list[Skipped]()
    info = _file(path, faults)
    building = begun(info, path)
    if building.session.id:
        loose = [_file(part, faults) for part in sorted((root / "part").glob("*.json"))]
        for file in sorted((root / "message" / building.session.id).glob("*.json")):
            if (whole := building.whole()) is not None:
                yield whole
            message = _file(file, faults)
            name = name_at(message, "id") or file.stem
            parts = [_file(part, faults) for part in sorted((root / "part" / name).glob("*.json"))]
            parts += [part for part in loose if name_at(part, "messageID") == name]
            message_of(building, message, parts)
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
