"""What of a chat completion is read: a whole reply, or one event of a stream."""

from typing import Any

import msgspec

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
    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    error: msgspec.Raw = _BLANK
    model: str | None = None
