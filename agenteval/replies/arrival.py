"""A reply as it arrives: its JSON read, and calls repaired that the server distorted. Pure.

A distortion is removed only if one reading remains: the same text twice, text within text, a
name with parts of the template. The call keeps what was removed, which counts as a fault of its
own.

A chat completion, or one event of its stream, is read strictly first, which is fast; one that is
not quite of its shape is read loosely. Numbers as text, a list of parts as content, half a
character, a byte that is no UTF-8, arguments nested without end: none of them takes away what
the model wrote.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from agenteval.trial import text as plain
from agenteval.trial.call import (
    FULL,
    LENGTH,
    LONGEST_ARGUMENTS,
    Received,
    ReceivedCall,
    Schemas,
    changed,
)
from agenteval.trial.text import decoded
from agenteval.trial.trial import Usage

REPEATED, ENCODED, SURPLUS = "repeated-arguments", "encoded-twice", "surplus-text"
PREFIXED, TOKENS, AGAIN = "prefixed-name", "channel-tokens", "repeated-call"
LEGACY = "legacy-call"
# Harmony's and Kimi's namespaces, Gemini's, and the number that Kimi puts behind.
_PREFIX = re.compile(r"^(?:functions?|tools?|default_api|multi_tool_use)[.:/]+")
_NUMBER = re.compile(r":\d+$")
CALLED, WITHHELD = "tool_calls", "content_filter"
# The words of Anthropic, Gemini, Mistral, Z.ai, TGI, and what passes them on.
_ENDS = {
    **dict.fromkeys(("stop", "end", "end_turn", "eos", "eos_token", "stop_sequence"), "stop"),
    **dict.fromkeys((LENGTH, "max_tokens", "model_length"), LENGTH),
    **dict.fromkeys((CALLED, "tool_call", "tool_use"), CALLED),
    **dict.fromkeys((WITHHELD, "sensitive", "safety", "refusal", "recitation"), WITHHELD),
    **dict.fromkeys(("blocklist", "prohibited_content", "spii"), WITHHELD),
    FULL: FULL,
}
# vLLM, SGLang, OpenRouter, DeepSeek, Z.ai, TensorRT-LLM: the server broke the reply off.
_BROKEN_OFF = "abort aborted cancelled error insufficient_system_resource network_error timeout"
BROKEN_OFF = frozenset(_BROKEN_OFF.split())


def _end_of(reason: str) -> str:
    """Return how a reply ended in the protocol's words; in the server's own if there are none.

    Gemini adds the reason, behind a colon.
    """
    word = reason.lower().partition(":")[0].strip()
    return _ENDS.get(word, reason)


def mended(received: Received, schemas: Schemas) -> Received:
    """Return the reply with its calls repaired; `ReceivedCall.mends` records each repair."""
    calls = _once([_mended(call, schemas) for call in received.calls])
    return changed(received, calls=calls, finish_reason=_end_of(received.finish_reason))


def _mended(call: ReceivedCall, schemas: Schemas) -> ReceivedCall:
    name, name_mend = _name(call.name, schemas)
    raw, raw_mend = _arguments(call.raw)
    if not (name_mend or raw_mend):
        return call
    mends = [*call.mends, (name_mend, call.name), (raw_mend, call.raw)]
    mends = [mend for mend in mends if mend[0]]
    return replace(call, name=name, raw=raw, mends=tuple(mends))


def _name(name: str, schemas: Schemas) -> tuple[str, str]:
    """Return the name of an offered tool, if that is what remains, and the kind of the repair."""
    if name in schemas:
        return name, ""
    bare = name.partition("<")[0].strip()
    if bare != name and bare in schemas:
        return bare, TOKENS
    bare = _NUMBER.sub("", _PREFIX.sub("", bare))
    return (bare, PREFIXED) if bare in schemas else (name, "")


def _arguments(raw: str) -> tuple[str, str]:
    text = raw.strip()
    if not text or len(text) > LONGEST_ARGUMENTS:
        return raw, ""
    try:
        value = plain.read(text)
    except ValueError:
        return _first(text) or (raw, "")
    is_encoded = isinstance(value, str) and _is_object(value)
    return (value, ENCODED) if is_encoded else (raw, "")


def _first(text: str) -> tuple[str, str] | None:
    """Return the object that a text begins with, when nothing but it and its ends follow."""
    if text.startswith("{}") and _is_object(text[2:]):
        return text[2:].strip(), SURPLUS
    is_doubled = text.startswith("{{")
    if is_doubled:
        text = text[1:]
    try:
        value, end = plain.read_from(text, 0)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    first, rest = text[:end], text[end:]
    if value and not is_doubled and not rest.replace(first, "").strip():
        return first, REPEATED
    return None if rest.strip(' \n}"') else (first, SURPLUS)


def _is_object(text: str) -> bool:
    try:
        return isinstance(plain.read(text), dict)
    except ValueError:
        return False


def _once(calls: Sequence[ReceivedCall]) -> tuple[ReceivedCall, ...]:
    """Return the calls with repetitions merged: a call that came again with its id is one call."""
    repetitions: dict[tuple[str, str, str], list[ReceivedCall]] = {}
    for at, call in enumerate(calls):
        repetitions.setdefault((call.id or f" {at}", call.name, call.raw), []).append(call)
    merged = []
    for first, *again in repetitions.values():
        mends = tuple((AGAIN, call.id) for call in again)
        merged.append(replace(first, mends=first.mends + mends))
    return tuple(merged)


# The form of a reply.

_BLANK = msgspec.Raw(b"null")
BYTE_ORDER = "\ufeff"  # a mark that some put before a document


class ReplyError(Exception):
    """The body is no chat completion, or only a part of one."""


class Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: msgspec.Raw = _BLANK  # text by the protocol; an object from servers that parse it


class Call(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Said(msgspec.Struct, gc=False):
    """A message, or the part of one that an event of a stream brings."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[Call] | None = None
    refusal: str | None = None  # words in a field of their own
    function_call: Function | None = None  # before `tool_calls`, and of some servers still

    @property
    def thought(self) -> str:
        return self.reasoning_content or self.reasoning or ""

    @property
    def thought_in(self) -> str:
        """The field that the thought came in."""
        return "reasoning_content" if self.reasoning_content else "reasoning"

    @property
    def words(self) -> str:
        return self.content or self.refusal or ""


