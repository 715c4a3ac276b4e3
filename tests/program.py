"""The command `agenteval` as a process of its own."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PROGRAM = (sys.executable, "-m", "agenteval")


def agenteval(
    folder: Path,
    *words: str,
    before: Sequence[str] = (),
    env: dict[str, str] | None = None,
    **settings: Any,
) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder; `before` starts it, and `env` goes beside our environment."""
    usual = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 250}
    command = [*before, *PROGRAM, *words]
    environment = os.environ | (env or {})
    return subprocess.run(command, cwd=folder, env=environment, check=False, **(usual | settings))
