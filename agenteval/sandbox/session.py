"""A sandbox as the engine sees it: commands and files, through the runner of one trial."""

import asyncio
import errno
import re
import signal
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, Self

from agenteval.core.scenario import Answers, Limits, Question, Schema
from agenteval.core.trial import Execution, Limit
from agenteval.errors import AgentevalError, InfrastructureError, UsageError
from agenteval.sandbox import link
from agenteval.sandbox.inside import wire
from agenteval.sandbox.inside.inquiry import WALL_SECONDS
from agenteval.sandbox.launch import Launcher
from agenteval.sandbox.link import Link, Order, Reply, StuckError
from agenteval.sandbox.world import bounds

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


_KILLED = 128 + signal.SIGKILL
_OUT_OF_MEMORY = (
    "this machine, or the control group of the evaluator, ran out of memory, and the kernel killed "
    "a process of the sandbox: lower --concurrency, or give it more memory"
)


def _oom_kills() -> int:
    """Return how many processes the kernel has killed for want of memory since it started."""
    try:
        lines = Path("/proc/vmstat").read_bytes().splitlines()
    except OSError:  # no Linux
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(b"oom_kill ")), 0)


START_SECONDS = 20.0
GRACE_SECONDS = 15.0  # beyond the runner's own limits, before we call it stuck

OpenWorld = Callable[[], AbstractAsyncContextManager[Link]]


@dataclass(frozen=True)
class Plan:
    """The launcher's way to make a sandbox, what is built there, and the settings of its runner."""

    kind: Literal["namespaces", "program", "none"]
    build: Reply
    runner: Reply

    @cached_property
    def first(self) -> bytes:
        """Return the bytes that each sandbox of this plan is sent first."""
        return wire.request(self.build) + wire.request(self.runner)


class Session:
    """The `protocols.Sandbox` of every backend here: a link to a sandbox, and `files` in it.

    `world` makes one. A sandbox that a command left stuck is given up, and a new one made, as it
    was at the start: what a model runs ends its call, and never its trial.
    """

    def __init__(self, world: OpenWorld, files: Mapping[str, bytes], limits: Limits) -> None:
        self._world, self._files, self._limits = world, files, limits
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._link: Link
        self._watched: list[str] = []  # of which files each command tells the stamp at its end
        self._stamped = ""  # theirs, while nothing may have changed them since

    async def __aenter__(self) -> Self:
        """Raise InfrastructureError if no sandbox comes up, UsageError if the files are big."""
        try:
            await self._begin()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _begin(self) -> None:
        self._link = await self._stack.enter_async_context(self._world())
        try:
            await self._write_all(self._files, fixture=True)
        except OSError as error:
            raise _unfilled(error, self._files, self._limits) from error

    async def _replace(self, execution: Execution, limit: str = Limit.STUCK) -> Execution:
        await self._stack.aclose()
        await self._begin()
        return replace(execution, exit_code=None, limit=limit)

    async def run(self, argv: Sequence[str], *, seconds: float | None = None) -> Execution:
        allowed = self._limits.call_seconds if seconds is None else seconds
        request = {"do": "run", "argv": [*map(str, argv)], "seconds": allowed}
        return await self._run(request | {"watched": self._watched}, within=allowed)

    async def ask(self, database: str, questions: Sequence[Question], schema: Schema) -> Answers:
        order = link.question_order(database, questions, schema)
        return link.answers(await self._run({"do": "ask"}, order), len(questions))

    async def judge(self, source: str, argument: str) -> Execution:
        word = link.new_word()
        order = link.program_order(source, argument, word)
        return link.vouched(await self._run({"do": "judge"}, order), word)

    async def _run(
        self, request: dict[str, Any], order: Order | None = None, within: float = 0.0
    ) -> Execution:
        """An order goes past the runner, to the process that it starts."""
        seconds = max(within, self._limits.call_seconds, WALL_SECONDS) + GRACE_SECONDS
        beyond = order.content if order else b""
        frames = wire.request(request | {"size": len(beyond)}) + beyond
        async with self._lock:
            began, self._stamped = perf_counter(), ""
            kills_before = _oom_kills()
            try:
                reply, body = await self._link.ask(frames, seconds=seconds)
            except StuckError:
                return await self._replace(Execution(None, "", seconds))
            except InfrastructureError:  # the kernel may have killed the runner for the memory
                if (limit := self._link.struck()) != Limit.MEMORY:
                    if _oom_kills() > kills_before:
                        raise InfrastructureError(_OUT_OF_MEMORY) from None
                    raise
                return await self._replace(Execution(None, "", perf_counter() - began), limit)
            if "error" in reply:
                raise InfrastructureError(f"sandbox: {reply['error']}")
            output = order.opened(body) if order else body
            done = _execution(reply, output.decode(errors="replace"), self._link.struck())
            if done.exit_code == _KILLED and not done.limit and _oom_kills() > kills_before:
                raise InfrastructureError(_OUT_OF_MEMORY)
            if not reply.get("clean", True):
                return await self._replace(done)
            self._stamped = str(reply.get("stamp", ""))
            return done

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
        """Return the stamp of the last command's end if it gave one and nothing was done since.

        Otherwise the runner is asked for a new one.
        """
        if self._stamped and self._watched == [*paths]:
            return self._stamped
        self._watched = [*paths]
        reply, _ = await self._ask({"do": "stamp", "paths": self._watched}, seconds=GRACE_SECONDS)
        return str(reply["stamp"])

    async def write(self, path: str, content: bytes) -> None:
        await self.write_all({path: content}, fixture=False)

    async def write_all(self, files: Mapping[str, bytes], *, fixture: bool) -> None:
        """Write them all; a script of the fixture may, while it is unchanged, be pre-forked."""
        async with self._lock:
            await self._write_all(files, fixture=fixture)

    async def _write_all(self, files: Mapping[str, bytes], *, fixture: bool) -> None:
        self._stamped = ""
        sizes = [(path, len(content)) for path, content in files.items()]
        frame = wire.request(
            {"do": "write", "files": sizes, "fixture": fixture}, b"".join(files.values())
        )
        reply, _ = await self._link.ask(frame, seconds=GRACE_SECONDS)
        _raise_errno(reply, reply.get("path", ""))

    async def _ask(self, message: Reply, *, seconds: float) -> tuple[Reply, bytes]:
        async with self._lock:
            return await self._link.ask(wire.request(message), seconds=seconds)


