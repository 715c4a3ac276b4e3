"""JSON as programs leave it behind: half-written, mixed, huge; a line at a time."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from agenteval.core.logged import Building, Skipped
from agenteval.formats.packed import UNREADABLE
from agenteval.formats.tool_calls import DEEPEST, TOO_DEEP, excess, is_deep
from agenteval.readers.json_documents import DECODER, DEEP, LONGEST
from agenteval.readers.log_bytes import opened

_AT_ONCE = 1 << 18
_BLANKS = re.compile(r"[\s,]*")


class Line(NamedTuple):
    number: int  # from 1
    value: Mapping[str, Any]


def lines(path: Path) -> Iterator[Line | Skipped]:
    """The object of each line; a line that is none, or cut off, is skipped."""
    number = 0
    with opened(path) as file:
        try:
            while content := file.readline(LONGEST):
                number += 1
                if len(content) >= LONGEST and not content.endswith(b"\n"):
                    _drain(file)
                    yield Skipped(str(path), f"line {number}", f"longer than {LONGEST:,} bytes")
                elif why := excess(content):
                    yield Skipped(str(path), f"line {number}", why)
                elif (value := _object(content)) is not None:
                    content = b""  # not held beside the value
                    yield Line(number, value)
                elif not content.isspace():
                    yield from _line(path, number, content.decode("utf-8", "surrogateescape"))
        except UNREADABLE as error:
            yield Skipped(str(path), f"line {number + 1}", f"cannot be read on: {error}")


def take_faults(building: Building, path: Path, place: str) -> Iterator[Skipped]:
    """Yield the faults of the thing at this place as skipped parts, and clear them."""
    for fault in building.faults:
        yield Skipped(str(path), place, fault)
    building.faults.clear()


def _drain(file: BinaryIO) -> None:
    while (rest := file.readline(_AT_ONCE)) and not rest.endswith(b"\n"):
        pass


def _object(content: bytes) -> dict[str, Any] | None:
    """Decode a line as most lines are; return None for one that needs a closer look."""
    try:
        value = msgspec.json.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(value, dict):
        return None
    brackets = content.count(b"{") + content.count(b"[")
    return None if brackets > DEEPEST and is_deep(value) else value


def _line(path: Path, number: int, text: str) -> Iterator[Line | Skipped]:
    """Mostly one object; two where one was written without the end of its line."""
    start = 0
    while (blank := _BLANKS.match(text, start)) and blank.end() < len(text):
        try:
            value, start = DECODER.raw_decode(text, blank.end())
        except (ValueError, RecursionError, MemoryError) as error:
            cut = "cut off, or half written: " if not text.endswith("\n") else ""
            yield Skipped(str(path), f"line {number}", f"{cut}{_why(error)}")
            return
        value = DEEP if is_deep(value) else value
        if isinstance(value, dict):
            yield Line(number, value)
        else:
            why = TOO_DEEP if value is DEEP else f"no object, but {type(value).__name__}"
            yield Skipped(str(path), f"line {number}", why)


def _why(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "more than there is memory for"
    return TOO_DEEP if isinstance(error, RecursionError) else f"no JSON: {error}"


def at(value: Any, *path: str) -> Any:
    """Return the value at this path; None if there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text_at(value: Any, key: str, *path: str) -> str:
    """The text that stands there; empty where there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    found = at(found, *path) if path else found
    return found if isinstance(found, str) else ""


def name_at(value: Any, key: str, *path: str) -> str:
    """The id that stands there, which may be a whole number; empty where there is none."""
    found = at(value, key, *path) if path or not isinstance(value, dict) else value.get(key)
    return str(found) if type(found) in {str, int} else ""


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; none where it is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def count_at(value: Any, *path: str) -> int:
    return max(code_at(value, *path) or 0, 0)


def code_at(value: Any, *path: str) -> int | None:
    """The exit code that stands there, where it can be one."""
    found = at(value, *path)
    is_one = isinstance(found, int) and not isinstance(found, bool) and abs(found) < 1 << 31
    return found if is_one else None


def words(content: Any) -> str:
    """The text of a message: a text itself, or that of its blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(
        text for one in objects(content) if (text := text_at(one, "text") or text_at(one, "output"))
    )


def when(value: Any) -> float | None:
    """Seconds since 1970: of a text, or of a number in seconds, milli- or nanoseconds."""
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError):
            return when(int(value)) if value.isdecimal() and len(value) < 20 else None
        return found if found > 0 else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e20:
        return None
    return value / (1e9 if value > 1e17 else 1e3 if value > 1e11 else 1.0)
