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
GREATEST = 1.7976931348623157e308  # of floats: an infinite one is no JSON
PORTABLE = 2  # a version of marshal that every Python 3 reads


def request(message: Message, body: bytes = b"") -> bytes:
    """A frame for the runner; the message holds plain values only."""
    return frame(marshal.dumps(message, PORTABLE), body)


def lengths(header: bytes) -> tuple[int, int]:
    """Return how many bytes of message and of body follow.

    Raises ValueError for an absurd number.
    """
    text, body = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")
    if text + body > LARGEST:
        raise ValueError(f"a frame of {text + body} bytes")
    return text, body


def reply(fd: int, message: Message, body: bytes = b"") -> None:
    """Answer the evaluator."""
    write(fd, frame(json(message).encode(), body))


def write(fd: int, content: bytes) -> None:
    """Write all of it, in as many parts as the descriptor takes."""
    left = memoryview(content)
    while left:
        left = left[os.write(fd, left) :]


def receive(fd: int) -> tuple[Message, bytes] | None:
    """The next request, or None when the peer is gone."""
    header = exactly(fd, HEADER)
    if header is None:
        return None
    text, body = lengths(header)
    payload = exactly(fd, text + body)
    if payload is None:
        return None
    return marshal.loads(payload[:text]), payload[text:]


def frame(text: bytes, body: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + len(body).to_bytes(4, "big") + text + body


def json(value: Any) -> str:
    """Encode as JSON.

    None stands for a number that has none there, and for what is no plain value.
    """
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        return f"{{{','.join(f'{quoted(name)}:{json(one)}' for name, one in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(json, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    plain = isinstance(value, int) or (isinstance(value, float) and abs(value) <= GREATEST)
    return repr(value) if plain else "null"


def exactly(fd: int, count: int) -> bytes | None:
    """Read `count` bytes; return None if the peer is gone before."""
    parts = []
    while count:
        part = os.read(fd, min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
