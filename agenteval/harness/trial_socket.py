"""Our end of a trial's socket: the forwarder's orders and news, and the program's requests.

The first connection is the forwarder, before any program runs; the kernel reports who connects, and
from then on all others are refused.
"""

import asyncio
import json
import os
import secrets
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from inspect import getsource
from pathlib import Path
from typing import Any, Final

from agenteval.core.scenario import Limits
from agenteval.errors import InfrastructureError
from agenteval.harness import forwarder
from agenteval.harness.http_server import Answer, Request, UnreadableError, read_request
from agenteval.harness.install import Installed
from agenteval.harness.recipes import FOLDER, HOME, PORT, SetUp
from agenteval.protocols import Guest, Host, Sandbox
from agenteval.temporary import temporary_folder

INSIDE: Final = "/run/model"  # where the socket stands in the world
COMES_SECONDS = 20.0
MOST_REQUESTS: Final = 64  # of one program at the same time: each holds its body and a descriptor
HOME_BYTES: Final = 256 << 20  # bytes of a program's home
# Bytes that one piece of news may have: JSON writes a control character as six.
LINE = 6 * forwarder.LONGEST + (1 << 16)
FORWARDER: Final = ("python3", "-I", "-S", "-c", getsource(forwarder), INSIDE)
_COMMON: Final = {
    "HOME": HOME,
    "LANG": "C.UTF-8",
    "PATH": "/run/bin:/usr/local/bin:/usr/bin:/bin",
    "SHELL": "/bin/bash",
    "USER": "agent",
}
_CREDENTIALS = struct.Struct("3i")

Serve = Callable[[Request, Answer], Awaitable[None]]
News = Callable[[Mapping[str, Any]], None]


@dataclass(slots=True)
class TrialSocket:
    """A socket that others find at `path`; `strangers` bypassed the forwarder and were refused."""

    path: str
    strangers: int = 0
    _serve: Serve | None = None
    _keeper: int = 0
    _requests: int = 0  # under way
    _came: asyncio.Event = field(default_factory=asyncio.Event)
    _streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def order(self, set_up: SetUp, serve: Serve) -> None:
        """Have the forwarder start a program. Raises InfrastructureError when there is none."""
        self._serve = serve
        with suppress(TimeoutError):
            async with asyncio.timeout(COMES_SECONDS):
                await self._came.wait()
        if self._streams is None:
            raise InfrastructureError("sandbox: the forwarder of the harness did not come up")
        settings = {"stdin": set_up.stdin, "open": set_up.client is not None, "port": PORT}
        env = _COMMON | dict(set_up.env)
        self._say(
            json.dumps({"argv": set_up.argv, "env": env, "files": dict(set_up.files)} | settings)
        )

    async def listen(self, news: News, seconds: float | None = None) -> None:
        """Pass on the program's news until it has ended; it may be given up and begun again.

        Raises InfrastructureError if the forwarder goes without a word, or has none in time
        (`seconds`).
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._streams and (line := await _line(self._streams[0])):
                    news(told := json.loads(line))
                    if "ended" in told:
                        return
        raise InfrastructureError("sandbox: the forwarder of the harness was killed")

    def send_stdin(self, text: str | None) -> None:
        """Have the program read that; with None, that nothing more comes."""
        self._say(json.dumps({"stdin": text}))

    def end(self) -> None:
        """Have the forwarder end the program: by request, then by force."""
        self._say("end")

    def _say(self, line: str) -> None:
        if self._streams:
            with suppress(ConnectionError, RuntimeError):
                self._streams[1].write(line.encode() + b"\n")

    async def come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._streams is None:
            self._keeper, self._streams = _peer(writer), (reader, writer)
            self._came.set()
            return
        self._requests += 1
        try:
            if _peer(writer) != self._keeper:
                self.strangers += 1
            elif self._requests > MOST_REQUESTS:
                await _refuse(reader, Answer(writer))
            else:
                await self._pass_on(reader, Answer(writer))
        finally:
            self._requests -= 1
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, answer: Answer) -> None:
        try:
            request = await read_request(reader)
        except UnreadableError as error:
            await answer.refuse(400, str(error))
            return
        if request and self._serve:
            await self._serve(request, answer)

    def leave(self) -> None:
        """Forget the forwarder; another may come."""
        if self._streams:
            self._streams[1].close()
        self._streams, self._keeper, self.strangers = None, 0, 0
        self._came.clear()


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except (ValueError, ConnectionError):  # longer than anything he says
        return b""


async def _refuse(reader: asyncio.StreamReader, answer: Answer) -> None:
    """Answer that there are too many requests.

    The request is read first: a connection closed over unread bytes shows no answer.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            await reader.read(1 << 16)
    await answer.refuse(503, f"over {MOST_REQUESTS} requests at the same time")


def _peer(writer: asyncio.StreamWriter) -> int:
    """The process at the other end, as the kernel knows it."""
    near: socket.socket = writer.get_extra_info("socket")
    said = near.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(said)[0])


@contextmanager
def _descriptor(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@asynccontextmanager
async def opened() -> AsyncIterator[TrialSocket]:
    """Open a socket at a path that nobody can guess or list; the sandbox's user can reach it."""
    with temporary_folder() as folder, _descriptor(folder) as descriptor:
        folder.chmod(0o711)  # others may pass, and see nothing
        name = f"{secrets.token_hex(16)}.sock"
        way = TrialSocket(str(folder / name))
        short = f"/proc/self/fd/{descriptor}/{name}"  # the path of a socket has 107 bytes at most
        server = await asyncio.start_unix_server(way.come, short, limit=LINE)
        os.chmod(way.path, 0o666)  # noqa: PTH101, S103 -- who may connect is seen by who connects
        try:
            yield way
        finally:
            way.leave()
            server.close()


@dataclass(slots=True)
class Hosting:
    """An implementation of `protocols.SandboxBackend`: sandboxes with the program and a socket."""

    host: Host
    installed: Installed
    name: str = "bubblewrap"
    ways: dict[int, TrialSocket] = field(default_factory=dict)

    @asynccontextmanager
    async def open(self, files: Mapping[str, bytes], limits: Limits) -> AsyncIterator[Sandbox]:
        async with opened() as way:
            shown = {INSIDE: way.path, FOLDER: str(self.installed.folder)}
            program = Guest(shown, {HOME: HOME_BYTES})
            async with self.host.open_with(program, files, _limits_of_program(limits)) as sandbox:
                self.ways[id(sandbox)] = way
                try:
                    yield sandbox
                finally:
                    del self.ways[id(sandbox)]


def _limits_of_program(limits: Limits) -> Limits:
    """Return the scenario's limits, plus what a program needs in addition to its commands."""
    return replace(
        limits,
        loopback=True,
        memory=limits.memory + (4 << 30),
        processes=limits.processes + 512,
        open_files=4096,
        inodes=limits.inodes + 20_000,
        cpu_seconds=limits.cpu_seconds + round(limits.trial_seconds),
    )
