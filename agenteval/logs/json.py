"""JSON as programs leave it behind, half-written, mixed or huge, and what readers take from it.

`lines` gives the object of each line of a file, and `walked` the keys of a document, one value at a
time and in no more memory than one value needs. A value is looked through for its end first, in the
bytes as they come; only one that is whole and not too large is decoded, once. What cannot be read
comes as `Skipped`.

The functions at the end read a value at a path, and do for all readers what is the same in each.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import msgspec

from agenteval.logs.packed import UNREADABLE, by_place, opened_log
from agenteval.logs.tool_calls import (
    DEEPEST,
    TOO_DEEP,
    called,
    excess,
    is_deep,
)
from agenteval.trial.call import ToolCall
from agenteval.trial.session import Building, Recorded, Session, Skipped
from agenteval.trial.trial import Usage

Object = Mapping[str, Any]
Found = Iterator[Session | Skipped]
T = TypeVar("T")

# Bytes of one line, or of one value of a document
LONGEST = 1 << 25
# Stands for a value that is nested too deep
DEEP: Any = object()
DECODER = json.JSONDecoder(strict=False)

_AT_ONCE = 1 << 18
_BLANKS = re.compile(r"[\s,]*")
_BLANK_BYTES = re.compile(rb"[\s,]*+")
# What stands between two brackets, strings included that end
_FLAT = re.compile(rb'(?>(?:[^"\[\]{}]++|"(?>(?:[^"\\]++|\\.)*)")*)', re.DOTALL)
_REST_OF_STRING = re.compile(rb'(?>(?:[^"\\]++|\\.)*)("?)', re.DOTALL)
_WORD = re.compile(rb"[^\s,:\[\]{}\"]++")
# What Python takes for a number or a name of JSON
_LITERAL = re.compile(
    rb"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|NaN|-?Infinity"
)


def walked(path: Path, *lists: str) -> Iterator[tuple[str, Any] | Skipped]:
    """Yield the keys of a document with their values; of `lists`, each element as it comes.

    A document that is a list gives its elements under the key "". What stands before a cut comes.
    """
    with opened_log(path) as file:
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
        if document.next():
            why = "more behind the end of the document"
            yield Skipped(path, document.place(place), why)
    except (_BadJsonError, *UNREADABLE) as error:
        yield Skipped(path, document.place(place), str(error))


class _BadJsonError(ValueError):
    """The fault that ends the reading of a document."""


class _Document:
    """A document of which a part is held."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._held = bytearray()
        # The place in it of the value that is read, and the bytes before what is held
        self._at = 0
        self._before = 0

    def place(self, within: str) -> str:
        return f"{within}byte {self._before + self._at}"

    def next(self) -> str:
        """Return the next character that is no space; empty at the end."""
        while True:
            blanks = _BLANK_BYTES.match(self._held, self._at)
            self._at = blanks.end() if blanks else self._at
            character = self._held[self._at : self._at + 4].decode("utf-8", "surrogateescape")
            if character:
                return character[0]
            if not self._read_on():
                return ""

    def skip(self, mark: str) -> None:
        character = self.next()
        if character != mark:
            raise _BadJsonError(f"expected {mark}, got {character or 'the end: cut off'}")
        self._at += 1

    def value(self) -> Any:
        """Return the JSON value that begins here. Raises _BadJsonError."""
        size = self._size(self.next())
        content = bytes(memoryview(self._held)[self._at : self._at + size])
        value = _whole(content)
        self._at += size
        return value

    def _size(self, first: str) -> int:
        if first == '"':
            return self._end_of_string(1)
        if first in {"[", "{"}:
            return self._end_of_nest()
        word = _WORD.match(self._held, self._at)
        # It may go on
        while word and word.end() == len(self._held) and self._read_on():
            word = _WORD.match(self._held, self._at)
        literal = _LITERAL.match(self._held, self._at)
        if literal:
            return len(literal[0])
        return word.end() - word.start() if word else len(first)

    # Offsets are from where the value begins: what stands before it is let go of.

    def _end_of_nest(self) -> int:
        depth = 1
        offset = 1
        while depth:
            flat = _FLAT.match(self._held, self._at + offset)
            offset = flat.end() - self._at if flat else offset
            mark = self._held[self._at + offset : self._at + offset + 1]
            if not mark:
                self._need_more()
            elif mark == b'"':
                offset = self._end_of_string(offset + 1)
            else:
                depth += 1 if mark in b"[{" else -1
                offset += 1
        return offset

    def _end_of_string(self, offset: int) -> int:
        while True:
            rest = _REST_OF_STRING.match(self._held, self._at + offset)
            offset = rest.end() - self._at if rest else offset
            if rest and rest[1]:
                return offset
            self._need_more()

    def _need_more(self) -> None:
        if not self._read_on():
            raise _BadJsonError("cut off, or no JSON: a value without its end")

    def _read_on(self) -> bool:
        """Hold more; what was passed is let go of."""
        del self._held[: self._at]
        self._before += self._at
        self._at = 0
        if len(self._held) > LONGEST:
            raise _BadJsonError(f"more than {LONGEST:,} bytes")
        part = self._file.read(_AT_ONCE)
        self._held += part
        return bool(part)