class Choice(msgspec.Struct, gc=False):
    message: Said | None = None
    delta: Said | None = None
    finish_reason: str | None = None
    native_finish_reason: str | None = None  # OpenRouter's, of what stands behind it
    index: int | None = None
    error: msgspec.Raw = _BLANK  # of a gateway whose own server failed, beside what had come


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    error: msgspec.Raw = _BLANK
    model: str | None = None


# Reading it.

# Deeper than arguments may be, with the chunk around them; shallower than Python reads.
DEEPEST = 200
# One mark a match: a pattern of a whole string takes 80 bytes of memory for each escape in it.
_MARKS = re.compile(r'\\.|["\[\]{}]', re.DOTALL)
_DIGITS = 300  # more are no number to anybody
MOST_TOKENS = (1 << 31) - 1  # that a column of any store holds; a larger count is none
_CHUNKS = msgspec.json.Decoder(Chunk)
_TEXTS = msgspec.json.Decoder(str)
_Struct = TypeVar("_Struct", bound=msgspec.Struct)


def read_chunk(text: bytes) -> Chunk:
    """Return a reply, or one event of its stream.

    Raises ReplyError for what is no JSON, or nothing like a chunk.
    """
    try:
        return _CHUNKS.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _read_loosely(text)


def argument_text(raw: msgspec.Raw) -> tuple[str, bool]:
    """The arguments as text, and whether they came as an object (or anything else but text)."""
    text = bytes(raw)
    if text == b"null":
        return "", False
    if text.startswith(b'"'):
        return _unquoted(text), False
    return decoded(text), True


def _unquoted(quoted: bytes) -> str:
    try:
        return _TEXTS.decode(quoted)
    except (msgspec.DecodeError, UnicodeDecodeError):  # half a character, or a byte that is none
        return str(json.loads(decoded(quoted), strict=False))


