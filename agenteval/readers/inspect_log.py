"""Inspect's logs, where a sample is a session: `.eval`, an archive of files, and `.json`."""

import io
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agenteval.core.logged import Building, LoggedCall, Recorded, Session, Skipped
from agenteval.core.trial import Usage
from agenteval.formats.tool_calls import called
from agenteval.readers.json_source import (
    LONGEST,
    at,
    count_at,
    objects,
    text_at,
    walked,
    when,
    words,
)

Object = Mapping[str, Any]
_ERRORS = {
    "approval": Recorded.DENIED,
    "parsing": Recorded.MALFORMED,
}
_BAD_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def read(path: Path) -> Iterator[Session | Skipped]:
    with path.open("rb") as file:
        is_archive = file.read(2) == b"PK"
    yield from _of_archive(path) if is_archive else _of_json(path)


def _of_json(path: Path) -> Iterator[Session | Skipped]:
    head: dict[str, Any] = {}
    for one in walked(path, "samples"):
        if isinstance(one, Skipped):
            yield one
        elif one[0] == "samples" and isinstance(one[1], dict):
            yield _sample(head, one[1], path)
        elif one[0] == "eval" and isinstance(one[1], dict):
            head = one[1]


def _of_archive(path: Path) -> Iterator[Session | Skipped]:
    """Without its end an archive has no list of its files: nothing of it can be read."""
    try:
        archive = zipfile.ZipFile(path)
    except _BAD_ZIP as error:
        yield Skipped(str(path), "the archive", f"cut off, or no ZIP: {error}")
        return
    with archive:
        names = archive.namelist()
        starts = [n for n in ("header.json", "_journal/start.json") if n in names]
        head: Any = {}
        for name in (*starts[:1], *sorted(n for n in names if n.startswith("samples/"))):
            if archive.getinfo(name).file_size > 4 * LONGEST:
                yield Skipped(str(path), name, f"more than {4 * LONGEST:,} bytes")
                continue
            try:
                with io.TextIOWrapper(archive.open(name), "utf-8", "surrogateescape") as file:
                    found = json.load(file)
            except (ValueError, RecursionError, KeyError, OSError, *_BAD_ZIP) as error:
                yield Skipped(str(path), name, str(error))
                continue
            if name in starts:
                head = at(found, "eval") or {}
            elif isinstance(found, dict):
                yield _sample(head, found, path)


def _sample(head: Object, sample: Object, path: Path) -> Session:
    packages = head.get("packages")
    named = f"{text_at(head, 'run_id') or path.stem}/{sample.get('id')}/{sample.get('epoch')}"
    building = Building(
        Session(
            id=text_at(sample, "uuid") or named,
            agent=text_at(head, "solver") or "main",
            model=text_at(head, "model"),
            version=text_at(packages, "inspect_ai"),
            project=text_at(head, "task"),
            path=str(path),
        )
    )
    began = when(head.get("created"))
    times = _times(sample)
    for message in objects(sample.get("messages")):
        if message.get("role") == "assistant":
            _turn(building, message, times.get(text_at(message, "id"), began))
        elif message.get("role") == "tool":
            _result(building, message)
    _events(building, sample)
    return building.session


def _times(sample: Object) -> dict[str, float | None]:
    """When each reply came, by its message's id."""
    return {
        text_at(choice, "message", "id"): when(event.get("timestamp"))
        for event in objects(sample.get("events"))
        if event.get("event") == "model"
        for choice in objects(at(event, "output", "choices"))
    }


def _turn(building: Building, message: Object, moment: float | None) -> None:
    turn = building.turn()
    turn.text, turn.at = words(message.get("content")), moment
    turn.usage = Usage(
        prompt_tokens=count_at(message, "usage", "input_tokens"),
        completion_tokens=count_at(message, "usage", "output_tokens"),
    )
    for one in objects(message.get("tool_calls")):
        given = at(one, "arguments")
        call = called(text_at(one, "id"), text_at(one, "function"), {} if given is None else given)
        recorded = Recorded.MALFORMED if one.get("parse_error") else Recorded.PENDING
        building.called(turn, LoggedCall(call, recorded))


def _result(building: Building, message: Object) -> None:
    found = building.answered(text_at(message, "tool_call_id"))
    if found is None:
        return
    kind, said = text_at(message, "error", "type"), text_at(message, "error", "message")
    found.said = said or words(message.get("content"))
    if found.recorded is Recorded.PENDING:
        found.recorded = _ERRORS.get(kind, Recorded.TOOL_ERROR) if kind else Recorded.RAN
        if kind == "parsing" and "not found" in said:
            found.recorded = Recorded.INVALID_TOOL


def _events(building: Building, sample: Object) -> None:
    """Who decided: a call that a person rejected was denied by no rule."""
    by_person = {
        text_at(event, "call", "id")
        for event in objects(sample.get("events"))
        if event.get("event") == "approval"
        and text_at(event, "decision") in {"reject", "terminate"}
        and event.get("approver") == "human"
    }
    for call in building.session.calls:
        if call.recorded is Recorded.DENIED and call.call.id in by_person:
            call.recorded = Recorded.REJECTED
