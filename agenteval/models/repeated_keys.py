"""The redaction of a key that a server repeats: it is removed before the reply is read."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

from agenteval.core.known_keys import KnownKeys
from agenteval.core.malformed import Received, ReceivedCall
from agenteval.errors import Cause, InfrastructureError
from agenteval.models.stream import StreamReader

Write = Callable[[bytes], Awaitable[None]]
_LEFT_OUT = "(left out: the server repeated its key in this reply)"


async def nowhere(part: bytes) -> None:
    """Discard the bytes of a reply that nobody else reads."""


def without_keys(received: Received, raw: str, keys: KnownKeys) -> tuple[Received, str]:
    """The reply and its raw bytes. Where a key was in the reply, no byte of it is kept.

    In the bytes it may be in pieces, of as many events.
    """
    clean = _clean(received, keys)
    return clean, keys.text(raw) if clean == received else _LEFT_OUT


def _clean(received: Received, keys: KnownKeys) -> Received:
    return replace(
        received,
        text=keys.text(received.text),
        reasoning=keys.text(received.reasoning),
        calls=tuple(_clean_call(call, keys) for call in received.calls),
        finish_reason=keys.text(received.finish_reason),
        refusal=keys.text(received.refusal),
        repeats=keys.text(received.repeats),
        model=keys.text(received.model),
    )


def _clean_call(call: ReceivedCall, keys: KnownKeys) -> ReceivedCall:
    mends = tuple((kind, keys.json(text)) for kind, text in call.mends)
    raw = keys.json(call.raw)
    return replace(call, name=keys.text(call.name), raw=raw, id=keys.text(call.id), mends=mends)


def clean_body(whole: bytes, received: Received, keys: KnownKeys) -> bytes:
    """The bytes of a whole reply, for the program of a harness."""
    if _clean(received, keys) == received:
        return keys.content(whole)
    try:
        return json.dumps(keys.value(json.loads(whole))).encode()
    except (ValueError, RecursionError):
        return keys.content(whole)


class RelayedStream:
    """The bytes of a stream on their way to the program of a harness, which get no key either.

    What may be the beginning of a key waits for what comes behind it.
    """

    def __init__(self, keys: KnownKeys, write: Write) -> None:
        self._keys, self._write = keys, write
        self._unread = b""  # may be the beginning of a key
        self._unwritten = b""  # was read; the words in it may be the beginning of a key

    def ready(self, part: bytes) -> bytes:
        """Return the bytes that may be read now; the whole part if nobody else reads the reply."""
        if self._write is nowhere:
            return part
        content = self._keys.content(self._unread + part)
        whole = len(content) - self._keys.begun(content)
        self._unread = content[whole:]
        return content[:whole]

    def rest(self) -> bytes:
        """Return the bytes that may be read at the end."""
        rest, self._unread = self._unread, b""
        return rest

    async def write(self, ready: bytes, reader: StreamReader) -> None:
        """Raises InfrastructureError for a key in pieces, which cannot be taken out of them."""
        if self._write is nowhere:
            return
        self._unwritten += ready
        longest = len(self._keys.forms[0]) if self._keys.forms else 0
        tails = [tail[-2 * longest :] for tail in reader.tails(2 * longest)] if longest else []
        if any(self._keys.text(tail) != tail for tail in tails):
            raise InfrastructureError("the server repeats its key in pieces", Cause.BAD_REPLY)
        if not any(self._keys.begun(tail.encode("utf-8", "surrogateescape")) for tail in tails):
            await self.end()

    async def end(self) -> None:
        content, self._unwritten = self._unwritten, b""
        if content:
            await self._write(content)
