"""A sandbox as the engine sees it: commands and files, through the runner of one trial.

The evaluator's end of a runner's socket: one question, one answer, always within a time.
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
from functools import cache, cached_property
from inspect import getsource
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Literal, Self

from agenteval.errors import AgentevalError, InfrastructureError, UsageError
from agenteval.sandbox.inside import prefork, program_help, subject, usage, wire
from agenteval.sandbox.inside.inquiry import WALL_SECONDS
from agenteval.sandbox.launch import Launcher, bounds
from agenteval.trial.trial import Answer, Answers, Execution, Limit, Limits, Question, Schema

CLOSE_SECONDS = 5.0
EVENTS: Final = {
    Limit.MEMORY: ("memory.events", "oom_kill"),
    Limit.PROCESSES: ("pids.events", "max"),
}

Reply = dict[str, Any]


class StuckError(InfrastructureError):
    """The other side lives, and does not answer."""


class Link:
    """After a failure, a timeout or a cancellation it is closed: half a frame is no frame.

    `group` is the control group of the world, "" for none. The loop listens from the first question
    on: to begin and end that with each would take as long as the answer's reading.
    """

    def __init__(self, peer: socket.socket, group: str = "") -> None:
        self._peer, self.group = peer, group
        self._loop: asyncio.AbstractEventLoop | None = None  # that which listens
        self._next: asyncio.Future[bytes] | None = None  # whoever waits for what comes next
        self._events = dict.fromkeys(EVENTS, 0)

    def struck(self) -> str:
        """Return the limit that the kernel enforced on this sandbox since the last check."""
        before, self._events = self._events, self._counted()
        grown = (limit for limit in EVENTS if self._events[limit] > before[limit])
        return next(grown, "")

    def _counted(self) -> dict[Limit, int]:
        if not self.group:
            return self._events
        return {limit: usage.count(self.group, *place) for limit, place in EVENTS.items()}

    async def ask(self, frames: bytes, *, seconds: float) -> tuple[Reply, bytes]:
        """Send the frames, read one. Raises InfrastructureError; StuckError when it takes long."""
        try:
            async with asyncio.timeout(seconds):
                await self._send(frames)
                return await self._receive()
        except TimeoutError:
            self._hang_up()
            raise StuckError(f"the sandbox did not answer in {seconds:g} s") from None
        except (OSError, EOFError, ValueError) as error:
            self._hang_up()
            raise InfrastructureError(f"the sandbox ended: {error}") from error
        except asyncio.CancelledError:
            self._hang_up()
            raise

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
            self._hang_up()

    def _hang_up(self) -> None:
        self._listen_no_more()
        self._peer.close()

    async def _send(self, frame: bytes) -> None:
        try:
            await asyncio.get_running_loop().sock_sendall(self._peer, frame)
        except (BrokenPipeError, ConnectionResetError):
            return  # why it ended may still stand in the socket, to be read

    async def _receive(self) -> tuple[Reply, bytes]:
        frame = await self._filled(b"", wire.HEADER)
        text, body = wire.lengths(frame[: wire.HEADER])
        end = wire.HEADER + text
        frame = await self._filled(frame, end + body)
        if len(frame) > end + body:
            raise ValueError("more than an answer")
        message = json.loads(frame[wire.HEADER : end].decode())
        if not isinstance(message, dict):
            raise ValueError("a frame without an object")  # noqa: TRY004
        return message, frame[end:]

    async def _filled(self, begun: bytes, count: int) -> bytes:
        """With all that comes until it has so many bytes: an answer is seldom in two parts."""
        parts, have = [begun] if begun else [], len(begun)
        while have < count:
            part = await self._part()
            if not part:
                raise EOFError("it closed its socket")
            parts.append(part)
            have += len(part)
        return b"".join(parts)

    async def _part(self) -> bytes:
        try:
            return await self._come()
        except ConnectionResetError:  # told once, when it left something of ours unread
            return await self._come()

    def _come(self) -> asyncio.Future[bytes]:
        loop = asyncio.get_running_loop()
        self._next = loop.create_future()
        if self._loop is None:
            self._loop = loop
            loop.add_reader(self._peer, self._read)
        return self._next

    def _read(self) -> None:
        """Pass on what has come. If nobody waits for it now, leave it to the next who asks."""
        waiting, self._next = self._next, None
        if waiting is None or waiting.done():
            self._listen_no_more()
            return
        try:
            waiting.set_result(self._peer.recv(1 << 16))
        except (BlockingIOError, InterruptedError):
            self._next = waiting
        except OSError as error:
            waiting.set_exception(error)

    def _listen_no_more(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._peer)
            self._loop = None


# What any process of a test may show: it tells nothing of the test.
PUBLIC: Final = getsource(subject)
FLAT = int | float | str | None


@dataclass(frozen=True, slots=True)
class Order:
    """An order that goes past the runner to a judge, and the key that opens the judge's words."""

    key: bytes
    content: bytes

    def opened(self, said: bytes) -> bytes:
        return prefork.sealed(self.key, said)


def _order(content: dict[str, Any]) -> Order:
    key = secrets.token_bytes(32)
    return Order(key, marshal.dumps(content | {"key": key}, wire.PORTABLE))


def question_order(database: str, questions: Sequence[Question], schema: Schema) -> Order:
    """Return the order that inside/inquiry.py acts on."""
    asked = [(question.query, question.rows) for question in questions]
    return _order({"database": database, "questions": asked, "schema": list(schema)})


def program_order(source: str, argument: str, word: str) -> Order:
    """Return the order that inside/prefork.py acts on."""
    return _order({"source": source, "argument": argument, "word": word} | _texts())


@cache
def _texts() -> dict[str, str]:
    return {"help": getsource(program_help), "subject": getsource(subject)}


def new_word() -> str:
    """Return a random word that only a program that came to its end can print."""
    return f"\n{secrets.token_hex(16)}\n"


def vouched(execution: Execution, word: str) -> Execution:
    """The execution without the word; one that did not say it has failed, whatever its code."""
    code, output = execution.exit_code, execution.output
    if output.endswith(word):
        output = output.removesuffix(word)
    elif code == 0:
        code, output = 1, f"{output}\nit ended before its last line"
    return Execution(code, output, execution.seconds, execution.limit, cut=execution.cut)


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
        replies = tuple(_answer(**one) for one in message["answers"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        replies = ()
    if len(replies) != count:
        return Answers(broken="the database cannot be asked: what it answers is no answer")
    return Answers(replies)


def _answer(
    names: Sequence[str] = (), rows: Sequence[Sequence[FLAT]] = (), error: str = ""
) -> Answer:
    cells = tuple(map(tuple, rows))
    if (cells and not names) or any(len(row) != len(names) for row in cells):
        raise ValueError("not a value for each column")
    if not all(isinstance(cell, FLAT) for row in cells for cell in row):
        raise ValueError("not a plain value")
    return Answer(tuple(map(str, names)), cells, str(error)[:500])


def _ending(execution: Execution) -> str:
    code = execution.exit_code
    if execution.limit or code is None:
        return f"it took too much ({execution.limit})"
    if code == 128 + signal.SIGXCPU:
        return "it took too much (cpu)"
    return f"signal {code - 128}" if code > 128 else f"exit code {code}"


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
        order = question_order(database, questions, schema)
        return answers(await self._run({"do": "ask"}, order), len(questions))

    async def judge(self, source: str, argument: str) -> Execution:
        word = new_word()
        order = program_order(source, argument, word)
        return vouched(await self._run({"do": "judge"}, order), word)

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