def _whole(content: bytes) -> Any:
    """Decode a whole value. Raises _BadJsonError."""
    why = excess(content)
    if why:
        raise _BadJsonError(why)
    try:
        return _decoded(content)
    except MemoryError:
        raise _BadJsonError("no JSON: more than there is memory for") from None
    except ValueError as error:
        raise _BadJsonError(f"no JSON: {error}") from None


def _decoded(content: bytes) -> Any:
    """Decode a value; DEEP where it nests too deep. Raises ValueError, or MemoryError.

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


class Line(NamedTuple):
    # From 1
    number: int
    value: Mapping[str, Any]


def lines(path: Path) -> Iterator[Line | Skipped]:
    """Yield the object of each line; a line that is none, or cut off, is skipped."""
    number = 0
    with opened_log(path) as file:
        try:
            while content := file.readline(LONGEST):
                number += 1
                why = excess(content)
                if len(content) >= LONGEST and not content.endswith(b"\n"):
                    _drain(file)
                    why = f"longer than {LONGEST:,} bytes"
                if why:
                    yield Skipped(str(path), f"line {number}", why)
                elif (value := _object(content)) is not None:
                    # Not held beside the value
                    content = b""
                    yield Line(number, value)
                elif not content.isspace():
                    text = content.decode("utf-8", "surrogateescape")
                    yield from _line(path, number, text)
        except UNREADABLE as error:
            yield Skipped(str(path), f"line {number + 1}", f"cannot be read on: {error}")


def _drain(file: BinaryIO) -> None:
    while (rest := file.readline(_AT_ONCE)) and not rest.endswith(b"\n"):
        pass


def _object(content: bytes) -> dict[str, Any] | None:
    """Decode a line as most lines are; return None for one that needs a closer look."""
    try:
        value = msgspec.json.decode(content)
    except (
        msgspec.MsgspecError,
        ValueError,
        RecursionError,
        MemoryError,
    ):
        return None
    if not isinstance(value, dict):
        return None
    brackets = content.count(b"{") + content.count(b"[")
    return None if brackets > DEEPEST and is_deep(value) else value


def _line(
    path: Path,
    number: int,
    text: str,
) -> Iterator[Line | Skipped]:
    """Yield mostly one object; two where one was written without the end of its line."""
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


def text_at(value: Any, *path: str) -> str:
    """Return the text that stands there; empty where there is none."""
    text = at(value, *path)
    return text if isinstance(text, str) else ""


def name_at(value: Any, *path: str) -> str:
    """Return the id that stands there, which may be a whole number; empty where there is none."""
    name = at(value, *path)
    return str(name) if type(name) in {str, int} else ""


def object_at(value: Any, *path: str) -> Object:
    """Return the object that stands there; an empty one where there is none."""
    inner = at(value, *path)
    return inner if isinstance(inner, dict) else {}


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list; none where it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def count_at(value: Any, *path: str) -> int:
    return max(code_at(value, *path) or 0, 0)


def code_at(value: Any, *path: str) -> int | None:
    """Return the exit code that stands there, where it can be one."""
    code = at(value, *path)
    is_code = type(code) is int and abs(code) < 1 << 31
    return code if is_code else None


def words(content: Any) -> str:
    """Return the text of a message: a text itself, or that of its blocks."""
    if isinstance(content, str):
        return content
    texts = (text_at(block, "text") or text_at(block, "output") for block in objects(content))
    return "\n".join(filter(None, texts))


def when(value: Any) -> float | None:
    """Return seconds since 1970: of a text, or of a number in seconds, milli- or nanoseconds."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError):
            return when(int(value)) if value.isdecimal() and len(value) < 20 else None
        return moment if moment > 0 else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e20:
        return None
    if value > 1e17:
        return value / 1e9
    return value / 1e3 if value > 1e11 else float(value)


def usage_in(
    tokens: object, prompt: str, completion: str, reasoning: str = "", cached: str = ""
) -> Usage:
    """Return the counts of tokens under these keys; 0 for one that is not there."""
    keys = (prompt, completion, reasoning, cached)
    return Usage(*(count_at(tokens, key) for key in keys))


