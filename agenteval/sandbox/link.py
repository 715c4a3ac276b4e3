"""The evaluator's end of a runner's socket: one question, one answer, always within a time."""

import asyncio
import json
import marshal
import secrets
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from inspect import getsource
from typing import Any, Final

from agenteval.core.scenario import Answer, Answers, Question, Schema
from agenteval.core.trial import Execution, Limit
from agenteval.errors import InfrastructureError
from agenteval.sandbox.inside import control_group, hidden, program_help, subject, wire

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
        return {limit: control_group.count(self.group, *place) for limit, place in EVENTS.items()}

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
        return hidden.sealed(self.key, said)


def _order(content: dict[str, Any]) -> Order:
    key = secrets.token_bytes(32)
    return Order(key, marshal.dumps(content | {"key": key}, wire.PORTABLE))


def question_order(database: str, questions: Sequence[Question], schema: Schema) -> Order:
    """Return the order that inside/inquiry.py acts on."""
    asked = [(question.query, question.rows) for question in questions]
    return _order({"database": database, "questions": asked, "schema": list(schema)})


def program_order(source: str, argument: str, word: str) -> Order:
    """Return the order that inside/hidden.py acts on."""
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
