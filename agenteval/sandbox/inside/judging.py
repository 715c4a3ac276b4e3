"""A program of the scenario's own, such as a test, run where no command can read it."""

from __future__ import annotations

import os
import sys

from agenteval.sandbox.inside import prefork

TYPE_CHECKING = False  # as in wire
if TYPE_CHECKING:
    from agenteval.sandbox.inside import wire

HELP = "agenteval_test"  # what programs import


def act(order: wire.Message, env: dict[str, str]) -> None:
    """Run it as a Python that was just started would, and end.

    Only one that comes to its end says `order["word"]`, which nobody else knows, as its last word.
    """
    prefork.furnish(env)
    sys.argv, sys.orig_argv = ["-c", order["argument"]], ["python3", "-c"]
    made = sys.modules[HELP] = type(sys)(HELP)
    exec(compile(order["help"], HELP, "exec"), made.__dict__)  # noqa: S102 - our own
    code = 0 if made.begin(order) else 1
    sys.stdout.flush()
    sys.stderr.flush()
    if code == 0:
        os.write(1, order["word"].encode())
    os._exit(code)