def call_at(
    item: Object, identifier: str, name: str, arguments: str, *, missing: object = None
) -> ToolCall:
    """Return the call whose id, name and arguments stand under these keys.

    Without arguments those of a call are empty, or what `missing` is.
    """
    value = item.get(arguments)
    if value is None:
        value = {} if missing is None else missing
    return called(
        name_at(item, identifier),
        text_at(item, name),
        value,
    )


# The reading of a file, as far as it is the same for all formats.


def session_of(path: Path, agent: str = "main") -> Building:
    """Return a new session, which is named by its file until the log names it."""
    return Building(
        Session(
            by_place(path),
            agent=agent,
            path=str(path),
        )
    )


def read_lines(
    path: Path,
    take: Callable[[Object], Found],
    building: Building,
) -> Found:
    """Yield what `take` makes of each line, and what cannot be read.

    The faults of the lines are those of `building`, with which other sessions may share them.
    """
    for line in lines(path):
        if isinstance(line, Skipped):
            yield line
        else:
            yield from take(line.value)
            yield from take_faults(building, path, f"line {line.number}")


def read_members(path: Path, take: Callable[[str, Any], Found], *lists: str) -> Found:
    """Yield what `take` makes of each key of a document, as `walked` gives it with its value."""
    for member in walked(path, *lists):
        if isinstance(member, Skipped):
            yield member
        else:
            yield from take(*member)


def full_part(building: Building) -> Iterator[Session]:
    """Yield the part read so far once it is long enough to be counted by itself."""
    part = building.whole()
    if part is not None:
        yield part


def take_faults(
    building: Building,
    path: Path,
    place: str,
) -> Iterator[Skipped]:
    """Yield the faults of the thing at this place as skipped parts, and clear them."""
    for fault in building.faults:
        yield Skipped(str(path), place, fault)
    building.faults.clear()


class _Keys(NamedTuple):
    """The keys of an object within another one, which stands at the path."""

    path: tuple[str, ...]
    needed: tuple[str, ...]
    optional: tuple[str, ...]


@cache
def _keys_of(kind: str) -> list[_Keys]:
    """Return the keys that keys.toml lists for a kind of object, such as `codex.output`."""
    table = _table("keys.toml", dict[str, dict[str, list[str]]])
    format_name, _, name = kind.partition(".")
    keys = []
    for text in table[format_name][name]:
        path, _, names = text.rpartition(": ")
        steps = tuple(path.split(".")) if path else ()
        needed = tuple(name[:-1] for name in names.split() if name.endswith("!"))
        optional = tuple(name for name in names.split() if not name.endswith("!"))
        keys.append(
            _Keys(
                steps,
                needed,
                optional,
            )
        )
    return keys


def check_keys(
    building: Building,
    value: Object,
    kind: str,
) -> None:
    """Record a fault for each key that an object lacks, or has misspelt, by keys.toml."""
    for path, needed, optional in _keys_of(kind):
        for holder in _holders(value, path):
            building.needs(holder, *needed)
            building.may_have(holder, *optional)


def _holders(value: Object, path: Sequence[str]) -> list[Object]:
    """Return the objects at this path, of which a step with [] goes to each object of a list."""
    holders = [value]
    for step in path:
        key = step.removesuffix("[]")
        inner = [holder.get(key) for holder in holders]
        if step == key:
            holders = [holder for holder in inner if isinstance(holder, dict)]
        else:
            holders = list(chain.from_iterable(map(objects, inner)))
    return holders


class _Phrases(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    outcome: Recorded
    starts: tuple[str, ...] = ()
    has: tuple[str, ...] = ()


@cache
def _searches(name: str) -> list[tuple[Callable[[str], object], Recorded]]:
    """Return the searches of one table in outcomes.toml, in their order."""
    searches = list[tuple[Callable[[str], object], Recorded]]()
    for entry in _table("outcomes.toml", dict[str, list[_Phrases]])[name]:
        searches += [(re.compile(pattern).match, entry.outcome) for pattern in entry.starts]
        searches += [(re.compile(pattern).search, entry.outcome) for pattern in entry.has]
    return searches


def outcome_in(text: str, name: str) -> Recorded | None:
    """Return the outcome that a text shows by the table of this name; None where none fits."""
    fitting = (outcome for search, outcome in _searches(name) if search(text))
    return next(fitting, None)


def _table(name: str, kind: type[T]) -> T:
    return msgspec.toml.decode(Path(__file__).with_name(name).read_bytes(), type=kind)
