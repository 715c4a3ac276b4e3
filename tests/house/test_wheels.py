"""Where pip finds a built package for each dependency, so that nobody needs a compiler."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
PYTHONS = ("3.11", "3.14")  # the oldest that is asked for, and the newest
MACHINES = (
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
)


def lacking(python: str, machine: str, *words: str | Path) -> str:
    """What the index lacks there, in uv's words; nothing where all is to be had as wheels."""
    told = subprocess.run(
        [
            *(UV, "pip", "compile", "--quiet", "--only-binary", ":all:"),
            *("--python-version", python, "--python-platform", machine, *words),
            *("--output-file", "/dev/null"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if "Failed to fetch" in told.stderr or "error sending request" in told.stderr:
        pytest.skip("the package index cannot be reached")
    return told.stderr


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("python", PYTHONS)
def test_every_dependency_is_had_as_a_wheel(python: str, machine: str) -> None:
    extras = ["postgres", "parquet", "power"]
    if machine != "x86_64-apple-darwin":
        extras += ["ray"]  # no longer built for Macs with an Intel processor
    words = [word for extra in extras for word in ("--extra", extra)]
    assert lacking(python, machine, ROOT / "pyproject.toml", *words) == ""


@pytest.mark.slow
def test_what_is_not_built_is_told(tmp_path: Path) -> None:
    (tmp_path / "old.in").write_text("docopt==0.6.2\n")  # published as its source alone
    assert "docopt==0.6.2 has no usable wheels" in lacking("3.11", MACHINES[0], tmp_path / "old.in")
