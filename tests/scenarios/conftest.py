"""The shipped scenarios, and a way to play them without any part of the engine."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest
import warm_python
from clocks import awake


class Play(Protocol):
    def __call__(self, command: str, *, warm: bool = True) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def workspace(tmp_path: Path) -> Callable[[Mapping[str, bytes]], Path]:
    def build(files: Mapping[str, bytes]) -> Path:
        for name, content in awake(files).items():
            path = tmp_path / "workspace" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return tmp_path / "workspace"

    return build


@pytest.fixture(scope="session")
def environments() -> Iterator[dict[bool, dict[str, str]]]:
    """Those of a bash whose `uv run` is a process forked from a Python, and a new Python."""
    common = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    new = f'() {{ "{sys.executable}" "${{@:2}}"; }}'
    with warm_python.serving(common) as port:
        yield {
            True: common | {"WARM_PYTHON": port, "BASH_FUNC_uv%%": warm_python.SHELL},
            False: common | {"BASH_FUNC_uv%%": new},
        }


@pytest.fixture
def play(tmp_path: Path, environments: dict[bool, dict[str, str]]) -> Play:
    """Run a command of a scenario with bash, `uv run` being this Python."""

    def run(command: str, *, warm: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path / "workspace",
            env=environments[warm],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    return run
