"""The chat-completions wire as servers really speak it: what of a reply is read, and how. Pure.

A reply that is broken as a *reply* raises ReplyError: the server's fault. A tool call that is
broken inside a good reply is kept as it came.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from agenteval.core.garble import Received, ReceivedCall
from agenteval.core.legible import decoded
from agenteval.core.trial import Usage
from agenteval.models.loose import Call, Chunk, Function, ReplyError, read_loosely

MOST_TOKENS = (1 << 31) - 1  # that a column of any store holds; a larger count is none
_NO_ERROR = frozenset((b"null", b'""', b"{}", b"false"))
_CHUNKS, _TEXTS = msgspec.json.Decoder(Chunk), msgspec.json.Decoder(str)


def read_chunk(text: bytes) -> Chunk:
    """Raises ReplyError for what is no JSON, or nothing like a chunk."""
    try:
        return _CHUNKS.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return read_loosely(text)


def said_error(chunk: Chunk) -> str:
    """What the server says went wrong, when the chunk is an error."""
    raw = bytes(chunk.error)
    return "" if raw in _NO_ERROR else raw.decode("utf-8", "replace")


def argument_text(raw: msgspec.Raw) -> tuple[str, bool]:
    """The arguments as text, and whether they came as an object (or anything else but text)."""
    text = bytes(raw)
    if text == b"null":
        return "", False
    if text.startswith(b'"'):
        return _text(text), False
    return decoded(text), True


def _text(quoted: bytes) -> str:
    try:
        return _TEXTS.decode(quoted)
    except (msgspec.DecodeError, UnicodeDecodeError):  # half a character, or a byte that is none
        return str(json.loads(decoded(quoted), strict=False))


def read_reply(body: bytes) -> tuple[Received, Usage]:
    """A whole (not streamed) reply. Raises ReplyError when the body is no chat completion."""
    try:
        chunk = read_chunk(body)
    except ReplyError as error:
        raise ReplyError(f"the reply is no chat completion: {excerpt(kept(body))}") from error
    choice = chunk.choices[0] if chunk.choices else None
    if choice is None or choice.message is None:
        raise ReplyError(f"the reply is no chat completion: {excerpt(kept(body))}")
    used = usage(chunk.usage)
    received = Received(
        text=choice.message.content or "",
        reasoning=choice.message.thought,
        calls=tuple(map(_received_call, choice.message.tool_calls or ())),
        finish_reason=choice.finish_reason or "",
        completion_tokens=used.completion_tokens,
        model=chunk.model or "",
    )
    return received, used


def _received_call(call: Call) -> ReceivedCall:
    function = call.function or Function()
    raw, as_object = argument_text(function.arguments)
    return ReceivedCall(function.name or "", raw, call.id or "", as_object)


def kept(body: bytes) -> str:
    r"""The body as text that can be stored and shown: a byte that is no UTF-8 as `\xff`."""
    return body.decode("utf-8", "backslashreplace")


def usage(counts: Mapping[str, Any] | None) -> Usage:
    """Token counts of a reply; 0 for what the server leaves out.

    More cached tokens than the prompt has are no part of it, as they are to be: they are added.
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


def excerpt(body: str, length: int = 120) -> str:
    """The first characters of a body on one line, for an error message."""
    flat = " ".join(body[: 4 * length].split())
    return repr(flat if len(flat) <= length else flat[:length] + "...")
