"""A program of the scenario's own, such as a test, run where no command can read it."""

from __future__ import annotations

import sys

from agenteval.sandbox.inside import prefork

TYPE_CHECKING = False  # as in wire
if TYPE_CHECKING:
    from agenteval.sandbox.inside import wire

HELP = "agenteval_test"  # what programs import


def act(order: wire.Message, env: dict[str, str]) -> tuple[int, bytes]:
    """Run it as a Python that was just started would.

    Only one that comes to its end says `order["word"]`, which nobody else knows, as its last word.
    """
    import io  # noqa: PLC0415 - as prefork

    prefork.furnish(env)
    sys.argv, sys.orig_argv = ["-c", order["argument"]], ["python3", "-c"]
    said = sys.stdout = sys.stderr = io.StringIO()
    made = sys.modules[HELP] = type(sys)(HELP)
    exec(compile(order["help"], HELP, "exec"), made.__dict__)  # noqa: S102 - our own
    held = made.begin(order)
    text = said.getvalue() + (order["word"] if held else "")
    return 0 if held else 1, text.encode(errors="replace")
