"""A fork of the runner that takes its order off the socket itself: the runner never holds it.

A pre-forked script is a copy of the runner's memory, and may run what a model wrote. So what a
judge is told (queries, programs, what is right) and what it says must never have been there: the
one goes past the runner, the other through it as nothing that it could read.
"""

from __future__ import annotations

import _sha3  # type: ignore[import-not-found]  # hashlib loads OpenSSL
import marshal
import os

from agenteval.sandbox.inside import prefork, wire

TYPE_CHECKING = False  # as in wire
if TYPE_CHECKING:
    from collections.abc import Callable

    Act = Callable[[wire.Message], tuple[int, bytes]]

TAKEN = b"!"
OUTLET = 3  # what the child says; its own streams are empty


def start(peer: int, size: int, nothing: int, sink: int, act: Act) -> int:
    """Fork a child that reads `size` bytes and acts on them; it is back once they are read.

    `act` makes its exit code, and what it says. The child stays as unreadable for others as the
    runner is. Where it cannot be made or does not read to the end, the socket is of no use any
    more, and everything ends.
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
                prefork.detach([nothing, nothing, nothing, sink])
                os.set_inheritable(OUTLET, False)
                _do(act, marshal.loads(order))
        finally:
            os._exit(prefork.CRASHED)
    os.close(tell)
    taken = os.read(told, 1)
    os.close(told)
    if taken != TAKEN:
        os._exit(0)
    return child


def _do(act: Act, order: wire.Message) -> None:
    code, said = act(order)
    wire.write(OUTLET, sealed(order["key"], said))
    os._exit(code)


def sealed(key: bytes, content: bytes) -> bytes:
    """As nobody reads it who lacks the key, which is for once; sealed again it is open."""
    pad = int.from_bytes(_sha3.shake_256(key).digest(len(content)), "little")
    return (int.from_bytes(content, "little") ^ pad).to_bytes(len(content), "little")
