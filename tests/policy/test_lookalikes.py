"""Commands that only look like a mistake: an operator in quotes, SQL, JSON, URLs, many lines."""

import json
import subprocess
from pathlib import Path

import pytest

from agenteval.config.allowlists import load_policy
from agenteval.config.files import shipped
from agenteval.policy.policy import allows_command

DEMO = load_policy("demo", roots=[shipped()])
LOOKALIKES = [
    json.loads(line)["command"]
    for line in Path(__file__).with_name("lookalikes.jsonl").read_text().splitlines()
]


def test_there_are_at_least_300_and_no_two_alike() -> None:
    assert len(set(LOOKALIKES)) == len(LOOKALIKES) >= 300


@pytest.mark.parametrize("command", LOOKALIKES)
def test_a_lookalike_is_allowed(command: str) -> None:
    assert allows_command(command, DEMO)


def test_bash_takes_every_lookalike_for_one_command() -> None:
    """Each runs with functions in place of its programs, which say that they were called."""
    stub = "uv() { printf 1; }; git() { printf 1; }; date() { printf 1; }"
    stub += "; sha256sum() { printf 1; }; python3() { printf 1; }\n"
    script = stub + "\n".join(f"eval {_quoted(command)}" for command in LOOKALIKES)
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("1" * len(LOOKALIKES), "")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
