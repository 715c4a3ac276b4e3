"""HTTP as far as programs speak it with a model: one request a connection, and its answer."""

import asyncio
import json
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

LONGEST_BODY = 64 << 20  # bytes
# A request must be whole by then: one byte a second would hold a connection for ever.
REQUEST_SECONDS = 60.0
_WORDS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    503: "Unavailable",
}
STREAM, JSON = "text/event-stream", "application/json"


class UnreadableError(ValueError):
    """The bytes are no request that could be answered."""


@dataclass(frozen=True, slots=True)
class Request:
    """`path` is without its query."""

    method: str
    path: str
    body: bytes = b""


async def _read_in_time(reader: StreamReader) -> Request | None:
    """Return the request of a connection; None if it closes before one. Raises UnreadableError."""
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            return await _read_request(reader)
    except TimeoutError as error:
        reason = f"no whole request came within {REQUEST_SECONDS:g} s"
        raise UnreadableError(reason) from error


async def _read_request(reader: StreamReader) -> Request | None:
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
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    method, target, _ = words
    path = target.partition("?")[0]
    try:
        body = await _read_body(reader, headers)
    except (asyncio.IncompleteReadError, ValueError) as error:
        raise UnreadableError(f"{method} {path}: its body does not come: {error}") from error
    return Request(method, path, body)


async def _read_body(reader: StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        size = int(headers.get("content-length", 0))
        return await _read_part(reader, size, LONGEST_BODY)
    body = bytearray()
    while True:
        line = await reader.readline()
        size = int(line.partition(b";")[0], 16)
        body += await _read_part(reader, size, LONGEST_BODY - len(body))
        await reader.readline()
        if not size:
            return bytes(body)


async def _read_part(reader: StreamReader, size: int, most: int) -> bytes:
    if not 0 <= size <= most:
        raise ValueError(f"{size} bytes")
    return await reader.readexactly(size)


@dataclass(slots=True)
class Answer:
    """An HTTP answer, whose body ends with the connection. `gone`: the program has hung up."""

    writer: StreamWriter
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
        if not isinstance(content, bytes):
            content = json.dumps(content).encode()
        await self.begin(JSON, status)
        await self.write(content)

    async def refuse(self, status: int, message: str) -> None:
        """Send an error in the form of all three dialects; nothing once a reply is under way."""
        if not self.begun:
            error = {
                "message": message,
                "type": "invalid_request_error",
                "code": status,
            }
            await self.whole({"type": "error", "error": error}, status)


async def serve_request(
    reader: StreamReader, answer: Answer, serve: Callable[[Request, Answer], Awaitable[None]]
) -> None:
    """Have the one request of a connection answered; refuse one that cannot be read."""
    try:
        request = await _read_in_time(reader)
        if request:
            await serve(request, answer)
    except UnreadableError as error:
        await answer.refuse(400, str(error))
