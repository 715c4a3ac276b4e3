"""A state folder of the test's own, whose resident process is ended after it."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def stopped(tmp_path, monkeypatch) -> Iterator[Path]:
    state = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    yield state
    pid = state / "agenteval/hook/pid"
    if pid.exists():
        process = int(pid.read_text())
        os.kill(process, signal.SIGTERM)
        for _ in range(200):
            if not pid.exists():
                return
            time.sleep(0.02)
        os.kill(process, signal.SIGKILL)
