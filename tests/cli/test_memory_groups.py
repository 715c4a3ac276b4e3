"""A run in a small control group: the kernel kills a sandbox, and its trial is void."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from disturbed import marked
from process_table import below, processes
from program import agenteval
from scripted_server import answers, bash, scripted
from test_resume import stored

from agenteval.workflows.hostile_projects import FILES, Hostile, _write_hostile

MIB = 1 << 20
GROWING = "x = []\nwhile True: x.append(bytearray(1 << 20))\n"
MANY = """
import os, time
for _ in range(40):
    if os.fork() == 0: break
x = bytearray(8 << 20)
time.sleep(5)
"""
RUN = ("run", "-m", "m", "--trials", "2", "--seed", "7", "coding/slug-function", "--arm", "strict")
PLACES = (  # of version 1 and 2: the folder, the file of the limit, that of the controllers
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", None),
    (Path("/sys/fs/cgroup"), "memory.max", "cgroup.subtree_control"),
)


@dataclass(frozen=True)
class Group:
    folder: Path

    def enter(self) -> None:
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))


@contextmanager
def group_of(size: int) -> Iterator[Group]:
    """A control group with so many bytes; skips the test, with the reason, where none is made."""
    for place, limit, controllers in PLACES:
        if controllers and "memory" not in _text(place / controllers).split():
            continue
        folder = place / f"agenteval-test-{os.getpid()}"
        with suppress(OSError):
            folder.mkdir()
            (folder / limit).write_text(str(size))
            break
    else:
        pytest.skip("no control group with the controller memory can be made here")
    try:
        yield Group(folder)
    finally:
        for number in _text(folder / "cgroup.procs").split():
            os.kill(int(number), signal.SIGKILL)
        _remove(folder)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _remove(folder: Path) -> None:
    """Remove the group once the kernel has let go of its processes."""
    for _ in range(100):
        with suppress(OSError):
            folder.rmdir()
            return
        time.sleep(0.05)


def hog(module: str):
    """A model that writes the module, and runs what imports it."""

    def model(messages):
        steps = (
            ("write", {"path": "src/slug.py", "content": module}),
            bash("uv run scripts/run_tests.py slug"),
        )
        done = answers(messages)
        return steps[done] if done < len(steps) else "It is done."

    return model


def ended(folder: Path, *words: str, group: Group | None = None) -> subprocess.CompletedProcess:
    (folder / "tmp").mkdir(exist_ok=True)
    environment = {"TMPDIR": str(folder / "tmp"), "AGENTEVAL_CHAOS": str(folder)}
    enter = group.enter if group else None
    return agenteval(folder, *words, env=environment, preexec_fn=enter)


def outcomes(folder: Path) -> list[tuple[str, str]]:
    """Return how each trial of the only run ended, and why it is void."""
    (run,) = [path.stem for path in (folder / "reports").glob("*.html")]
    return [(str(trial.outcome), str(trial.cause or "")) for trial in stored(folder, run).trials]


def remaining(folder: Path) -> list[object]:
    """Return what a run left: its processes, a moment after its end, and temporary files."""
    until = time.monotonic() + 10
    while marked(folder, {pid: start for pid, _, start in processes()}):
        if time.monotonic() > until:
            return ["a process"]
    return [*(folder / "tmp").iterdir()]


@pytest.mark.slow
@pytest.mark.parametrize("module", [GROWING, MANY], ids=["a process that grows", "many processes"])
@pytest.mark.parametrize("size", [240, 110])
def test_where_memory_ends_before_a_limit_the_sandbox_dies_and_its_trial_is_void(
    tmp_path, module, size
) -> None:
    with scripted(hog(module)) as url:
        with group_of(size * MIB) as group:
            small = ended(tmp_path, *RUN, "--base-url", url, group=group)
            first = outcomes(tmp_path)
        resumed = ended(tmp_path, "run", "--resume", "last", "--retry-void")
        second = outcomes(tmp_path)
    assert (small.returncode, first, remaining(tmp_path)) == (5, [("void", "ours")] * 2, [])
    assert "ran out of memory, and the kernel killed a process of the sandbox" in small.stderr
    assert (resumed.returncode, second) == (0, [("claimed-done", "")] * 2)


def _endless_world(project: Path, _home: Path) -> None:
    (project / FILES).parent.joinpath("world.sql").write_text(
        "WITH RECURSIVE n(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n;"
    )


def test_a_killed_maker_of_worlds_is_the_machines_fault_and_no_authors(tmp_path) -> None:
    project, _ = _write_hostile(Hostile("", _endless_world), tmp_path)
    command = [sys.executable, "-m", "agenteval", "scenarios", "world", "mine/one"]
    with subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE, text=True) as looking:
        makers: list[int] = []
        while not makers and looking.poll() is None:
            makers = [pid for pid, *_ in below(looking.pid) if _is_busy_maker(pid)]
        os.kill(makers[0], signal.SIGKILL)
        _, error = looking.communicate(timeout=60)
    assert (looking.returncode, error.count("\n")) == (4, 1), error
    assert "the process in which worlds are made was killed (signal 9)" in error


def _is_busy_maker(pid: int) -> bool:
    """Return True once the confined child has its seccomp filter, and works at the query."""
    stat = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    filtered = "Seccomp:\t2" in _text(Path(f"/proc/{pid}/status"))
    return filtered and stat[0] == "R"
