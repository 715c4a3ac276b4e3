"""Frames between the evaluator and a runner: two lengths, a JSON object, then raw bytes."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False  # as in typing, which is slow to import here
if TYPE_CHECKING:
    from typing import Any

    Message = dict[str, Any]

HEADER = 8
LARGEST = 1 << 28  # no honest frame is bigger; a length beyond it is a broken peer


def encode(message: Message, body: bytes = b"") -> bytes:
    text = json.dumps(message).encode()
    return len(text).to_bytes(4, "big") + len(body).to_bytes(4, "big") + text + body


def lengths(header: bytes) -> tuple[int, int]:
    """How many bytes of JSON and of body follow. Raises ValueError when that is absurd."""
    text, body = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")
    if text + body > LARGEST:
        raise ValueError(f"a frame of {text + body} bytes")
    return text, body


def send(fd: int, message: Message, body: bytes = b"") -> None:
    frame = memoryview(encode(message, body))
    while frame:
        frame = frame[os.write(fd, frame) :]


def receive(fd: int) -> tuple[Message, bytes] | None:
    """The next frame, or None when the peer is gone."""
    header = _exactly(fd, HEADER)
    if header is None:
        return None
    text, body = lengths(header)
    payload = _exactly(fd, text + body)
    if payload is None:
        return None
    return json.loads(payload[:text]), payload[text:]


def _exactly(fd: int, count: int) -> bytes | None:
    parts = []
    while count:
        part = os.read(fd, min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
