"""Servers that misbehave: raw bytes over a real socket, for as long as somebody reads them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from agenteval.config.models import ModelEntry
from agenteval.models.openai_client import OpenAIModel

Play = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(play: Play) -> AsyncIterator[str]:
    """Answers every request by playing; the connection is closed when the play is over."""

    playing: set[asyncio.Task[object]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            playing.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n")[0]))
            await play(writer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()
        for task in playing:
            task.cancel()
        await asyncio.wait(playing, timeout=5) if playing else None


def sends(*parts: bytes, kind: str = "text/event-stream", pause: float = 0.0) -> Play:
    """A head without a length, then these parts, then the end of the connection."""

    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n\r\n".encode())
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)

    return play


def floods(part: bytes, times: int, *, kind: str = "text/event-stream", status: int = 200) -> Play:
    """The same part again and again."""

    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status} Well\r\ncontent-type: {kind}\r\n\r\n".encode())
        for _ in range(times):
            writer.write(part)
            await writer.drain()

    return play


def in_turn(*plays: Play) -> Play:
    """Another play for each request; the server is good for nothing when they are all over."""
    left = iter(plays)

    async def play(writer: asyncio.StreamWriter) -> None:
        await next(left)(writer)

    return play


@asynccontextmanager
async def model_behind(*plays: Play, **settings: object) -> AsyncIterator[OpenAIModel]:
    """A model whose server plays, another play for each request where there are several."""
    async with serving(in_turn(*plays) if plays[1:] else plays[0]) as url:
        async with OpenAIModel(ModelEntry(base_url=url, model="m", **settings)) as model:
            yield model
