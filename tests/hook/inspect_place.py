"""Where the tests have Inspect AI: an environment of its own, which this makes when it is run."""

import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]
VERSION = "0.3.285"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
PLACE = Path(os.environ.get("AGENTEVAL_INSPECT") or _CACHE / "agenteval" / "inspect")

if __name__ == "__main__":
    subprocess.run([sys.executable, "-m", "venv", str(PLACE)], check=True)
    pip = [str(PLACE / "bin/python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, f"inspect-ai=={VERSION}", "openai", str(PROJECT)], check=True)
