"""A fork of the runner that takes its order off the socket itself: the runner never holds it.

A pre-forked script is a copy of the runner's memory, and may run what a model wrote. So what a
judge is told (queries, programs, what is right) must never have been there.
"""

from __future__ import annotations

import marshal
import os

from agenteval.sandbox.inside import prefork, wire

TYPE_CHECKING = False  # as in wire
if TYPE_CHECKING:
    from collections.abc import Callable

TAKEN = b"!"


def start(peer: int, size: int, streams: list[int], act: Callable[[wire.Message], None]) -> int:
    """Fork a child that reads `size` bytes and acts on them; it is back once they are read.

    The child stays as unreadable for others as the runner is. Where it cannot be made or does not
    read to the end, the socket is of no use any more, and everything ends.
    """
    told, tell = os.pipe2(os.O_CLOEXEC)
    try:
        child = os.fork()
    except OSError:
        os._exit(0)
    if child == 0:
        try:
            order = wire.exactly(peer, size)
            if order is not None:
                os.write(tell, TAKEN)
                prefork.detach(streams)
                act(marshal.loads(order))
        finally:
            os._exit(prefork.CRASHED)
    os.close(tell)
    taken = os.read(told, 1)
    os.close(told)
    if taken != TAKEN:
        os._exit(0)
    return child
