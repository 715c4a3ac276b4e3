"""HTTP as far as programs speak it with a model: one request a connection, and its answer."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

LONGEST_BODY: Final = 64 << 20  # bytes
REQUEST_SECONDS: Final = 60.0  # in which a request is to be whole, whatever comes of it meanwhile
_WORDS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    503: "Unavailable",
}
STREAM, JSON = "text/event-stream", "application/json"


def event(kind: str, **more: object) -> bytes:
    """Encode one server-sent event as Anthropic's messages and OpenAI's responses have it."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()


class UnreadableError(ValueError):
    """No request that could be answered."""


@dataclass(frozen=True, slots=True)
class Request:
    """`path` is without its query; names of headers are in small letters."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """The request of a connection; None when it closes before one. Raises UnreadableError."""
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            return await _request(reader)
    except TimeoutError as error:
        said = f"no whole request came within {REQUEST_SECONDS:g} s"
        raise UnreadableError(said) from error


async def _request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError as error:
        raise UnreadableError("its head has no end") from error
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise UnreadableError(f"no request line: {first[:80]}")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    path = words[1].partition("?")[0]
    try:
        body = await _body(reader, headers)
    except (asyncio.IncompleteReadError, ValueError) as error:
        raise UnreadableError(f"{words[0]} {path}: its body does not come: {error}") from error
    return Request(words[0], path, headers, body)


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        size = int(headers.get("content-length", 0))
        _check_size(size)
        return await reader.readexactly(size)
    body = bytearray()
    while True:
        line = await reader.readline()
        size = int(line.partition(b";")[0], 16)
        _check_size(size + len(body))
        if size < 0:
            raise ValueError(f"a chunk of {size} bytes")
        body += await reader.readexactly(size)
        await reader.readline()
        if not size:
            return bytes(body)


def _check_size(size: int) -> None:
    if not 0 <= size <= LONGEST_BODY:
        raise ValueError(f"{size} bytes")


@dataclass(slots=True)
class Answer:
    """An HTTP answer, whose body ends with the connection. `gone`: the program has hung up."""

    writer: asyncio.StreamWriter
    begun: bool = False
    gone: bool = False

    async def begin(self, kind: str, status: int = 200) -> None:
        self.begun = True
        head = f"HTTP/1.1 {status} {_WORDS.get(status, 'Error')}\r\ncontent-type: {kind}\r\n"
        await self.write(f"{head}connection: close\r\n\r\n".encode())

    async def write(self, part: bytes) -> None:
        try:
            self.writer.write(part)
            await self.writer.drain()
        except (ConnectionError, RuntimeError):
            self.gone = True

    async def whole(self, content: object, status: int = 200) -> None:
        await self.begin(JSON, status)
        await self.write(content if isinstance(content, bytes) else json.dumps(content).encode())

    async def refuse(self, status: int, message: str) -> None:
        """Send an error in the form of all three dialects; nothing once a reply is under way."""
        if not self.begun:
            error = {
                "message": message,
                "type": "invalid_request_error",
                "code": status,
            }
            await self.whole({"type": "error", "error": error}, status)
