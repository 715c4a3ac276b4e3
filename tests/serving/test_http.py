"""One HTTP connection and its deadlines, none of which a byte sets anew."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from agenteval.serving import http
from agenteval.serving.bounds import Bounds

BOUNDS = Bounds(
    connections=8, per_peer=8, head=0.3, body=0.5, idle=0.3, answer=0.9, lifetime=0.6,
    head_bytes=4096,
)  # fmt: skip
HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"
LARGE = 32 << 20


async def answer(request: Request) -> Response:
    if request.method == "POST":
        await request.body()
    await asyncio.sleep(float(request.query_params.get("takes", "0")))
    return PlainTextResponse("x" * int(request.query_params.get("size", "2")))


@asynccontextmanager
async def served(limits: Bounds = BOUNDS) -> AsyncIterator[tuple[int, uvicorn.Server]]:
    app = Starlette(routes=[Route("/", answer, methods=["GET", "POST"])])
    server = http.server(app, limits)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    serving = asyncio.create_task(http.serve(server, listening, limits))  # noqa: TID251 -- ended below
    try:
        yield port, server
    finally:
        server.should_exit = True
        await serving


async def life(port: int, server: uvicorn.Server, sent: bytes, drip: bytes) -> float:
    """Seconds that a server holds a connection which sends this, then drips, and reads nothing."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.settimeout(0)
        await loop.sock_sendall(peer, sent)
        while not server.server_state.connections and loop.time() < start + 5:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        began = loop.time()
        while server.server_state.connections and loop.time() < began + 20:
            with suppress(ConnectionError, BlockingIOError):
                peer.send(drip)
            await asyncio.sleep(0.05)
    return loop.time() - began


@pytest.mark.parametrize(
    ("sent", "drip", "seconds"),
    [
        (b"", b"", BOUNDS.head),
        (HEAD, b"", BOUNDS.head),
        (HEAD, b"x", BOUNDS.head),
        (HEAD, b"X: y\r\n", BOUNDS.head),
        (POST, b"", BOUNDS.body),
        (POST, b"a", BOUNDS.body),
        (POST.replace(b"Content-Length: 1000", b"Transfer-Encoding: chunked"), b"1\r\na\r\n", 0.5),
        (HEAD + b"\r\n", b"", BOUNDS.idle),
        (HEAD + b"\r\n" + HEAD, b"", BOUNDS.head),
        (HEAD.replace(b"/", b"/?takes=60", 1) + b"\r\n", b"", BOUNDS.answer),
        (HEAD + b"\r\n", HEAD + b"\r\n", BOUNDS.lifetime),
        (HEAD.replace(b"/", b"/?size=%d" % LARGE, 1) + b"\r\n", b"", BOUNDS.answer),
        (HEAD + b"Content-Length: 99999\r\n\r\n", b"a", http.LINGER),
    ],
    ids=[
        "says nothing", "half a head", "half a head, dripping", "headers without end",
        "half a body", "a body, dripping", "chunks without end", "idle", "a second head, half",
        "an answer that never comes", "requests without end", "an answer that nobody reads",
        "a body that nobody asked for",
    ],
)  # fmt: skip
async def test_each_phase_of_a_connection_has_its_end(sent, drip, seconds) -> None:
    async with served() as (port, server):
        lasted = await life(port, server, sent, drip)
    assert seconds / 4 < lasted < seconds + 3, lasted  # seen late on a busy machine


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        HEAD + b"".join(b"a%d: b\r\n" % number for number in range(10_000)) + b"\r\n",
        b"\0\xff\r\n\r\n",
        b"GET / HTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    ],
    ids=["a head of 100 KB", "10,000 headers", "no HTTP", "no version", "no chunk"],
)
async def test_what_is_no_request_is_refused_at_once(sent, capfd) -> None:
    async with served() as (port, _):
        for _ in range(30):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            with suppress(ConnectionError):
                assert (await asyncio.wait_for(reader.read(12), 5)) in {b"HTTP/1.1 400", b""}
            writer.close()
    assert len(capfd.readouterr().err) < 500


async def test_a_hundred_requests_sent_at_once_are_answered_one_by_one() -> None:
    async with served(Bounds()) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write((HEAD + b"\r\n") * 99 + HEAD + b"Connection: close\r\n\r\n")
        answers = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert answers.count(b"HTTP/1.1 200") == 100


async def test_whoever_is_being_answered_keeps_the_connection_while_others_come() -> None:
    async with served(Bounds(connections=4, per_peer=4)) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD.replace(b"/", b"/?takes=0.5", 1) + b"Connection: close\r\n\r\n")
        await asyncio.sleep(0.1)
        held = []
        for _ in range(40):
            held.append(socket.create_connection(("127.0.0.1", port)))
            await asyncio.sleep(0)
        assert (await asyncio.wait_for(reader.read(), 10)).startswith(b"HTTP/1.1 200")
        for peer in (*held, writer):
            peer.close()


async def test_an_answer_that_is_read_slowly_is_read_whole() -> None:
    async with served(Bounds(idle=0.3, answer=20)) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 16)
        writer.write(HEAD.replace(b"/", b"/?size=%d" % LARGE, 1) + b"Connection: close\r\n\r\n")
        size = 0
        while part := await reader.read(1 << 20):
            size += len(part)
            await asyncio.sleep(0.02 if size < LARGE // 2 else 0)
        writer.close()
    assert size > LARGE
