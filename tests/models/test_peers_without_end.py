"""Servers that hang, drip or never end, in a chat, a list and a page: in time, named, bounded."""

import asyncio
import contextlib
import json
import re
import socket
import sys
import time
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterator

import pytest
from hostile import Play

from agenteval.config.models import ModelEntry, Timeouts
from agenteval.errors import Cause, InfrastructureError, UnansweredError, UsageError
from agenteval.models import servers
from agenteval.models.openai_client import OpenAIModel
from agenteval.trial.trial import Message

SECONDS = 0.5  # a request may take
MARGIN = 4.0  # more that a busy machine takes
PEAK = 24 << 20  # bytes
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
WORD = b'data: {"choices": [{"index": 0, "delta": {"content": "word NUMBER "}}]}\n\n'


def repeats(head: bytes, part: bytes, every: float = 0.0) -> Play:
    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        for number in range(10**9):
            writer.write(part.replace(b"NUMBER", b"%d" % number))
            await writer.drain()
            await asyncio.sleep(every)

    return play


def packed(megabytes: int) -> bytes:
    pack = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(1 << 20)
    return b"".join(pack.compress(zeros) for _ in range(megabytes)) + pack.flush()


BOMB = packed(200)


async def bomb(writer: asyncio.StreamWriter) -> None:
    head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n"
    writer.write(f"{head}content-length: {len(BOMB)}\r\n\r\n".encode() + BOMB)
    await writer.drain()


