"""The chat-completions wire as servers really speak it: what of a reply is read, and how. Pure.

A reply that is broken as a *reply* raises ReplyError: the server's fault. A tool call that is
broken inside a good reply is kept as it came.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from agenteval.core.garble import Received, ReceivedCall
from agenteval.core.trial import Usage

_BLANK = msgspec.Raw(b"null")


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

    @property
    def thought(self) -> str:
        return self.reasoning_content or self.reasoning or ""


class Choice(msgspec.Struct, gc=False):
    message: Said | None = None
    delta: Said | None = None
    finish_reason: str | None = None


class Chunk(msgspec.Struct, gc=False):
    """A whole reply, or one event of a stream."""

    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    error: msgspec.Raw = _BLANK
    model: str | None = None


_CHUNKS, _TEXTS = msgspec.json.Decoder(Chunk), msgspec.json.Decoder(str)


def read_chunk(text: bytes) -> Chunk:
    """Raises ReplyError for what is no JSON of this shape."""
    try:
        return _CHUNKS.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReplyError(str(error)) from error


def said_error(chunk: Chunk) -> str:
    """What the server says went wrong, when the chunk is an error."""
    raw = bytes(chunk.error)
    return "" if raw == b"null" else raw.decode("utf-8", "replace")


def argument_text(raw: msgspec.Raw) -> tuple[str, bool]:
    """The arguments as text, and whether they came as an object (or anything else but text)."""
    text = bytes(raw)
    if text == b"null":
        return "", False
    if text.startswith(b'"'):
        return _TEXTS.decode(text), False
    return text.decode("utf-8", "replace"), True


def read_reply(body: bytes) -> tuple[Received, Usage]:
    """A whole (not streamed) reply. Raises ReplyError when the body is no chat completion."""
    text = decoded(body)
    try:
        chunk = read_chunk(body)
    except ReplyError as error:
        raise ReplyError(f"the reply is no chat completion: {excerpt(text)}") from error
    choice = chunk.choices[0] if chunk.choices else None
    if choice is None or choice.message is None:
        raise ReplyError(f"the reply is no chat completion: {excerpt(text)}")
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


def decoded(body: bytes) -> str:
    """The body as text. Raises ReplyError for bytes that are no UTF-8."""
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        shown = excerpt(
            body[max(0, error.start - 40) : error.start + 40].decode("utf-8", "replace")
        )
        raise ReplyError(f"bytes that are no UTF-8 at {error.start}: {shown}") from error


def usage(counts: Mapping[str, Any] | None) -> Usage:
    """Token counts of a reply; 0 for what the server leaves out.

    More cached tokens than the prompt has are no part of it, as they are to be: they are added.
    """
    counts = counts or {}
    prompt = _count(counts, "prompt_tokens")
    cached = _count(_part(counts, "prompt_tokens_details"), "cached_tokens")
    return Usage(
        prompt_tokens=prompt if cached <= prompt else prompt + cached,
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
    return int(value) if isinstance(value, int | float) and value >= 0 else 0


def excerpt(body: str, length: int = 120) -> str:
    """The first characters of a body on one line, for an error message."""
    flat = " ".join(body[: 4 * length].split())
    return repr(flat if len(flat) <= length else flat[:length] + "...")
