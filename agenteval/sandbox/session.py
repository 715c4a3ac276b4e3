"""A sandbox as the engine sees it: commands and files, through the runner of one trial.

`Session` is that sandbox; every backend here makes one. It speaks through a `Link`, the evaluator's
end of the runner's socket: one question, one answer, always within a time. In between stand the
orders for judges, and what a command's end says of its limits.
"""

import asyncio
import errno
import json
import marshal
import re
import secrets
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import getsource
from time import perf_counter
from typing import Any, Literal, Self

from agenteval.errors import AgentevalError, InfrastructureError, UsageError
from agenteval.sandbox.inside import prefork, program_help, subject, usage, wire
from agenteval.sandbox.inside.inquiry import WALL_SECONDS
from agenteval.sandbox.launch import Launcher, bounds
from agenteval.trial.trial import Answer, Answers, Execution, Limit, Limits, Question, Schema

CLOSE_SECONDS = 5.0
EVENTS = {
    Limit.MEMORY: ("memory.events", "oom_kill"),
    Limit.PROCESSES: ("pids.events", "max"),
}

Reply = dict[str, Any]


class _StuckError(InfrastructureError):
    """The other side lives, and does not answer."""


class Link:
    """The evaluator's end of a runner's socket. `group` is the sandbox's control group, or "".

    After a failure, a timeout or a cancellation it is closed: half a frame is no frame.
    """

    def __init__(self, peer: socket.socket, group: str = "") -> None:
        self._peer = peer
        self.group = group
        self._events = dict.fromkeys(EVENTS, 0)

    def struck(self) -> str:
        """Return the limit that the kernel enforced on this sandbox since the last check."""
        if not self.group:
            return ""
        before = dict(self._events)
        for limit, place in EVENTS.items():
            self._events[limit] = usage.count(self.group, *place)
        grown = (limit for limit in EVENTS if self._events[limit] > before[limit])
        return next(grown, "")

    async def ask(self, frames: bytes, *, seconds: float) -> tuple[Reply, bytes]:
        """Send the frames, read one. Raise InfrastructureError; StuckError when it takes long."""
        is_answered = False
        try:
            async with asyncio.timeout(seconds):
                await self._send(frames)
                answer = await self._receive()
            is_answered = True
        except TimeoutError:
            raise _StuckError(f"the sandbox did not answer in {seconds:g} s") from None
        except (OSError, EOFError, ValueError) as error:
            raise InfrastructureError(f"the sandbox ended: {error}") from error
        finally:
            if not is_answered:
                self._peer.close()
        return answer

    async def close(self) -> None:
        """Hang up, and wait until the other side is gone."""
        if self._peer.fileno() < 0:
            return
        try:
            self._peer.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(CLOSE_SECONDS):
                while await self._part():
                    pass
        except (TimeoutError, OSError, EOFError):
            return  # it is gone already, or dies with its launcher
        finally:
            self._peer.close()

    async def _send(self, frame: bytes) -> None:
        try:
            await asyncio.get_running_loop().sock_sendall(self._peer, frame)
        except (BrokenPipeError, ConnectionResetError):
            return  # why it ended may still stand in the socket, to be read

    async def _receive(self) -> tuple[Reply, bytes]:
        frame = bytearray()
        await self._fill(frame, wire.HEADER)
        text, body = wire.lengths(bytes(frame[: wire.HEADER]))
        end = wire.HEADER + text
        await self._fill(frame, end + body)
        if len(frame) > end + body:
            raise ValueError("more than an answer")
        encoded = frame[wire.HEADER : end]
        message = json.loads(encoded.decode())
        if not isinstance(message, dict):
            raise ValueError("a frame without an object")  # noqa: TRY004
        return message, bytes(frame[end:])

    async def _fill(self, frame: bytearray, count: int) -> None:
        """Add to a frame what comes, until it has this many bytes."""
        while len(frame) < count:
            part = await self._part()
            if not part:
                raise EOFError("it closed its socket")
            frame += part

    async def _part(self) -> bytes:
        loop = asyncio.get_running_loop()
        try:
            return await loop.sock_recv(self._peer, 1 << 16)
        except ConnectionResetError:
            # Reported once, if the other side left something of ours unread; its words are behind.
            return await loop.sock_recv(self._peer, 1 << 16)


# Orders for judges: queries of the database, and programs of a scenario.

# The source of what any process of a test may show: it says nothing about the test.
PUBLIC = getsource(subject)
_SOURCES = {"help": getsource(program_help), "subject": PUBLIC}
FLAT = int | float | str | None


