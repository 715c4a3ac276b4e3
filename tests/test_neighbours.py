"""Another distribution that put its files into the folder where agenteval lies."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import agenteval

PACKAGE = Path(agenteval.__file__).parent


def start(folder: Path) -> tuple[int, str]:
    """A start of the package as it is installed in this folder."""
    (folder / "agenteval").symlink_to(PACKAGE)
    ended = subprocess.run(
        [sys.executable, "-m", "agenteval", "--version"],
        env={**os.environ, "PYTHONPATH": str(folder)},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("other", ["agent_eval-0.1.55", "agent_evaluation-0.4.1"])
def test_a_start_beside_a_package_of_the_same_name_says_so_in_one_line(other, tmp_path):
    (tmp_path / f"{other}.dist-info").mkdir()
    code, said = start(tmp_path)
    name = other.partition("-")[0].replace("_", "-")
    assert (code, said.count("\n"), f"agenteval: {name} has put" in said) == (0, 1, True)


def test_a_start_beside_anything_else_says_nothing(tmp_path):
    (tmp_path / "agent_evals-1.0.dist-info").mkdir()
    (tmp_path / "agenteval_gate-0.1.0.dist-info").mkdir()
    assert start(tmp_path) == (0, "")
