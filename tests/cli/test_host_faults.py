"""A machine that keeps us from going on is told in one line, with an exit code of its own."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

RUN = ("run", "-m", "sim/qwen3.6-35b", "ralf/handshake", "--trials", "12", "--concurrency", "2")
ROOM = 900_000  # bytes that a file may have: more than an empty store, less than that of this run


def limited(folder: Path, *words: str, room: int | None = None) -> subprocess.CompletedProcess[str]:
    """The command, in a process whose files may not grow beyond `room`."""

    def bound() -> None:
        if room is not None:
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))  # sandboxes set their own

    return subprocess.run(
        [sys.executable, "-m", "agenteval", *words],
        cwd=folder,
        preexec_fn=bound,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


@pytest.mark.slow
def test_a_store_without_room_ends_the_run_in_one_line_and_it_can_go_on(tmp_path) -> None:
    full = limited(tmp_path, *RUN, room=ROOM)
    assert (full.returncode, "Traceback" in full.stderr) == (4, False)
    last = full.stderr.strip().splitlines()[-1]
    assert last.startswith("agenteval: --store reports/agenteval.db: ")
    assert "What was stored before is intact" in last
    resumed = limited(tmp_path, "run", "--resume", "last")
    shown = limited(tmp_path, "show").stdout
    assert (resumed.returncode, "12 of 12 trials" in shown) == (0, True)