class _Order:
    """An order that goes past the runner to a judge, and the key that opens the judge's words."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._key = secrets.token_bytes(32)
        order = content | {"key": self._key}
        self.content = marshal.dumps(order, wire.PORTABLE)

    def open(self, report: bytes) -> bytes:
        return prefork.sealed(self._key, report)


def _without_word(execution: Execution, word: str) -> Execution:
    """Return the execution without the word; without the word it has failed, whatever its code."""
    output = execution.output
    if output.endswith(word):
        return replace(execution, output=output.removesuffix(word))
    if execution.exit_code != 0:
        return execution
    return replace(execution, exit_code=1, output=f"{output}\nit ended before its last line")


def answers(execution: Execution, count: int) -> Answers:
    """Return the judge's answers.

    If it crashed, hung or talked nonsense, the sandbox is broken.
    """
    if execution.limit or execution.exit_code != 0:
        return Answers(broken=f"the database cannot be asked: {_ending(execution)}")
    try:
        message = json.loads(execution.output)
        if broken := message.get("broken"):
            return Answers(broken=str(broken)[:500])
        replies = tuple(_answer(**reply) for reply in message["answers"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        replies = ()
    if len(replies) != count:
        return Answers(broken="the database cannot be asked: what it answers is no answer")
    return Answers(replies)


def _answer(
    names: Sequence[str] = (),
    rows: Sequence[Sequence[FLAT]] = (),
    error: str = "",
) -> Answer:
    if rows and not names:
        raise ValueError("rows without columns")
    for row in rows:
        if len(row) != len(names):
            raise ValueError("not a value for each column")
        if not all(isinstance(cell, FLAT) for cell in row):
            raise ValueError("not a plain value")
    cells = tuple(map(tuple, rows))
    columns = tuple(map(str, names))
    return Answer(columns, cells, str(error)[:500])


def _ending(execution: Execution) -> str:
    code = execution.exit_code
    if execution.limit or code is None:
        return f"it took too much ({execution.limit})"
    if code == 128 + signal.SIGXCPU:
        return "it took too much (cpu)"
    return f"signal {code - 128}" if code > 128 else f"exit code {code}"


# What a command's end says of its limits.

TAIL = 4096
# The C library's words for ENOSPC, EMFILE, EFBIG, ENOMEM and, from a fork, EAGAIN.
MESSAGES = {
    Limit.WORKSPACE: re.compile(r"No space left on device"),
    Limit.OPEN_FILES: re.compile(r"Too many open files"),
    Limit.FILE_SIZE: re.compile(r"File too large|File size limit exceeded"),
    Limit.MEMORY: re.compile(r"(?m)Cannot allocate memory|^MemoryError\b|out of memory"),
    Limit.PROCESSES: re.compile(
        r"fork: .*Resource temporarily unavailable|can't start new thread|Cannot fork"
    ),
}


def reported(code: int, output: str) -> str:
    """Return the limit that a failed command names at the end of its output; "" for none."""
    if code == 0:
        return ""
    tail = output[-TAIL:]
    for limit, words in MESSAGES.items():
        if words.search(tail):
            return str(limit)
    return ""


_KILLED = 128 + signal.SIGKILL
_OUT_OF_MEMORY = (
    "this machine, or the control group of the evaluator, ran out of memory, and the kernel killed "
    "a process of the sandbox: lower --concurrency, or give it more memory"
)


def _oom_kills() -> int:
    """Return how many processes the kernel has killed for want of memory since it started."""
    try:
        return usage.kernel_kills("/proc/vmstat")
    except OSError:  # no Linux
        return 0


def _check_memory(kills_before: int) -> None:
    """Raise InfrastructureError if the kernel has killed a process since, for want of memory."""
    if _oom_kills() > kills_before:
        raise InfrastructureError(_OUT_OF_MEMORY) from None


# The sandbox.

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
        self._world = world
        self._files = files
        self._limits = limits
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._link: Link
        # The files whose stamp each command reports at its end; and that stamp, while nothing can
        # have changed them since.
        self._watched: list[str] = []
        self._stamped = ""

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
        request = {
            "do": "run",
            "argv": [*map(str, argv)],
            "seconds": allowed,
            "watched": self._watched,
        }
        return await self._run(request, within=allowed)

    async def ask(self, database: str, questions: Sequence[Question], schema: Schema) -> Answers:
        queries = [(question.query, question.rows) for question in questions]
        order = _Order(
            {
                "database": database,
                "questions": queries,
                "schema": list(schema),
            }
        )
        execution = await self._run({"do": "ask"}, order)
        return answers(execution, len(questions))

    async def judge(self, source: str, argument: str) -> Execution:
        # Only a program that came to its end can print this word.
        word = f"\n{secrets.token_hex(16)}\n"
        program = {
            "source": source,
            "argument": argument,
            "word": word,
        }
        order = _Order(program | _SOURCES)
        execution = await self._run({"do": "judge"}, order)
        return _without_word(execution, word)

    async def _run(
        self, request: Reply, order: _Order | None = None, within: float = 0.0
    ) -> Execution:
        """Have the runner start a process; an order goes past the runner to that."""
        seconds = max(within, self._limits.call_seconds, WALL_SECONDS) + GRACE_SECONDS
        content = order.content if order else b""
        request["size"] = len(content)
        frames = wire.request(request) + content
        async with self._lock:
            self._stamped = ""
            began = perf_counter()
            kills_before = _oom_kills()
            try:
                reply, body = await self._link.ask(frames, seconds=seconds)
            except _StuckError:
                return await self._replace(Execution(None, "", seconds))
            except InfrastructureError:
                # The kernel may have killed the runner for the memory: this sandbox's or all.
                if self._link.struck() == Limit.MEMORY:
                    ended = Execution(None, "", perf_counter() - began)
                    return await self._replace(ended, Limit.MEMORY)
                _check_memory(kills_before)
                raise
            if "error" in reply:
                raise InfrastructureError(f"sandbox: {reply['error']}")
            output = order.open(body) if order else body
            execution = _execution(reply, output, self._link.struck())
            if execution.exit_code == _KILLED and not execution.limit:
                _check_memory(kills_before)
            if reply.get("clean", True):
                self._stamped = str(reply.get("stamp", ""))
                return execution
            return await self._replace(execution)

    async def read(self, path: str) -> bytes:
        _, content = await self._ask("read", path=path)
        return content

    async def read_lines(self, path: str, first: int, count: int | None) -> tuple[bytes, bool]:
        reply, content = await self._ask(
            "read lines",
            path=path,
            first=first,
            count=count,
        )
        return content, bool(reply["cut"])

    async def stamp(self, paths: Sequence[str]) -> str:
        """Return the stamp of the last command's end if it gave one and nothing was done since.

        Otherwise the runner is asked for a new one.
        """
        if self._stamped and self._watched == [*paths]:
            return self._stamped
        self._watched = [*paths]
        reply, _ = await self._ask("stamp", paths=self._watched)
        return str(reply["stamp"])

    async def write(self, path: str, content: bytes) -> None:
        async with self._lock:
            await self._write_all({path: content}, fixture=False)

    async def _write_all(self, files: Mapping[str, bytes], *, fixture: bool) -> None:
        """Write them all; a script of the fixture may, while it is unchanged, be pre-forked."""
        self._stamped = ""
        sizes = [(path, len(content)) for path, content in files.items()]
        request = {
            "do": "write",
            "files": sizes,
            "fixture": fixture,
        }
        contents = b"".join(files.values())
        await self._ask_link(wire.request(request, contents))

    async def _ask(self, act: str, **arguments: object) -> tuple[Reply, bytes]:
        request = {"do": act, **arguments}
        async with self._lock:
            return await self._ask_link(wire.request(request))

    async def _ask_link(self, frame: bytes) -> tuple[Reply, bytes]:
        """Raise OSError for what the runner was refused by the kernel."""
        reply, content = await self._link.ask(frame, seconds=GRACE_SECONDS)
        if "error" in reply:
            path = reply.get("path", "")
            raise OSError(reply["errno"], reply["error"], path)
        return reply, content


def _execution(reply: Reply, content: bytes, struck: str) -> Execution:
    """Return the runner's report; `struck` is the limit that the kernel named."""
    output = content.decode(errors="replace")
    code: int | None = reply["code"]
    limit: str = reply["limit"]
    if reply.get("killed"):
        code = None
    elif code is not None:
        if code < 0:  # a signal, as a shell reports it
            code = 128 - code
        # A refused fork counts only if the command failed of it.
        if not limit and (code or struck == Limit.MEMORY):
            limit = struck
        limit = limit or reported(code, output)
    return Execution(
        code,
        output,
        reply["seconds"],
        limit=limit,
        cut=reply["cut"],
    )


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
    """Start a sandbox by this plan, and end it with the context. Raises as `greet`."""
    try:
        limits = bounds(plan.runner["limits"])
        link = Link(*launcher.world(plan.kind, limits))
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
