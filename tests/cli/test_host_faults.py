"""A machine that keeps us from going on is told in one line, with an exit code of its own."""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from stored import stored

from agenteval.sandbox.inside import linux
from agenteval.testing import run, trial

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


TOLD = "make room there, and ask again"


def test_an_output_that_goes_to_a_full_disk_is_no_verdict(tmp_path) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "agenteval", "classify", "ls"],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (ended.returncode, ended.stderr.count("\n")) == (4, 1)
    assert TOLD in ended.stderr


@pytest.mark.parametrize(
    ("words", "room", "said"),
    [
        (("gate", "--init"), 0, TOLD),
        (
            ("show", "r", "--report", "r.html"),
            40_000,
            f"--report r.html: cannot be written.*{TOLD}",
        ),
        (("show", "r"), 0, "--store reports/agenteval.db: disk I/O error"),
    ],
)
def test_a_file_for_which_there_is_no_room_is_the_machine_s_fault(
    tmp_path, words, room, said
) -> None:
    stored(str(tmp_path / "reports/agenteval.db"), run(trial("ls"), run_id="r"))
    full = limited(tmp_path, *words, room=room)
    assert (full.returncode, full.stderr.count("\n")) == (4, 1), full.stderr
    assert re.search(said, full.stderr)


@pytest.mark.parametrize(
    "words", [("show",), ("gate", "--baseline", "r", "--candidate", "r"), ("view",), ("trend",)]
)
@pytest.mark.parametrize("writable", [False, True], ids=["read-only", "writable"])
def test_a_store_that_may_not_be_read_is_the_users_fault(tmp_path, words, writable) -> None:
    store = tmp_path / "reports" / "agenteval.db"
    stored(str(store), run(trial("ls"), run_id="r"))
    if os.geteuid() == 0:
        os.chown(store, 65534, 65534)
    store.chmod(0)
    store.parent.chmod(0o755 if writable else 0o555)
    ended = subprocess.run(
        [sys.executable, "-m", "agenteval", *words],
        cwd=tmp_path,
        preexec_fn=linux.empty_the_bounding_set if os.geteuid() == 0 else None,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    store.parent.chmod(0o755)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert "--store reports/agenteval.db: unable to open database file" in ended.stderr


def test_an_export_without_room_leaves_no_half_of_a_store(tmp_path) -> None:
    stored(str(tmp_path / "reports/agenteval.db"), run(trial("ls"), run_id="r"))
    full = limited(tmp_path, "store", "export", "--file", "copy.db", room=60_000)
    assert (full.returncode != 0, full.stderr.count("\n")) == (True, 1)
    assert [*tmp_path.glob("copy*")] == []


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
