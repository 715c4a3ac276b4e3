"""Frames between the evaluator and a runner: two lengths, a message, then raw bytes.

Requests are marshalled: the runner trusts the evaluator, and loading json would cost a third of its
start. Replies are JSON: the evaluator trusts nobody.
"""

from __future__ import annotations

import marshal
import os
from _json import encode_basestring_ascii as quoted

TYPE_CHECKING = False  # as in typing, which is slow to import here
if TYPE_CHECKING:
    from typing import Any

    Message = dict[str, Any]

HEADER = 8
LARGEST = 1 << 28  # no honest frame is bigger; a length beyond it is a broken peer
PORTABLE = 2  # a version of marshal that every Python 3 reads


def request(message: Message, body: bytes = b"") -> bytes:
    """A frame for the runner; the message holds plain values only."""
    return _frame(marshal.dumps(message, PORTABLE), body)


def lengths(header: bytes) -> tuple[int, int]:
    """How many bytes of message and of body follow. Raises ValueError when that is absurd."""
    text, body = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")
    if text + body > LARGEST:
        raise ValueError(f"a frame of {text + body} bytes")
    return text, body


def reply(fd: int, message: Message, body: bytes = b"") -> None:
    """Answer the evaluator; the message is flat."""
    fields = [f"{quoted(name)}:{_json(value)}" for name, value in message.items()]
    frame = memoryview(_frame(f"{{{','.join(fields)}}}".encode(), body))
    while frame:
        frame = frame[os.write(fd, frame) :]


def receive(fd: int) -> tuple[Message, bytes] | None:
    """The next request, or None when the peer is gone."""
    header = _exactly(fd, HEADER)
    if header is None:
        return None
    text, body = lengths(header)
    payload = _exactly(fd, text + body)
    if payload is None:
        return None
    return marshal.loads(payload[:text]), payload[text:]


def _frame(text: bytes, body: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + len(body).to_bytes(4, "big") + text + body


def _json(value: str | float | None) -> str:
    if isinstance(value, str):
        return quoted(value)
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _exactly(fd: int, count: int) -> bytes | None:
    parts = []
    while count:
        part = os.read(fd, min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
