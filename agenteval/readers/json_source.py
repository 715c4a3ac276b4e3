"""JSON as programs leave it behind: half-written, mixed, huge; read piece by piece."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import msgspec

from agenteval.core.logged import Building, Skipped
from agenteval.formats.tool_calls import DEEPEST, TOO_DEEP, UNREADABLE, is_deep
from agenteval.readers.log_bytes import opened

LONGEST = 1 << 25  # characters of one line, or of one value of a document
_AT_ONCE = 1 << 18
_BLANKS = re.compile(r"[\s,]*")
_DEEP: Any = object()
_DECODER = json.JSONDecoder(strict=False)


class Line(NamedTuple):
    number: int  # from 1
    value: Mapping[str, Any]


def lines(path: Path) -> Iterator[Line | Skipped]:
    """The object of each line; a line that is none, or cut off, is skipped."""
    number = 0
    with opened(path) as file:
        try:
            while text := file.readline(LONGEST):
                number += 1
                if len(text) >= LONGEST and not text.endswith("\n"):
                    _drain(file)
                    why = f"longer than {LONGEST:,} characters"
                    yield Skipped(str(path), f"line {number}", why)
                elif (value := _object(text)) is not None:
                    yield Line(number, value)
                elif not text.isspace():
                    yield from _line(path, number, text)
        except UNREADABLE as error:
            yield Skipped(str(path), f"line {number + 1}", f"cannot be read on: {error}")


def lost(building: Building, path: Path, place: str) -> Iterator[Skipped]:
    """What a reader missed of the thing that stands at this place."""
    for fault in building.faults:
        yield Skipped(str(path), place, fault)
    building.faults.clear()


def _drain(file: TextIO) -> None:
    while (rest := file.readline(_AT_ONCE)) and not rest.endswith("\n"):
        pass


def _object(text: str) -> dict[str, Any] | None:
    """What nearly every line is; None of what has to be looked at more closely."""
    try:
        value = _shallow(msgspec.json.decode(text), text, 0, len(text))
    except (msgspec.MsgspecError, ValueError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, dict) else None


def _shallow(value: Any, text: str, start: int, end: int) -> Any:
    """The value; _DEEP where it is too deep, which none of few brackets is."""
    brackets = text.count("{", start, end) + text.count("[", start, end)
    return _DEEP if brackets > DEEPEST and is_deep(value) else value


def _line(path: Path, number: int, text: str) -> Iterator[Line | Skipped]:
    """Mostly one object; two where one was written without the end of its line."""
    start = 0
    while (blank := _BLANKS.match(text, start)) and blank.end() < len(text):
        try:
            value, end = _DECODER.raw_decode(text, blank.end())
            value, start = _shallow(value, text, blank.end(), end), end
        except (ValueError, RecursionError, MemoryError) as error:
            cut = "cut off, or half written: " if not text.endswith("\n") else ""
            yield Skipped(str(path), f"line {number}", f"{cut}{_why(error)}")
            return
        if isinstance(value, dict):
            yield Line(number, value)
        else:
            why = TOO_DEEP if value is _DEEP else f"no object, but {type(value).__name__}"
            yield Skipped(str(path), f"line {number}", why)


def _why(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "more than there is memory for"
    return TOO_DEEP if isinstance(error, RecursionError) else f"no JSON: {error}"


def walked(path: Path, *lists: str) -> Iterator[tuple[str, Any] | Skipped]:
    """The keys of a document with their values; of `lists`, each element by itself as it comes.

    A document that is a list gives its elements under the key "". What stands before a cut comes.
    """
    with opened(path) as file:
        yield from walked_text(file, str(path), "", *lists)


def walked_text(
    file: TextIO, path: str, within: str, *lists: str
) -> Iterator[tuple[str, Any] | Skipped]:
    """The same of what is open; `within` is the place in the file that is told of a fault."""
    text = _Text(file)
    try:
        for one in _elements(text, "") if text.next() == "[" else _members(text, lists):
            yield one if one[1] is not _DEEP else Skipped(path, text.place(within), TOO_DEEP)
        text.ended()
    except (_BadJsonError, *UNREADABLE) as error:
        yield Skipped(path, text.place(within), str(error))


class _BadJsonError(ValueError):
    """What ends the reading of a document."""


class _Text:
    """A document of which a part is held."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._held, self._from, self._before = file, "", 0, 0

    def place(self, within: str) -> str:
        return f"{within}character {self._before + self._from}"

    def next(self) -> str:
        """The next character that says something; empty at the end."""
        while True:
            found = _BLANKS.match(self._held, self._from)
            self._from = found.end() if found else self._from
            if self._from < len(self._held):
                return self._held[self._from]
            if not self._more():
                return ""

    def passed(self, character: str) -> None:
        if (found := self.next()) != character:
            raise _BadJsonError(f"expected {character}, got {found or 'the end: cut off'}")
        self._from += 1

    def ended(self) -> None:
        if self.next():
            raise _BadJsonError("more behind the end of the document")

    def value(self) -> Any:
        """The JSON value that begins here."""
        wanted = _AT_ONCE
        while True:
            self.next()
            try:
                found, end = _DECODER.raw_decode(self._held, self._from)
            except (RecursionError, MemoryError) as error:
                raise _BadJsonError(_why(error)) from None
            except ValueError as error:
                is_all = not self._more(wanted)
                if is_all or wanted > LONGEST:
                    why = "cut off" if is_all else f"more than {LONGEST:,} characters"
                    raise _BadJsonError(f"{why}, or no JSON: {error}") from error
                wanted *= 2
                continue
            if end < len(self._held) or not self._more():  # a number may go on
                begin, self._from = self._from, end
                return _shallow(found, self._held, begin, end)

    def _more(self, count: int = _AT_ONCE) -> bool:
        found = self._file.read(count)
        self._before += self._from
        self._held, self._from = self._held[self._from :] + found, 0
        return bool(found)


def _members(text: _Text, lists: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    text.passed("{")
    while (character := text.next()) != "}":
        if not character:
            raise _BadJsonError("cut off")
        key = text.value()
        text.passed(":")
        if key in lists and text.next() == "[":
            yield from _elements(text, key)
        else:
            yield str(key), text.value()
    text.passed("}")


def _elements(text: _Text, key: str) -> Iterator[tuple[str, Any]]:
    text.passed("[")
    while (character := text.next()) != "]":
        if not character:
            raise _BadJsonError("cut off")
        yield key, text.value()
    text.passed("]")


def at(value: Any, *path: str) -> Any:
    """What stands there; None where nothing does."""
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
