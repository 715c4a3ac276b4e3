"""A project of a stranger, looked at: one line, in bounds, and nothing outside changes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from users import USERS, copy_of_the_project, start_words

from agenteval.config import beneath
from agenteval.errors import UsageError
from agenteval.host import read_bytes
from agenteval.sandbox import maker
from agenteval.sandbox.launch import interpreter
from agenteval.workflows.hostile_projects import (
    FILES,
    HARMLESS,
    SCENARIO,
    Hostile,
    _came_of,
    _write_hostile,
    hostile_projects,
    snapshot,
)

HOSTILE = hostile_projects()
MEGABYTES = 700  # the evaluator, its imports and a world of the largest size
SECONDS = 120.0  # on a busy machine; a request has 2 s of processor


@pytest.mark.parametrize("name", [name for name, one in HOSTILE.items() if not one.is_slow])
def test_a_hostile_project_that_is_looked_at_ends_in_one_line_and_changes_nothing(name) -> None:
    came = _came_of(HOSTILE[name])
    assert (re.search(HOSTILE[name].expected, came) is not None, "\n" in came) == (True, False), (
        came
    )


def test_the_battery_has_at_least_eighty_hostile_projects() -> None:
    assert len(HOSTILE) >= 80


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("user", USERS)
def test_every_hostile_project_leaves_home_and_temporary_folder_as_they_were(user) -> None:
    folder = copy_of_the_project()
    folder.chmod(0o777)
    packages = [path for path in sys.path if path.endswith("site-packages")]
    path = os.pathsep.join([str(folder), *packages])
    words = [interpreter().executable, "-S", "-B", "look_at_projects.py", path, str(folder / "p")]
    looked = start_words(user, folder, words)
    printed, said = looked.communicate()
    seen = [json.loads(line) for line in printed.splitlines()]
    wrong = [
        one
        for one in seen
        if (
            one["code"] != (0 if re.match(HARMLESS, HOSTILE[one["name"]].expected) else 2)
            and not (one["code"] == 0 and HARMLESS in HOSTILE[one["name"]].expected)
        )
        or len(one["said"]) != (1 if one["code"] else 0)
        or one["private"]
        or not one["same"]
        or one["peak"] > MEGABYTES
        or one["seconds"] > SECONDS
    ]
    most = {name for name, one in HOSTILE.items() if user == "root" or not one.needs_root}
    assert (looked.returncode, wrong, {one["name"] for one in seen}) == (0, [], most), said[-2000:]


REACHING = """
import contextlib, pathlib, socket, sqlite3
with contextlib.suppress(Exception):
    pathlib.Path('HOME/.bashrc').write_text('changed')
with contextlib.suppress(Exception):
    pathlib.Path('HOME/made').write_text(pathlib.Path('HOME/.aws/credentials').read_text())
with contextlib.suppress(Exception):
    sqlite3.connect('HOME/victim.db').execute('DROP TABLE t').connection.commit()
"""


def _reach(project: Path, home: Path) -> None:
    """A fixture's script and a scenario's test that try the victim's files, then do their work."""
    reaching = REACHING.replace("HOME", str(home))
    script = project / FILES / "scripts/chores.py"
    script.write_text(reaching + script.read_text())
    test = project / "scenarios/mine/one/checks/work.py"
    test.parent.mkdir()
    test.write_text(reaching)
    scenario = project / SCENARIO
    key = '\n[[test]]\nname = "it works"\npython = "checks/work.py"\n'
    scenario.write_text(scenario.read_text() + key)


