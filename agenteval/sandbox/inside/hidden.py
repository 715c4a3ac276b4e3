"""A fork of the runner that takes its order off the socket itself: the runner never holds it.

A pre-forked script is a copy of the runner's memory, and may run what a model wrote. So a judge's
order (queries, programs, the right answer) and its report must never have been there: the order
goes past the runner, and the report goes through it in a form that it cannot read.
"""

from __future__ import annotations

import _sha3  # type: ignore[import-not-found]  # hashlib loads OpenSSL
import io
import marshal
import os
import sys

from agenteval.sandbox.inside import prefork, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
if TYPE_CHECKING:
    from collections.abc import Callable

    Act = Callable[[wire.Message], tuple[int, bytes]]
TAKEN = b"!"
OUTLET = 3  # what the child says; its own streams are empty


def start(peer: int, size: int, nothing: int, sink: int, act: Act) -> int:
    """Fork a child that reads `size` bytes and acts on them; return once they are read.

    `act` returns its exit code and its output. The child stays as unreadable for others as the
    runner is. If it cannot be made or does not read to the end, the socket is of no use any more,
    and everything ends.
    """
    report, tell = os.pipe2(os.O_CLOEXEC)
    try:
        child = os.fork()
    except OSError:
        raise SystemExit from None
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
    taken = os.read(report, 1)
    os.close(report)
    if taken != TAKEN:
        raise SystemExit
    return child


def _do(act: Act, order: wire.Message) -> None:
    code, said = act(order)
    wire.write(OUTLET, sealed(order["key"], said))
    os._exit(code)


def sealed(key: bytes, content: bytes) -> bytes:
    """XOR with a one-time pad from the key; applying it twice gives the text back."""
    pad = int.from_bytes(_sha3.shake_256(key).digest(len(content)), "little")
    return (int.from_bytes(content, "little") ^ pad).to_bytes(len(content), "little")


HELP = "agenteval_test"  # what programs import


def act(order: wire.Message, env: dict[str, str]) -> tuple[int, bytes]:
    """Run the program as a Python that was just started would.

    Only one that comes to its end prints `order["word"]`, which nobody else knows, as its last
    word.
    """
    prefork.furnish(env)
    sys.argv, sys.orig_argv = ["-c", order["argument"]], ["python3", "-c"]
    output = sys.stdout = sys.stderr = io.StringIO()
    made = sys.modules[HELP] = type(sys)(HELP)
    exec(compile(order["help"], HELP, "exec"), made.__dict__)  # noqa: S102 - our own
    held = made.begin(order)
    text = output.getvalue() + (order["word"] if held else "")
    return 0 if held else 1, text.encode(errors="replace")
