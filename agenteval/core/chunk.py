"""Reader of a chat completion, or of one event of its stream. Pure.

It is read strictly first, which is fast; one that is not quite of its shape is read loosely.
Numbers as text, a list of parts as content, half a character, a byte that is no UTF-8, arguments
nested without end: none of them takes away what the model wrote.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agenteval.core.plain import decoded
from agenteval.core.trial import Usage

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


# Deeper than arguments may be, with the chunk around them; shallower than Python reads.
DEEPEST = 200
# One mark a match: a pattern of a whole string takes 80 bytes of memory for each escape in it.
_MARKS = re.compile(r'\\.|["\[\]{}]', re.DOTALL)
_DIGITS = 300  # more are no number to anybody
MOST_TOKENS = (1 << 31) - 1  # that a column of any store holds; a larger count is none
_CHUNKS, _TEXTS = msgspec.json.Decoder(Chunk), msgspec.json.Decoder(str)


def read_chunk(text: bytes) -> Chunk:
    """Raises ReplyError for what is no JSON, or nothing like a chunk."""
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
    """Raises ReplyError for what is no JSON, or where a list or an object stands for the other."""
    # 9router ends a whole reply as a stream.
    text = decoded(content).removeprefix(BYTE_ORDER).rstrip().removesuffix("data: [DONE]")
    try:
        value = json.loads(shallow(text), strict=False, parse_int=_whole)
    except (ValueError, RecursionError) as error:
        raise ReplyError(str(error)) from error
    chunk = _object(value) or {}
    return Chunk(
        choices=[_choice(one) for one in _list(chunk.get("choices"))],
        usage=used if isinstance(used := chunk.get("usage"), dict) else None,
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


def _choice(value: Any) -> Choice:
    choice = _object(value) or {}
    ended = choice.get("finish_reason")
    return Choice(
        message=_message(choice.get("message")),
        delta=_message(choice.get("delta")),
        finish_reason=_text(ended.get("type") if isinstance(ended, Mapping) else ended),
        native_finish_reason=_text(choice.get("native_finish_reason")),
        index=_place(choice.get("index")),
        error=_raw(choice.get("error")),
    )


def _message(value: Any) -> Said | None:
    fields = _object(value)
    if fields is None:
        return None
    return Said(
        content=_text(fields.get("content")),
        reasoning_content=_text(fields.get("reasoning_content")),
        reasoning=_text(fields.get("reasoning")),
        tool_calls=_calls(fields.get("tool_calls")),
        refusal=_text(fields.get("refusal")),
        function_call=_function(fields.get("function_call")),
    )


def _calls(value: Any) -> list[Call]:
    """Return the calls; some servers write a single call without a list around it."""
    return [_call(one) for one in ([value] if isinstance(value, Mapping) else _list(value))]


def _call(value: Any) -> Call:
    call = _object(value) or {}
    return Call(_place(call.get("index")), _text(call.get("id")), _function(call.get("function")))


def _function(value: Any) -> Function | None:
    function = _object(value)
    if function is None:
        return None
    return Function(_text(function.get("name")), _raw(function.get("arguments")))


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