def _execution(reply: Reply, output: str, struck: str) -> Execution:
    """`struck` is the limit that the kernel named. A fork refused counts if the command failed."""
    code: int | None = reply["code"]
    limit: str = reply["limit"]
    if reply.get("killed"):
        code = None
    elif code is not None:
        code = code if code >= 0 else 128 - code  # as a shell tells of a signal
        limit = (
            limit or (struck if code or struck == Limit.MEMORY else "") or reported(code, output)
        )
    return Execution(code, output, reply["seconds"], limit=limit, cut=reply["cut"])


def _raise_errno(reply: Reply, path: str) -> None:
    if "error" in reply:
        raise OSError(reply["errno"], reply["error"], path)


def _unfilled(error: OSError, files: Mapping[str, bytes], limits: Limits) -> AgentevalError:
    if error.errno not in {errno.ENOSPC, errno.EFBIG, errno.EINVAL}:
        return InfrastructureError(f"sandbox: {error}")
    total = sum(map(len, files.values()))
    return UsageError(
        f"{len(files)} files of {total} bytes do not go into a workspace of "
        f"{limits.workspace} bytes: {error}; raise limits.workspace or limits.inodes"
    )


@asynccontextmanager
async def launched(launcher: Launcher, plan: Plan) -> AsyncGenerator[Link]:
    """Start a sandbox of the launcher's after this plan. Raises as `greet`."""
    try:
        link = Link(*launcher.world(plan.kind, bounds(plan.runner["limits"])))
    except OSError as error:
        raise InfrastructureError(f"sandbox: {error}") from error
    try:
        await greet(link, plan.first, launcher.complaints)
        launcher.groups.began(link.group)
        yield link
    finally:
        try:
            await link.close()
        finally:
            launcher.groups.ended(link.group)


async def greet(link: Link, first: bytes, complaints: Callable[[], str]) -> None:
    """Say the first words to a new runner. Raises InfrastructureError when it does not come up."""
    try:
        reply, _ = await link.ask(first, seconds=START_SECONDS)
    except InfrastructureError as error:
        raise InfrastructureError(f"sandbox: {complaints() or error}") from error
    if "error" in reply:
        raise InfrastructureError(f"sandbox: {reply['error']}")
