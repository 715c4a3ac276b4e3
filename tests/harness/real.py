"""The real harnesses of the tests: got once from npm or PyPI into a cache, outside the repository.

`python tests/harness/real.py` gets those that are small enough to be tested each time; the tests
play with mini (700 MB) too where it was asked for by name.
"""

import os
import sys
from pathlib import Path

from agenteval.errors import UsageError
from agenteval.harness.install import install

NAMES = ("opencode", "claude-code", "codex", "qwen-code")
PLAYED = (*NAMES, "mini")


def cache() -> Path:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("AGENTEVAL_HARNESSES") or home / "agenteval" / "harnesses")


if __name__ == "__main__":
    os.environ["AGENTEVAL_DATA"] = str(cache())
    missing = []
    for name in sys.argv[1:] or NAMES:
        try:
            sys.stdout.write(f"{install(name).label}\n")
        except UsageError as error:
            missing.append(str(error))
    if missing:
        sys.exit("\n".join(missing))
