"""Whole runs of the program on each backend, as root and as an ordinary user, on odd machines."""

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from available import ENGINE, installed
from users import NOBODY, USERS, hide_processes, start_words

from agenteval.sandbox.launch import interpreter

MAIN = """\
import sys
sys.path[:0] = sys.argv.pop(1).split(':')
from agenteval.cli.app import main
main()
"""
RUN = ("run", "-m", "sim/qwen3.6-35b", "mail/draft", "--trials", "2", "--seed", "5")


@pytest.fixture
def place(shared_copy, request) -> Path:
    """A folder of its own for each test, in which every user may write."""
    folder = shared_copy / f"run-{abs(hash(request.node.name))}"
    for path in (folder, folder / "tmp"):
        path.mkdir()
        path.chmod(0o777)
    return folder


def ended(user, place, *words, prepare=lambda: None, **extra) -> tuple[int, str, str]:
    """Return exit code, output and errors of the copied program, whose modules all can read."""
    packages = [path for path in sys.path if path.endswith("site-packages")]
    path = os.pathsep.join([str(place.parent), *packages])
    program = [interpreter().executable, "-S", "-B", "-c", MAIN, path, *words]
    environment = {"TMPDIR": str(place / "tmp")} | extra
    with start_words(user, place, program, prepare, **environment) as running:
        out, error = running.communicate(timeout=240)
    return running.returncode, out, error


def outcomes(place: Path) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(place / "reports/agenteval.db")) as store:
        return store.execute("SELECT outcome FROM trial").fetchall()


@pytest.mark.slow
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", ["bubblewrap", "namespaces", "container"])
def test_a_whole_run_completes_on_each_backend_and_leaves_nothing(
    name, user, place, rootless
) -> None:
    is_rootless = (installed(name), user) == ("container", "ordinary")
    extra = ENGINE | (rootless() if is_rootless else {}) if name == "container" else {}
    code, _, error = ended(user, place, *RUN, "--sandbox", name, **extra)
    assert (code, "Traceback" in error) == (0, False), error
    assert (outcomes(place), [*(place / "tmp").iterdir()]) == ([("completed",)] * 2, [])


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a /proc with hidepid")
@pytest.mark.parametrize("name", ["bubblewrap", "namespaces"])
def test_a_proc_that_hides_the_processes_of_others_changes_nothing(name, place) -> None:
    words = (*RUN, "--sandbox", name)
    code, _, error = ended("ordinary", place, *words, prepare=hide_processes)
    assert (code, "Traceback" in error) == (0, False), error
    assert (outcomes(place), [*(place / "tmp").iterdir()]) == ([("completed",)] * 2, [])


LOCKED = "trust.toml: not used, as it cannot be read: set HOME to a folder of yours\n"
SETTINGS = ".claude/settings.json: cannot be read (Permission denied): make it yours\n"
COMMANDS = {  # exit code and words of a command where the home is another user's, and without one
    RUN: ((0, LOCKED), (0, "")),
    ("show",): ((0, ""), (0, "")),
    ("trust", "--list"): ((0, LOCKED), (0, "")),
    ("hook", "status"): ((2, SETTINGS), (0, "")),
    ("ingest", "auto"): ((2, "cannot be read or written: Permission denied\n"), (2, "")),
}


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a home that others cannot read")
@pytest.mark.parametrize(("home", "column"), [("another-home", 0), ("/nonexistent", 1), ("", 1)])
def test_a_home_of_somebody_else_or_none_stops_only_what_needs_one(home, column, place) -> None:
    (place / "another-home").mkdir(mode=0o700)
    (project_file := place / "agenteval.toml").touch()
    os.chown(project_file, NOBODY, NOBODY)
    where = str(place / home) if home == "another-home" else home
    wrong = []
    for words, expected in COMMANDS.items():
        code, _, error = ended("ordinary", place, *words, HOME=where)
        is_one_line = code == 0 or error.count("\n") == 1
        if code != expected[column][0] or expected[column][1] not in error or not is_one_line:
            wrong.append((words, code, error))
    assert (wrong, outcomes(place)) == ([], [("completed",)] * 2)
    assert os.listdir(place / "another-home") + os.listdir(place / "tmp") == []