async def never(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


def resets(sent: bytes) -> Play:
    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await writer.drain()
        await asyncio.sleep(0.05)
        near = writer.get_extra_info("socket")
        near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    return play


async def redirects(writer: asyncio.StreamWriter) -> None:
    head = b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /v1/chat/completions\r\n"
    writer.write(head + b"content-length: 0\r\n\r\n")
    await writer.drain()


# what a server does; the cause of a void trial; what the list of models is answered with
LATE = (Cause.TIMEOUT, UnansweredError)
BROKEN = (Cause.BAD_REPLY, UnansweredError)
PLAYS: dict[str, tuple[Play, Cause, type[Exception]]] = {
    "never answers": (never, *LATE),
    "a byte of a body at a time": (repeats(HEAD + b"\r\n", b"d", 0.1), *LATE),
    "a header at a time": (repeats(HEAD, b"X-a: b\r\n", 0.1), *LATE),
    "headers without end": (repeats(HEAD, b"X-a: b\r\n" * 1000), *BROKEN),
    "a header line without end": (repeats(HEAD + b"X: ", b"a" * 10_000), *BROKEN),
    "100 Continue without end": (repeats(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), *LATE),
    "the name of a chunk without end": (repeats(CHUNKED + b"1;", b"a" * 10_000, 0.01), *LATE),
    "trailers without end": (repeats(CHUNKED + b"0\r\n", b"a: b\r\n" * 1000), *BROKEN),
    "a length beyond all": (
        repeats(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n", b"x", 0.1),
        *BROKEN,
    ),
    "comments to keep alive": (repeats(HEAD + b"\r\n", b": keep-alive\n\n", 0.05), *LATE),
    "a thousand events a second": (repeats(HEAD + b"\r\n", WORD, 0.001), *LATE),
    "200 MB, packed": (bomb, Cause.BAD_REPLY, UsageError),
    "a redirect to itself": (redirects, Cause.SERVER_ERROR, UsageError),
    "reset before a head": (resets(b""), Cause.LOST, UnansweredError),
    "reset in a chunk": (resets(CHUNKED + b"ff\r\ndata"), Cause.LOST, UnansweredError),
}


@contextlib.asynccontextmanager
async def serving(play: Play) -> AsyncIterator[str]:
    """Plays for whatever is asked, once its head has come."""
    playing: set[asyncio.Task[object]] = set()
    writers: list[asyncio.StreamWriter] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        if task := asyncio.current_task():
            playing.add(task)
        with contextlib.suppress(ConnectionError, EOFError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
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
        for writer in writers:
            writer.transport.abort()  # what nobody reads would hold it open
        await asyncio.sleep(0.01)


def entry(url: str) -> ModelEntry:
    return ModelEntry(base_url=url, model="m", timeouts=Timeouts(request=SECONDS, connect=SECONDS))


@contextlib.contextmanager
def measured() -> Iterator[list[bool]]:
    """Appends whether what is done within took no longer, and no more memory, than it may."""
    fits: list[bool] = []
    tracemalloc.start()
    began = time.monotonic()
    try:
        yield fits
    finally:
        seconds = time.monotonic() - began
        fits += [seconds < SECONDS + MARGIN, tracemalloc.get_traced_memory()[1] < PEAK]
        tracemalloc.stop()


@pytest.mark.parametrize(("play", "cause", "_"), PLAYS.values(), ids=PLAYS)
async def test_a_request_ends_in_time_with_the_name_of_its_failure(play, cause, _) -> None:
    async with serving(play) as url:
        with measured() as fits:
            async with OpenAIModel(entry(url)) as model:
                with pytest.raises(InfrastructureError) as raised:
                    await model.ask([Message("user", "u")], [], seed=1)
    assert (raised.value.cause, fits) == (cause, [True, True])


@pytest.mark.parametrize(("play", "_", "refusal"), PLAYS.values(), ids=PLAYS)
async def test_a_list_of_models_ends_in_time_with_one_line(play, _, refusal) -> None:
    async with serving(play) as url:
        with measured() as fits, pytest.raises(UsageError) as raised:
            await servers.served(entry(url))
    assert (type(raised.value), str(raised.value).count("\n"), fits) == (refusal, 0, [True, True])


@pytest.mark.slow
@pytest.mark.parametrize(("play", "_", "__"), PLAYS.values(), ids=PLAYS)
async def test_a_page_of_a_server_ends_in_time(play, _, __) -> None:
    async with serving(play) as url:
        with measured() as fits:
            page = await servers.fetch_page(entry(url), "/metrics", 5.0)
    assert (page is None or len(page.text) <= servers.LARGEST, fits[1]) == (True, True)


@contextlib.contextmanager
def dead_address(port: int) -> Iterator[None]:
    """127.0.0.2 takes no connection to this port, and refuses none: its queue is full."""
    with contextlib.ExitStack() as stack:
        dead = stack.enter_context(socket.socket())
        dead.bind(("127.0.0.2", port))
        dead.listen(0)
        for _ in range(3):
            peer = stack.enter_context(socket.socket())
            peer.setblocking(False)  # noqa: FBT003 -- the socket module has it so
            peer.connect_ex(("127.0.0.2", port))
        yield


@pytest.fixture
def two_addresses(monkeypatch) -> str:
    """A name that the system's resolver gives two addresses for, the dead one first."""
    resolve = socket.getaddrinfo

    def answer(host, port, *more, **named):
        hosts = ("127.0.0.2", "127.0.0.1") if host in {"two.test", b"two.test"} else (host,)
        return [found for one in hosts for found in resolve(one, port, *more, **named)]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return "two.test"


def whole(content: object) -> Play:
    async def play(writer: asyncio.StreamWriter) -> None:
        body = json.dumps(content).encode()
        head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()

    return play


async def test_of_two_addresses_the_second_is_asked_where_the_first_is_dead(two_addresses) -> None:
    reply = {"choices": [{"message": {"content": "word"}, "finish_reason": "stop"}]}
    async with serving(whole(reply)) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        with dead_address(port):
            async with OpenAIModel(entry(f"http://{two_addresses}:{port}/v1")) as model:
                turn = await model.ask([Message("user", "u")], [], seed=1)
    async with serving(whole({"data": [{"id": "m", "owned_by": "o"}]})) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        with dead_address(port):
            listed = await servers.served(entry(f"http://{two_addresses}:{port}/v1"))
    assert (turn.text, listed) == ("word", {"m": "o"})


async def test_a_handshake_of_tls_that_stalls_ends_in_time() -> None:
    async with serving(never) as url:
        secure = entry(url.replace("http:", "https:"))
        with measured() as fits:
            async with OpenAIModel(secure) as model:
                with pytest.raises(InfrastructureError, match=r"within 0.5 s|Connection timeout"):
                    await model.ask([Message("user", "u")], [], seed=1)
        with pytest.raises(UnansweredError, match=r"no reply within 0\.5 s"):
            await servers.served(secure)
    assert fits == [True, True]


HANGS = """
[models.a]
base_url = "URL"
model = "m"
timeouts = {request = 2.0, connect = 2.0}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "play",
    [never, PLAYS["comments to keep alive"][0], PLAYS["a thousand events a second"][0]],
    ids=["never answers", "comments", "events"],
)
async def test_of_a_run_the_trials_that_were_hung_up_on_are_void_and_the_others_go_on(
    play, tmp_path
) -> None:
    """Every third chat is played with; the list of models and the pages are answered."""
    chats = 0
    good = {"model": "m", "choices": [{"message": {"content": "Done."}, "finish_reason": "stop"}]}

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal chats
        with contextlib.suppress(ConnectionError, EOFError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET /v1/models "):
                await whole({"data": [{"id": "m", "owned_by": "o"}]})(writer)
            elif head.startswith(b"POST"):
                chats += 1
                await (play if chats % 3 == 0 else whole(good))(writer)
            else:
                writer.write(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    (tmp_path / "agenteval.toml").write_text(HANGS.replace("URL", url))
    words = [sys.executable, "-m", "agenteval", "run", "--model", "a", "--trials", "9"]
    words += ["--concurrency", "3", "notes/append"]
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *words, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(process.communicate(), 120)
    seconds = time.monotonic() - began
    server.close()
    told = re.search(r"void: timeout +(\d+)", out.decode())
    assert (process.returncode, told and told[1], seconds < 60, b"Traceback" in out) == (
        *(5, "3", True, False),
    )