def usage(counts: Mapping[str, Any] | None) -> Usage:
    """Token counts of a reply; 0 for what the server leaves out.

    Some servers do not count cached tokens in the prompt; then they are added.
    """
    counts = counts or {}
    prompt = _count(counts, "prompt_tokens")
    cached = _count(_part(counts, "prompt_tokens_details"), "cached_tokens")
    return Usage(
        prompt_tokens=prompt if cached <= prompt else min(prompt + cached, MOST_TOKENS),
        completion_tokens=_count(counts, "completion_tokens"),
        reasoning_tokens=_count(_part(counts, "completion_tokens_details"), "reasoning_tokens")
        or _count(counts, "reasoning_tokens"),  # where SGLang has it
        cached_tokens=cached,
    )


def _part(counts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = counts.get(name)
    return part if isinstance(part, Mapping) else {}


def _count(counts: Mapping[str, Any], name: str) -> int:
    value = counts.get(name)
    if not isinstance(value, int | float) or not 0 <= value <= MOST_TOKENS:
        return 0
    return int(value)


def _read_loosely(content: bytes) -> Chunk:
    """Return a reply in which values may have another type than the protocol says.

    Raises ReplyError for what is no JSON, or where a list or an object stands for the other.
    """
    # 9router ends a whole reply as a stream.
    text = decoded(content).removeprefix(BYTE_ORDER).rstrip().removesuffix("data: [DONE]")
    try:
        value = json.loads(shallow(text), strict=False, parse_int=_whole)
    except (ValueError, RecursionError) as error:
        raise ReplyError(str(error)) from error
    chunk = _object(value) or {}
    counts = chunk.get("usage")
    return Chunk(
        choices=[_struct(Choice, choice) or Choice() for choice in _list(chunk.get("choices"))],
        usage=counts if isinstance(counts, dict) else None,
        error=_raw(chunk.get("error")),
        model=_text(chunk.get("model")),
    )


def shallow(text: str) -> str:
    """JSON text with null for all that is nested too deep."""
    if text.count("{") + text.count("[") <= DEEPEST:
        return text
    pieces, depth, start, is_quoted = [], 0, 0, False
    for mark in _MARKS.finditer(text):
        if mark[0] == '"':
            is_quoted = not is_quoted
        elif is_quoted:
            continue
        elif mark[0] in "[{":
            depth += 1
            if depth == DEEPEST + 1:
                pieces.append(f"{text[start : mark.start()]}null")
        elif mark[0] in "]}":
            if depth == DEEPEST + 1:
                start = mark.end()
            depth -= 1
    return "".join(pieces) + (text[start:] if depth <= DEEPEST else "")


def _whole(digits: str) -> float:
    return int(digits) if len(digits) <= _DIGITS else float(digits)


def _calls(value: Any) -> list[Call]:
    """Return the calls; some servers write a single call without a list around it."""
    calls = [value] if isinstance(value, Mapping) else _list(value)
    return [_struct(Call, call) or Call() for call in calls]


def _end_reason(value: Any) -> str | None:
    return _text(value.get("type") if isinstance(value, Mapping) else value)


def _struct(kind: type[_Struct], value: Any) -> _Struct | None:
    """Return the value as such a part of a reply, each of its fields read loosely."""
    fields = _object(value)
    if fields is None:
        return None
    return kind(**{name: read(fields.get(name)) for name, read in _LOOSE_FIELDS[kind].items()})


def _raw(value: Any) -> msgspec.Raw:
    """Return the value as JSON: text with its escapes; in other values invalid UTF-8 stays."""
    written = json.dumps(value, ensure_ascii=isinstance(value, str))
    return msgspec.Raw(written.encode("utf-8", "surrogatepass"))


def _text(value: Any) -> str | None:
    """Text, or the texts of a list of parts; anything else as it is written in JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = (one.get("text") if isinstance(one, Mapping) else one for one in value)
        return "".join(one for one in parts if isinstance(one, str))
    return json.dumps(value)


def _place(value: Any) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _object(value: Any) -> Mapping[str, Any] | None:
    if value is None or isinstance(value, Mapping):
        return value
    raise ReplyError("a value where an object belongs")


def _list(value: Any) -> Sequence[Any]:
    if value is None or isinstance(value, list):
        return value or ()
    raise ReplyError("a value where a list belongs")


_LOOSE_FIELDS: Mapping[type[msgspec.Struct], Mapping[str, Callable[[Any], Any]]] = {
    Function: {"name": _text, "arguments": _raw},
    Call: {"index": _place, "id": _text, "function": partial(_struct, Function)},
    Said: {
        **dict.fromkeys(("content", "reasoning_content", "reasoning", "refusal"), _text),
        "tool_calls": _calls,
        "function_call": partial(_struct, Function),
    },
    Choice: {
        **dict.fromkeys(("message", "delta"), partial(_struct, Said)),
        "finish_reason": _end_reason,
        "native_finish_reason": _text,
        "index": _place,
        "error": _raw,
    },
}


class _Lines:
    """The lines of a stream of events, each ended by CR, LF or both, wherever its bytes are cut."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []  # of a line whose end is still to come
        self._returned = False  # whether the last byte was a CR, whose LF may still come
        self._any = False

    def feed(self, part: bytes) -> list[bytes]:
        """The lines that end in what came."""
        if self._returned or b"\r" in part:
            after = part[1:] if self._returned and part.startswith(b"\n") else part
            self._returned = part.endswith(b"\r")
            part = after.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *ended, rest = part.split(b"\n")
        if ended and (self._begun or not self._any):
            ended[0] = self._line(ended[0])
        if rest:
            self._begun.append(rest)
        return ended

    def rest(self) -> list[bytes]:
        """The last line, where nothing ended it."""
        return [self._line(b"")] if self._begun else []

    def _line(self, end: bytes) -> bytes:
        line = b"".join((*self._begun, end))
        self._begun.clear()
        if not self._any:
            self._any, line = True, line.removeprefix(BYTE_ORDER.encode())
        return line


class Event(NamedTuple):
    """An event of a stream: its payload, and what that is; None for what is no chunk."""

    payload: bytes
    chunk: Chunk | None


_NO_DATA = (b":", b"event:", b"id:", b"retry:")


class Events:
    """The reader of a stream of events. `done` means that `[DONE]` has come."""

    def __init__(self) -> None:
        self.done = False
        self._lines = _Lines()
        self._begun: list[bytes] = []  # the lines of an event that is not whole yet

    def feed(self, part: bytes) -> Iterator[Event]:
        """Yield the events that end in what came."""
        yield from self._read(self._lines.feed(part))

    def rest(self) -> Iterator[Event]:
        """Yield the last events, which nothing ended."""
        yield from self._read(self._lines.rest())
        if self._begun:
            yield self._end()

    def _read(self, lines: Iterable[bytes]) -> Iterator[Event]:
        for line in lines:
            if self.done:
                return
            if self._begun:
                yield from self._go_on(line)
            elif line.startswith(b"data:"):
                yield from self._begin(line[5:].strip())
            elif line.startswith(b"error: {"):  # the field of llama.cpp's builds of 2025 and before
                yield Event(line, Chunk(error=msgspec.Raw(line[7:])))

    def _begin(self, payload: bytes) -> Iterator[Event]:
        """Read the first line of an event, and mostly all of it: some end one without a blank."""
        if payload == b"[DONE]":
            self.done = True
        elif payload:
            try:
                yield Event(payload, read_chunk(payload))
            except ReplyError:
                self._begun.append(payload)

    def _go_on(self, line: bytes) -> Iterator[Event]:
        """Read another line; one without the name of a field is the rest of a text."""
        rest = line.removeprefix(b"data:").removeprefix(b" ")
        if not line or rest == b"[DONE]":
            yield self._end()
            self.done = bool(line)
        elif not line.startswith(_NO_DATA):
            self._begun.append(rest)

    def _end(self) -> Event:
        payload = b"\n".join(self._begun)
        self._begun.clear()
        try:
            return Event(payload, read_chunk(payload))
        except ReplyError:
            return Event(payload, None)
