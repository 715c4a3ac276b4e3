"""Inspect's logs, where a sample is a session: `.eval`, an archive of files, and `.json`."""

import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any

from agenteval.logs.json import (
    Found,
    Object,
    at,
    call_at,
    check_keys,
    name_at,
    objects,
    outcome_in,
    take_faults,
    text_at,
    usage_in,
    walked,
    walked_bytes,
    when,
    words,
)
from agenteval.logs.packed import AT_ONCE, Allowance, Bounded, by_place, regular
from agenteval.trial.session import Building, LoggedCall, Recorded, Session, Skipped

_LISTS = ("messages", "events")
# Turns of a sample, and events that are held of it
_MOST = 20_000
_ATTACHED = "attachment://"
# The keys of an event that are held
_OF_CALLS = (
    "id",
    "function",
    "arguments",
    "result",
    "error",
    "timestamp",
    "working_time",
)
# As a ZIP names it
_ZSTD = 93
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTD)
_UNPACK = (
    "packed by zstd, which Python reads from 3.14 on: "
    "`inspect log convert --to json --output-dir DIR FILE` unpacks"
)
_BAD_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
)


def read(path: Path) -> Found:
    with regular(path) as file:
        is_archive = file.peek(2)[:2] == b"PK"
    yield from _of_archive(path) if is_archive else _of_json(path)


def _of_json(path: Path) -> Found:
    head = dict[str, Any]()
    top = Building(Session(""))
    for item in walked(path, "samples"):
        if isinstance(item, Skipped):
            yield item
            continue
        key, value = item
        if key == "samples" and isinstance(value, dict):
            sample = _sample(head, _members(value), path)
            yield sample.session
            yield from take_faults(sample, path, f"sample {sample.session.id}")
        elif key == "eval" and isinstance(value, dict):
            head = value
        else:
            check_keys(top, {key: None}, "inspect.top")
            yield from take_faults(top, path, "the file")


def _members(sample: Object) -> Iterator[tuple[str, Any]]:
    """Yield the keys of a sample with their values, and of its lists each element by itself."""
    for key, value in sample.items():
        is_list = key in _LISTS and isinstance(value, list)
        for part in value if is_list else [value]:
            yield key, part


def _of_archive(path: Path) -> Found:
    """Without its end an archive has no list of its files: nothing of it can be read."""
    with regular(path) as file:
        try:
            archive = zipfile.ZipFile(file)
        except _BAD_ZIP as error:
            yield Skipped(str(path), "the archive", f"cut off, or no ZIP: {error}")
            return
        names = archive.namelist()
        starts = [name for name in ("header.json", "_journal/start.json") if name in names]
        samples = sorted(name for name in names if name.startswith("samples/"))
        head: Any = {}
        allowance = Allowance.of(os.fstat(file.fileno()).st_size)
        for name in (*starts[:1], *samples):
            faults = list[Skipped]()
            members = _member(archive, name, path, faults, allowance)
            if name in starts:
                evals = (value for key, value in members if key == "eval")
                head = next(evals, {})
            else:
                sample = _sample(head, members, path)
                if sample.session.turns or not faults:
                    yield sample.session
                yield from take_faults(sample, path, name)
            yield from faults
            if allowance.remaining < 0:
                return


def _member(
    archive: zipfile.ZipFile, name: str, path: Path, faults: list[Skipped], allowance: Allowance
) -> Iterator[tuple[str, Any]]:
    """Yield the keys of one file of an archive, unpacked as they are read: it may be large."""
    packing = archive.getinfo(name).compress_type
    try:
        # Unpacked at once by Python, whatever comes of it
        if packing not in _PACKINGS:
            raise NotImplementedError(f"packed in a way ({packing}) that Inspect does not use")
        with BufferedReader(Bounded(archive.open(name), allowance), AT_ONCE) as file:
            for item in walked_bytes(file, str(path), f"{name}: ", *_LISTS):
                if isinstance(item, Skipped):
                    faults.append(item)
                else:
                    yield item
    except (ValueError, KeyError, OSError, *_BAD_ZIP) as error:
        is_zstd = isinstance(error, NotImplementedError) and packing == _ZSTD
        why = _UNPACK if is_zstd else str(error)
        faults.append(
            Skipped(
                str(path),
                name,
                why,
            )
        )


