"""The shipped scenarios, and a way to play them without any part of the engine."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from clocks import awake

Play = Callable[[str], subprocess.CompletedProcess[str]]


@pytest.fixture
def workspace(tmp_path: Path) -> Callable[[Mapping[str, bytes]], Path]:
    def build(files: Mapping[str, bytes]) -> Path:
        for name, content in awake(files).items():
            path = tmp_path / "workspace" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return tmp_path / "workspace"

    return build


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Run a command of a scenario with bash, `uv run` being this Python."""
    tools = tmp_path / "tools"
    tools.mkdir()
    uv = tools / "uv"
    uv.write_text(f'#!/bin/sh\nshift\nexec "{sys.executable}" "$@"\n')
    uv.chmod(0o755)
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path / "workspace",
            env=environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    return run
