"""The Python that runs inside: the one that runs us, found where its parts really lie."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from agenteval.errors import UsageError


@dataclass(frozen=True, slots=True)
class Interpreter:
    """`executable` is the program; `prefix` the folder to bind for it, "" for a system one."""

    executable: str
    prefix: str


def interpreter() -> Interpreter:
    """The base interpreter behind any virtual environment.

    It is bound at its own path, where its program looks for its libraries. Raises UsageError when
    binding its folder would show the user's home.
    """
    base: str = getattr(sys, "_base_executable", "") or sys.executable
    executable, prefix = os.path.realpath(base), os.path.realpath(sys.base_prefix)
    if Path(executable).is_relative_to("/usr"):
        return Interpreter(executable, "")
    home = Path.home().resolve()
    if home.is_relative_to(prefix) or prefix in {"/", "/workspace"}:
        raise UsageError(
            f"{executable}: this Python's folder {prefix} holds your home or stands where a "
            "workspace does, so no sandbox may show it: make the environment with another Python "
            "(make clean; make PYTHON=/usr/bin/python3)"
        )
    return Interpreter(executable, prefix)