def _sample(
    head: Object,
    members: Iterable[tuple[str, Any]],
    path: Path,
) -> Building:
    """Build one sample from its keys as they come; the items of a list come one by one."""
    building = Building(Session("", path=str(path)))
    ids: dict[str, Any] = {}
    events = _Events()
    for key, value in members:
        if key == "messages" and isinstance(value, dict):
            _message(building, value)
        elif key == "events" and isinstance(value, dict):
            events.take(value)
        elif key == "attachments" and isinstance(value, dict):
            events.attached = value
        elif key in {"id", "epoch", "uuid"} and isinstance(value, str | int):
            ids[key] = value
        else:
            check_keys(building, {key: None}, "inspect.sample")
    session = building.session
    named = f"{name_at(head, 'run_id') or by_place(path)}/{ids.get('id')}/{ids.get('epoch')}"
    session.id = name_at(ids, "uuid") or named
    session.agent = text_at(head, "solver") or "main"
    session.model = text_at(head, "model")
    session.version = text_at(head, "packages", "inspect_ai")
    session.project = text_at(head, "task")
    events.complete(building, when(at(head, "created")))
    return building


def _message(building: Building, message: Object) -> None:
    check_keys(building, message, "inspect.message")
    role = message.get("role")
    if role == "assistant" and len(building.session.turns) < _MOST:
        check_keys(building, message, "inspect.calls")
        turn = building.turn(name_at(message, "id"))
        turn.says(words(message.get("content")))
        for item in objects(message.get("tool_calls")):
            recorded = Recorded.MALFORMED if item.get("parse_error") else Recorded.PENDING
            building.called(turn, _call(item, recorded))
    elif role == "tool":
        call = building.take_call(name_at(message, "tool_call_id"))
        if call:
            check_keys(building, message, "inspect.error")
            _record(
                building,
                call,
                message.get("error"),
                words(message.get("content")),
            )


def _call(item: Object, recorded: Recorded) -> LoggedCall:
    return LoggedCall(
        call_at(
            item,
            "id",
            "function",
            "arguments",
        ),
        recorded,
    )


def _record(
    building: Building,
    call: LoggedCall,
    error: object,
    result: str,
) -> None:
    kind = text_at(error, "type")
    message = text_at(error, "message")
    building.set_reply(call, message or result)
    if call.recorded is not Recorded.PENDING:
        return
    call.recorded = Recorded.RAN
    if kind:
        call.recorded = outcome_in(f"{kind}: {message}", "inspect") or Recorded.TOOL_ERROR


@dataclass(slots=True)
class _Events:
    """The facts in a sample's events that its messages lack: times, costs, and who decided.

    Calls of sub-agents, and those that were removed from a long conversation, stand here alone.
    """

    # By the id of the message
    replies: dict[str, Object] = field(default_factory=dict)
    calls: list[Object] = field(default_factory=list)
    # By a person, of calls
    decided: dict[str, str] = field(default_factory=dict)
    # Long texts, for which a mark stands in the events
    attached: Mapping[str, str] = field(default_factory=dict)

    def take(self, event: Object) -> None:
        kind = event.get("event")
        if kind == "model":
            known = {"at": event.get("completed") or event.get("timestamp")}
            known["usage"] = at(event, "output", "usage")
            for choice in objects(at(event, "output", "choices")):
                self.replies[name_at(choice, "message", "id")] = known
        elif kind == "tool" and len(self.calls) < _MOST:
            self.calls.append({key: event.get(key) for key in _OF_CALLS})
        elif (kind, event.get("approver")) == ("approval", "human"):
            self.decided[name_at(event, "call", "id")] = text_at(event, "decision")

    def complete(
        self,
        building: Building,
        began: float | None,
    ) -> None:
        """Add the facts to the sample once it is read."""
        for name, turn in building.named():
            reply = self.replies.get(name, {})
            turn.at = when(reply.get("at")) or began
            turn.usage = usage_in(
                reply.get("usage"),
                "input_tokens",
                "output_tokens",
            )
        calls_by_id: dict[str, list[LoggedCall]] = {}
        for call in building.session.calls:
            calls_by_id.setdefault(call.call.id, []).append(call)
        for event in self.calls:
            own = calls_by_id.get(name_at(event, "id"))
            if own:
                own.pop(0).seconds = _seconds(event.get("working_time"))
            else:
                self._add_call(building, event)
        for call in building.session.calls:
            by_person = self.decided.get(call.call.id) in {"reject", "terminate"}
            if call.recorded is Recorded.DENIED and by_person:
                call.recorded = Recorded.REJECTED

    def _add_call(
        self,
        building: Building,
        event: Object,
    ) -> None:
        turn = building.turn()
        turn.at = when(event.get("timestamp"))
        whole = self._with_attachments(event)
        call = _call(whole, Recorded.PENDING)
        call.seconds = _seconds(event.get("working_time"))
        _record(
            building,
            call,
            event.get("error"),
            words(whole.get("result")),
        )
        turn.calls.append(call)

    def _with_attachments(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._with_attachments(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._with_attachments(inner) for inner in value]
        if isinstance(value, str) and value.startswith(_ATTACHED):
            return self.attached.get(value.removeprefix(_ATTACHED), value)
        return value


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e9 else None
