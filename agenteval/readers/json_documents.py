"""JSON documents that are read value by value, and in no more memory than one value needs.

A value that is not whole in the part that is held is looked through for its end first, in the bytes
as they come and without a copy; only one that is whole and not too large is decoded, once.
"""

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from agenteval.core.logged import Skipped
from agenteval.formats.packed import UNREADABLE
from agenteval.formats.tool_calls import (
    DEEPEST,
    MOST_VALUES,
    TOO_DEEP,
    TOO_MANY,
    excess,
    is_deep,
)
from agenteval.readers.log_bytes import opened

LONGEST = 1 << 25  # bytes of one line, or of one value of a document
DEEP: Any = object()  # stands for a value that is nested too deep
DECODER = json.JSONDecoder(strict=False)
_AT_ONCE = 1 << 18
_BLANKS = re.compile(r"[\s,]*+")
_MARK = re.compile(rb'["\[\]{}]')
_REST_OF_STRING = re.compile(rb'(?>(?:[^"\\]++|\\.)*)("?)', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,:\[\]{}\"]++")


def walked(path: Path, *lists: str) -> Iterator[tuple[str, Any] | Skipped]:
    """The keys of a document with their values; of `lists`, each element by itself as it comes.

    A document that is a list gives its elements under the key "". What stands before a cut comes.
    """
    with opened(path) as file:
        yield from walked_bytes(file, str(path), "", *lists)


def walked_bytes(
    file: BinaryIO, path: str, place: str, *lists: str
) -> Iterator[tuple[str, Any] | Skipped]:
    """Walk an open file as `walked` does; `place` is where a fault is reported in the file."""
    document = _Document(file)
    try:
        is_list = document.next() == "["
        for member in _elements(document, "") if is_list else _members(document, lists):
            is_whole = member[1] is not DEEP
            yield member if is_whole else Skipped(path, document.place(place), TOO_DEEP)
        document.check_end()
    except (_BadJsonError, *UNREADABLE) as error:
        yield Skipped(path, document.place(place), str(error))


def _decoded(content: bytes) -> Any:
    """The value; DEEP where it nests too deep. Raises ValueError, or MemoryError.

    A byte that is no UTF-8 becomes a lone surrogate, and what Python takes for JSON is taken.
    """
    try:
        value = msgspec.json.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        text = str(content, "utf-8", "surrogateescape")
        try:
            value = DECODER.decode(text)
        except RecursionError:
            return DEEP
    return DEEP if is_deep(value) else value


class _BadJsonError(ValueError):
    """The fault that ends the reading of a document."""


class _Document:
    """A document of which a part is held, as text."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._held, self._from, self._before = file, "", 0, 0
        self._decoder = getincrementaldecoder("utf-8")("surrogateescape")

    def place(self, within: str) -> str:
        return f"{within}byte {self._before + _size(self._held[: self._from])}"

    def next(self) -> str:
        """Return the next character that is no space; empty at the end."""
        while True:
            if blanks := _BLANKS.match(self._held, self._from):
                self._from = blanks.end()
            if self._from < len(self._held):
                return self._held[self._from]
            if not self._read_on():
                return ""

    def skip(self, mark: str) -> None:
        if (character := self.next()) != mark:
            raise _BadJsonError(f"expected {mark}, got {character or 'the end: cut off'}")
        self._from += 1

    def check_end(self) -> None:
        if self.next():
            raise _BadJsonError("more behind the end of the document")

    def value(self) -> Any:
        """The JSON value that begins here."""
        self.next()
        for _ in range(3):
            try:
                value, end = DECODER.raw_decode(self._held, self._from)
            except (ValueError, RecursionError):
                if len(self._held) - self._from > _AT_ONCE or not self._read_on():
                    break
                continue
            if end < len(self._held) or not self._read_on():  # a number may go on
                begin, self._from = self._from, end
                marks = self._held.count("{", begin, end) + self._held.count("[", begin, end)
                return DEEP if marks > DEEPEST and is_deep(value) else value
        return self._large_value()

    def _large_value(self) -> Any:
        """The value, of which a part or nothing is held."""
        self._before += _size(self._held[: self._from])
        content = bytearray(self._held[self._from :].encode("utf-8", "surrogateescape"))
        content += self._decoder.getstate()[0]
        self._held, self._from = "", 0
        end = _Scan(self._file, content).end()
        rest = bytes(content[end:])
        del content[end:]
        self._decoder.reset()
        self._held = self._decoder.decode(rest)
        value = _whole(bytes(content))
        self._before += end
        return value

    def _read_on(self) -> bool:
        """Hold more; what was passed is let go of."""
        part = self._file.read(_AT_ONCE)
        self._before += _size(self._held[: self._from])
        self._held = self._held[self._from :] + self._decoder.decode(part, not part)
        self._from = 0
        return bool(part)


class _Scan:
    """The search for the end of a value, in bytes that are read on as it goes."""

    def __init__(self, file: BinaryIO, content: bytearray) -> None:
        self._file, self._content = file, content

    def end(self) -> int:
        """Return the offset at which the value at the head of the content ends.

        Raises _BadJsonError.
        """
        first = bytes(self._content[:1])
        if first == b'"':
            return self._end_of_string(1)
        if first in {b"[", b"{"}:
            return self._end_of_nest(1)
        while (scalar := _SCALAR.match(self._content)) and scalar.end() == len(self._content):
            if not self._read_on():
                break
        return scalar.end() if scalar else len(first)

    def _end_of_nest(self, at: int) -> int:
        depth, count = 1, 0
        while depth:
            mark = _MARK.search(self._content, at)
            if mark is None:
                at = len(self._content)
                self._need_more()
                continue
            at, count = mark.end(), count + 1
            if mark[0] == b'"':
                at = self._end_of_string(at)
            else:
                depth += 1 if mark[0] in b"[{" else -1
            if count > 4 * MOST_VALUES:  # keys, and both brackets of each
                raise _BadJsonError(TOO_MANY)
        return at

    def _end_of_string(self, at: int) -> int:
        while True:
            rest = _REST_OF_STRING.match(self._content, at)
            at = rest.end() if rest else at
            if rest and rest[1]:
                return at
            self._need_more()

    def _need_more(self) -> None:
        if not self._read_on():
            raise _BadJsonError("cut off, or no JSON: a value without its end")

    def _read_on(self) -> bool:
        if len(self._content) > LONGEST:
            raise _BadJsonError(f"more than {LONGEST:,} bytes")
        part = self._file.read(_AT_ONCE)
        self._content += part
        return bool(part)


def _whole(content: bytes) -> Any:
    if why := excess(content):
        raise _BadJsonError(why)
    try:
        return _decoded(content)
    except (ValueError, MemoryError) as error:
        reason = "more than there is memory for" if isinstance(error, MemoryError) else error
        raise _BadJsonError(f"no JSON: {reason}") from None


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


def _members(document: _Document, lists: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    document.skip("{")
    while (character := document.next()) != "}":
        if not character:
            raise _BadJsonError("cut off")
        key = document.value()
        document.skip(":")
        if key in lists and document.next() == "[":
            yield from _elements(document, key)
        else:
            yield str(key), document.value()
    document.skip("}")


def _elements(document: _Document, key: str) -> Iterator[tuple[str, Any]]:
    document.skip("[")
    while (character := document.next()) != "]":
        if not character:
            raise _BadJsonError("cut off")
        yield key, document.value()
    document.skip("]")
