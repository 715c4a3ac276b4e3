"""Entry point: signals are answered first, then the program is imported and run."""

import os
import sys
from importlib import import_module

from agenteval.cli import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Run the command line of this process, which ends with it."""
    signals.end_at_once()
    run = _load()
    try:
        run()
    except SystemExit as ended:
        signals.end_without_a_word()
        if signals.is_of_a_signal(ended.code):
            signals.leave(ended.code)
        raise


def _load() -> "Callable[[], None]":
    """Import the program, while a signal is answered; return its `main`.

    A limit that leaves no memory for it ends this process in one line.
    """
    # Before the program: what words a limit needs a library too, and the memory for one.
    host_limits = import_module("agenteval.host")
    try:
        from agenteval.cli import app as program  # noqa: PLC0415 -- a signal while it is imported is answered
    except (ImportError, MemoryError, OSError) as error:
        if not (line := host_limits.struck(error)):
            raise
        os.write(2, f"agenteval: {line}\n".encode())
        sys.exit(4)
    return program.main


if __name__ == "__main__":
    main()