@pytest.mark.slow
def test_programs_of_a_scenario_that_is_checked_reach_nothing_outside(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    project, home = _write_hostile(Hostile("", _reach), tmp_path)
    before = snapshot(home), snapshot(project)
    ran = subprocess.run(
        [sys.executable, "-m", "agenteval", "scenarios", "check", "mine/one"],
        cwd=project,
        env={**os.environ, "HOME": str(home), "TMPDIR": str(tmp_path / "tmp")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    after, left = (snapshot(home), snapshot(project)), list((tmp_path / "tmp").iterdir())
    assert (ran.returncode, after == before, left) == (0, True, []), ran.stdout + ran.stderr


GIVEN_UP = """
import os, resource, socket, sys
sys.path[:0] = sys.argv[1].split(':')
from agenteval.sandbox import maker_child
maker_child._warm()
sys.stdout.flush()
maker_child._confine()
tries = {
    'open a file': lambda: open('/etc/hostname'),
    'make a file': lambda: open(sys.argv[2] + '/made', 'w'),
    'remove a file': lambda: os.unlink(sys.argv[2] + '/planted'),
    'rename a file': lambda: os.rename(sys.argv[2] + '/planted', sys.argv[2] + '/moved'),
    'change a mode': lambda: os.chmod(sys.argv[2] + '/planted', 0o777),
    'make a folder': lambda: os.mkdir(sys.argv[2] + '/folder'),
    'look at a file': lambda: os.stat(sys.argv[2] + '/planted'),
    'open a socket': lambda: socket.socket(),
    'fork': lambda: os.fork(),
    'execute': lambda: os.execv('/bin/true', ['true']),
    'send a signal': lambda: os.kill(os.getppid(), 0),
    'raise a limit': lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9)),
    'wait for long': lambda: __import__('time').sleep(99),
}
text = ''
for name, attempt in tries.items():
    try:
        attempt()
        text += name + '\\n'
    except (OSError, ValueError):
        pass
os.write(1, ('did: ' + text).encode())
"""


def test_code_that_runs_in_the_confined_child_reaches_nothing(tmp_path: Path) -> None:
    (tmp_path / "planted").write_text("as it was")
    before = snapshot(tmp_path)
    path = os.pathsep.join(path for path in sys.path if os.path.isabs(path))
    words = [sys.executable, "-I", "-S", "-c", GIVEN_UP, path, str(tmp_path)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stdout, snapshot(tmp_path) == before) == ("did: ", True), ran.stderr


def test_after_an_offence_the_next_request_has_its_answer() -> None:
    answers = []
    for template in ("{{ 'x' * 10**9 }}", "{{ 1 + 1 }}", "{{ 9 ** (9 ** 9) }}", "{{ 1 + 1 }}"):
        try:
            answers.append(maker.fill(template, {}))
        except maker.TemplateError as error:
            answers.append(str(error))
    assert answers == [
        "it needs more than 384 MB of memory",
        "2",
        "it takes more than 2 s of CPU time",
        "2",
    ]


def test_a_child_that_is_killed_is_started_anew() -> None:
    maker.fill("{{ 1 }}", {})
    os.kill(maker._MAKER._process.pid, 9)
    maker._MAKER._process.wait()
    assert maker.fill("{{ 2 }}", {}) == "2"


def test_the_child_is_held_by_limits_and_by_the_kernel() -> None:
    assert {"limits", "seccomp"} <= set(maker.confined_by())


PATHS = ("a/b/f", "l/b/f", "a/m", "a/p", "a", "nope", "a/nope/x", "out/passwd", "a/b/f/g")


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/f").write_text("x")
    (tmp_path / "l").symlink_to("a")
    (tmp_path / "a/m").symlink_to("b/f")
    (tmp_path / "out").symlink_to("/etc")
    os.mkfifo(tmp_path / "a/p")
    return tmp_path


@pytest.mark.parametrize("relative", PATHS)
def test_what_the_kernel_refuses_is_refused_by_hand_as_well(linked, relative) -> None:
    folder = os.open(linked, os.O_RDONLY)
    outcomes = []
    for opener in (beneath._by_kernel, beneath._by_steps):
        try:
            os.close(opener(folder, relative))
            outcomes.append("opened")
        except OSError as error:
            outcomes.append(error.strerror)
    os.close(folder)
    assert outcomes[0] == outcomes[1]


def test_a_link_that_the_user_names_is_read_and_one_within_is_not(linked) -> None:
    named = read_bytes(linked / "l/b/f")
    with pytest.raises(UsageError, match="is a link"):
        beneath.read(linked / "l/b/f", linked)
    assert named == b"x"
