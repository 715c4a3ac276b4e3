"""What a runner may answer, and what ends it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from agenteval.errors import InfrastructureError
from agenteval.sandbox.inside import wire
from agenteval.sandbox.session import Link, Reply, Session
from agenteval.trial.trial import Limits


def frame(text: bytes, body: bytes = b"") -> bytes:
    return len(text).to_bytes(4) + len(body).to_bytes(4) + text + body


async def answer(parts: list[bytes]):
    """What is read of a runner that answers so, and then is gone."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)

    async def runner() -> None:
        for part in parts:
            await asyncio.sleep(0.01)
            theirs.send(part)
        theirs.shutdown(socket.SHUT_WR)

    with ours, theirs:
        question = wire.request({"do": "read"})
        async with asyncio.TaskGroup() as group:
            group.create_task(runner())
            seen = await Link(ours).ask(question, seconds=5.0)
    return seen


WHOLE = frame(b'{"a":1}', b"body\0")


@pytest.mark.parametrize(
    "parts",
    [[WHOLE], [WHOLE[:3], WHOLE[3:]], [WHOLE[:8], WHOLE[8:]], [WHOLE[:-1], WHOLE[-1:]]],
)
async def test_an_answer_is_read_in_whatever_parts_it_comes(parts) -> None:
    assert await answer(parts) == ({"a": 1}, b"body\0")


@pytest.mark.parametrize(
    ("came", "said"),
    [
        (b"", "closed its socket"),
        (WHOLE[:-1], "closed its socket"),
        (WHOLE + b"{", "more than an answer"),
        (frame(b"[]"), "a frame without an object"),
        (frame(b"{"), "the sandbox ended"),
        (b"\xff" * 8, "a frame of"),
    ],
)
async def test_anything_else_is_the_end_of_the_sandbox(came, said) -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(InfrastructureError, match=said)):
        await answer([came])


class Answering:
    """Plays a link whose runner has done everything well, and told a stamp."""

    def __init__(self) -> None:
        self.asked = 0

    async def ask(self, frames: bytes, *, seconds: float) -> tuple[Reply, bytes]:
        del frames, seconds
        self.asked += 1
        return {"stamp": "as it is", "code": 0, "limit": "", "seconds": 0.0, "cut": False}, b""

    def struck(self) -> str:
        return ""


async def test_a_stamp_that_a_command_told_is_not_asked_for() -> None:
    link, seen = Answering(), []

    @asynccontextmanager
    async def world() -> AsyncIterator[Link]:
        yield cast("Link", link)

    async with Session(world, {}, Limits()) as sandbox:
        for act in (
            sandbox.stamp(["a"]),
            sandbox.run(["true"]),
            sandbox.stamp(["a"]),
            sandbox.read("a"),
            sandbox.stamp(["a"]),
            sandbox.stamp(["b"]),
        ):
            before = link.asked
            await act
            seen.append(link.asked - before)
    assert seen == [1, 1, 0, 1, 0, 1]


async def test_what_comes_while_nobody_waits_is_kept_for_the_next_question() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        link = Link(ours)
        theirs.send(WHOLE)
        seen = [await link.ask(b"first", seconds=5.0)]
        theirs.send(frame(b'{"b":2}'))
        await asyncio.sleep(0.05)  # the loop sees it
        seen.append(await link.ask(b"next", seconds=5.0))
    assert seen == [({"a": 1}, b"body\0"), ({"b": 2}, b"")]
