"""A run of the scenario with the known rates, by a process of its own, as a user would start it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

# The server's own defaults would cut away what is rare.
SAMPLING = {"temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0}


def play(
    project: Path,
    base_url: str,
    *,
    trials: int = 24,
    model: str = "markov",
    ends: int = 0,
    seed: int = 3,
    by: str = "--arm strict",
    **entry: object,
) -> dict[str, Any]:
    """The JSON of the run, which ends with this exit code.

    `by` says what the model is played by, `entry` what else its entry in agenteval.toml holds.
    """
    entry = {"base_url": base_url, "model": model, "sampling": SAMPLING, **entry}
    lines = [f"{name} = {_toml(value)}" for name, value in entry.items()]
    (project / "agenteval.toml").write_text("\n".join(["[models.markov]", *lines, ""]))
    command = f"run -m markov known/rates {by} --concurrency 4 --json --trials"
    done = subprocess.run(
        [sys.executable, "-m", "agenteval", *command.split(), str(trials), "--seed", str(seed)],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ends, done.stderr
    return json.loads(done.stdout)


RARE = 1e-4  # of the checks of all servers together one in some hundred runs misses by chance


def likely(count: int, n: int, known: float) -> bool:
    """Whether chance makes so many of so many where this is the rate, or as unlikely a number."""
    return bool(binomtest(count, n, known).pvalue > RARE)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(each)}" for name, each in value.items()) + " }"
    return json.dumps(value)


def inside(rate: dict[str, float], known: float) -> bool:
    return round(rate["low"], 12) <= known <= rate["high"]  # the interval of 0 of n begins near 0
