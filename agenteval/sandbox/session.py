"""A sandbox as the engine sees it: commands and files, through the runner of one trial."""

import asyncio
import errno
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

from agenteval.core.scenario import Answers, Limits, Question, Schema
from agenteval.core.trial import Execution, Limit
from agenteval.errors import InfrastructureError, UsageError
from agenteval.sandbox import link
from agenteval.sandbox.inside import wire
from agenteval.sandbox.inside.inquiry import WALL_SECONDS
from agenteval.sandbox.launch import Launcher
from agenteval.sandbox.link import Link, Order, Reply

TAIL = 4096
# The C library's words for ENOSPC, EMFILE, EFBIG, ENOMEM and, from a fork, EAGAIN.
SAID = (
    (Limit.WORKSPACE, re.compile(r"No space left on device")),
    (Limit.OPEN_FILES, re.compile(r"Too many open files")),
    (Limit.FILE_SIZE, re.compile(r"File too large|File size limit exceeded")),
    (
        Limit.MEMORY,
        re.compile(r"Cannot allocate memory|^MemoryError\b|out of memory", re.MULTILINE),
    ),
    (
        Limit.PROCESSES,
        re.compile(r"fork: .*Resource temporarily unavailable|can't start new thread|Cannot fork"),
    ),
)


def reported(code: int, output: str) -> str:
    """The limit that a failed command names at the end of its output, or nothing."""
    if code == 0:
        return ""
    tail = output[-TAIL:]
    return next((str(limit) for limit, words in SAID if words.search(tail)), "")


START_SECONDS = 20.0
GRACE_SECONDS = 15.0  # beyond the runner's own limits, before we call it stuck


@dataclass(frozen=True, slots=True)
class Plan:
    """How the launcher makes a world, what is built there, and what its runner is told."""

    kind: Literal["namespaces", "program", "none"]
    build: Reply
    runner: Reply


class Session:
    """The `protocols.Sandbox` of every backend here."""

    def __init__(self, link: Link, limits: Limits) -> None:
        self._link, self._limits = link, limits
        self._lock = asyncio.Lock()

    async def run(self, argv: Sequence[str]) -> Execution:
        return await self._run({"do": "run", "argv": [*map(str, argv)]})

    async def ask(self, database: str, questions: Sequence[Question], schema: Schema) -> Answers:
        order = link.question_order(database, questions, schema)
        return link.answers(await self._run({"do": "ask"}, order), len(questions))

    async def judge(self, source: str, argument: str) -> Execution:
        word = link.new_word()
        order = link.program_order(source, argument, word)
        return link.vouched(await self._run({"do": "judge"}, order), word)

    async def _run(self, request: dict[str, Any], order: Order | None = None) -> Execution:
        """An order goes past the runner, to the process that it starts."""
        seconds = max(self._limits.call_seconds, WALL_SECONDS) + GRACE_SECONDS
        beyond = order.content if order else b""
        async with self._lock:
            frames = wire.request(request | {"size": len(beyond)}) + beyond
            reply, kept = await self._link.ask(frames, seconds=seconds)
        if "error" in reply or not reply.get("clean", True):
            reason = reply.get("error", "a process of the command could not be killed")
            raise InfrastructureError(f"sandbox: {reason}")
        said = order.opened(kept) if order else kept
        return _execution(reply, said.decode(errors="replace"))

    async def read(self, path: str) -> bytes:
        reply, content = await self._ask({"do": "read", "path": path}, seconds=GRACE_SECONDS)
        _raise_errno(reply, path)
        return content

    async def read_lines(self, path: str, first: int, count: int | None) -> tuple[bytes, bool]:
        request = {"do": "read lines", "path": path, "first": first, "count": count}
        reply, content = await self._ask(request, seconds=GRACE_SECONDS)
        _raise_errno(reply, path)
        return content, bool(reply["cut"])

    async def stamp(self, paths: Sequence[str]) -> str:
        reply, _ = await self._ask({"do": "stamp", "paths": [*paths]}, seconds=GRACE_SECONDS)
        return str(reply["stamp"])

    async def write(self, path: str, content: bytes) -> None:
        await self.write_all({path: content}, fixture=False)

    async def write_all(self, files: Mapping[str, bytes], *, fixture: bool) -> None:
        """Write them all; a script of the fixture may, while it is unchanged, be pre-forked."""
        sizes = [(path, len(content)) for path, content in files.items()]
        request = {"do": "write", "files": sizes, "fixture": fixture}
        body = b"".join(files.values())
        reply, _ = await self._ask(request, body, seconds=GRACE_SECONDS)
        _raise_errno(reply, reply.get("path", ""))

    async def _ask(
        self, message: Reply, body: bytes = b"", *, seconds: float
    ) -> tuple[Reply, bytes]:
        async with self._lock:
            return await self._link.ask(wire.request(message, body), seconds=seconds)


def _execution(reply: Reply, output: str) -> Execution:
    code: int | None = reply["code"]
    limit: str = reply["limit"]
    if reply.get("killed"):
        code = None
    elif code is not None:
        code = code if code >= 0 else 128 - code  # as a shell tells of a signal
        limit = limit or reported(code, output)
    return Execution(code, output, reply["seconds"], limit=limit, cut=reply["cut"])


def _raise_errno(reply: Reply, path: str) -> None:
    if "error" in reply:
        raise OSError(reply["errno"], reply["error"], path)


@asynccontextmanager
async def open_session(
    launcher: Launcher, plan: Plan, files: Mapping[str, bytes], limits: Limits
) -> AsyncGenerator[Session]:
    """A world of the launcher's after this plan, with `files` in its workspace; else as `begin`."""
    try:
        link = Link(launcher.world(plan.kind))
    except OSError as error:
        raise InfrastructureError(f"sandbox: {error}") from error
    try:
        first = wire.request(plan.build) + wire.request(plan.runner)
        yield await begin(link, first, files, limits, launcher.complaints)
    finally:
        await link.close()


async def begin(
    link: Link,
    first: bytes,
    files: Mapping[str, bytes],
    limits: Limits,
    complaints: Callable[[], str],
) -> Session:
    """Say the first words to a new runner, and fill its workspace.

    Raises InfrastructureError when it does not come up, UsageError when the files do not fit.
    """
    try:
        reply, _ = await link.ask(first, seconds=START_SECONDS)
    except InfrastructureError as error:
        raise InfrastructureError(f"sandbox: {complaints() or error}") from error
    if "error" in reply:
        raise InfrastructureError(f"sandbox: {reply['error']}")
    session = Session(link, limits)
    try:
        await session.write_all(files, fixture=True)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EFBIG, errno.EINVAL}:
            raise InfrastructureError(f"sandbox: {error}") from error
        total = sum(map(len, files.values()))
        raise UsageError(
            f"{len(files)} files of {total} bytes do not go into a workspace of "
            f"{limits.workspace} bytes: {error}; raise limits.workspace or limits.inodes"
        ) from error
    return session
