"""Control groups: what the kernel holds a world to, that none is left, nor another's touched."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from strikes import MIB
from test_sandbox_ends import family

from agenteval.sandbox.backends import BACKENDS
from agenteval.sandbox.inside import usage
from agenteval.sandbox.launch import Groups, own_group
from agenteval.trial.trial import Limit, Limits

# Buffers that are the kernel's: the watch sees some MiB of descriptors, and no more.
PIPES = """
import os, time
children = [os.fork() for _ in range(5)]
for _ in range(480):
    source, sink = os.pipe2(os.O_NONBLOCK)
    try:
        while True: os.write(sink, bytes(1 << 12))
    except BlockingIOError: pass
time.sleep(1)
"""
BUSY = """
import os, time
for _ in range(3): os.fork()
end = time.monotonic() + 0.5
while time.monotonic() < end: pass
"""
BOMB = """
import os, time
while True:
    try: os.fork()
    except BlockingIOError: time.sleep(0.01)
"""
LOOK = """
import os
print(open('/proc/self/cgroup').read(), os.path.exists('/sys/fs/cgroup'), flush=True)
os.system('mount -t cgroup2 none /tmp')
print(os.path.exists('/tmp/cgroup.procs'))
"""


@pytest.fixture
async def grouped(backend):
    """The backend; skips the test, with the reason, where its worlds have no control group."""
    async with backend.open({}, Limits()):
        pass
    if lacking := backend.launcher.groups.lacking:
        pytest.skip(lacking)
    return backend


def worlds(backend) -> list[Path]:
    """The groups of the worlds that live."""
    backend.launcher.groups.sweep()
    groups = Path(backend.launcher.groups.group).glob("agenteval-[0-9]*")
    return [group for group in groups if "populated 1" in (group / "cgroup.events").read_text()]


def told_by(group: Path) -> list[str]:
    return [(group / name).read_text() for name in ("memory.max", "pids.max", "cpu.max")]


async def test_a_world_has_a_group_with_its_limits_and_neither_sees_nor_reaches_it(grouped):
    async with grouped.open({}, replace(Limits(), memory=200 * MIB, processes=20)) as sandbox:
        (group,) = worlds(grouped)
        told = told_by(group)
        looked = await sandbox.run(["python3", "-c", LOOK])
    assert told == [f"{264 * MIB}\n", "28\n", "20000 20000\n"]
    assert looked.output.splitlines()[0] == "0::/"
    assert [line for line in looked.output.splitlines() if line.endswith("True")] == []


async def test_memory_that_only_the_kernel_sees_is_the_memory_limit_and_the_world_lives(grouped):
    small = replace(Limits(), memory=100 * MIB, workspace=MIB, open_files=1000)
    limits = replace(small, call_seconds=120, cpu_seconds=120)  # an emulated machine is slow
    killed = usage.count(grouped.launcher.groups.group, "memory.events", "oom_kill")
    async with grouped.open({"notes.txt": b""}, limits) as sandbox:
        done = await sandbox.run(["python3", "-c", PIPES])
        after = await sandbox.run(["ls"])
    assert (done.limit, after.output) == (Limit.MEMORY, "notes.txt\n")
    assert usage.count(grouped.launcher.groups.group, "memory.events", "oom_kill") > killed


async def test_a_runner_that_the_kernel_killed_is_the_trials_limit_and_the_world_a_new_one(grouped):
    async with grouped.open({"notes.txt": b""}, Limits()) as sandbox:
        await sandbox.run(["rm", "notes.txt"])
        (group,) = worlds(grouped)
        (group / "memory.max").write_text("0")
        done = await sandbox.run(["python3", "-c", "import json"])
        after = await sandbox.run(["ls"])
    assert (done.limit, done.exit_code, after.output) == (Limit.MEMORY, None, "notes.txt\n")


async def test_a_fork_bomb_is_the_limit_of_processes_and_the_next_command_runs(grouped):
    async with grouped.open({}, replace(Limits(), processes=16)) as sandbox:
        done = await sandbox.run(["python3", "-c", BOMB])
        after = await sandbox.run(["echo", "alive"])
    assert (done.limit, after.output) == (Limit.PROCESSES, "alive\n")


async def test_busy_loops_of_a_world_get_no_more_than_its_processors(grouped):
    if "cpu" not in grouped.launcher.groups.held:
        pytest.skip("the group was not given the controller of processors")
    async with grouped.open({}, Limits()) as sandbox:
        (group,) = worlds(grouped)
        await sandbox.run(["python3", "-c", BUSY])
        throttled = usage.count(str(group), "cpu.stat", "nr_throttled")
    assert throttled > 0 or os.cpu_count() == 1


async def test_a_group_goes_with_its_world(grouped):
    async with grouped.open({}, Limits()) as sandbox, grouped.open({}, Limits()):
        await sandbox.run(["sh", "-c", "sleep 300 &"])
        made = worlds(grouped)
    assert (len(made), gone(made, grouped.launcher.groups.sweep)) == (2, None)


def gone(groups: list[Path], remind=lambda: None) -> list[Path] | None:
    """What of these is left after some seconds."""
    until = time.monotonic() + 10
    while left := [group for group in groups if group.exists()]:
        if time.monotonic() > until:
            return left
        time.sleep(0.05)
        remind()
    return None


def evaluator(name: str, group: Path | None) -> subprocess.Popen[str]:
    """One with two worlds that are busy, begun in this group."""

    def join() -> None:
        if group:
            (group / "cgroup.procs").write_text("0")

    script = Path(__file__).with_name("keep_running.py")
    words = [sys.executable, str(script), name, f"7{os.getpid()}.25"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=join)  # noqa: PLW1509
    assert process.stdout.readline() == "running\n"
    return process


def groups_of(process: subprocess.Popen[str]) -> list[Path]:
    found = {usage.of(pid) for pid in family(process.pid)}
    return [Path(path) for path in found if "/agenteval-" in path]


@pytest.fixture
def place(grouped):
    """A group that an evaluator of its own may divide; None where systemd makes one for it."""
    if not own_group()[0]:
        yield None
        return
    group = Path(grouped.launcher.groups.group, f"tests-{os.getpid()}")
    group.mkdir()
    os.setxattr(group, "user.delegate", b"1")
    yield group
    os.removexattr(group, "user.delegate")
    group.rmdir()


def test_a_killed_evaluator_leaves_no_group_and_the_next_one_begins_where_it_was(
    grouped, backend_name, place
):
    for _ in range(2):
        with evaluator(backend_name, place) as process:
            made = groups_of(process)
            os.kill(process.pid, signal.SIGKILL)
        assert (len(made) >= 3, gone(made)) == (True, None)


def test_what_a_killed_launcher_left_goes_at_the_next_start_and_nothing_else(
    grouped, backend_name, place
):
    if place is None:
        pytest.skip("these are systemd's to remove")
    with evaluator(backend_name, place) as process:
        made = groups_of(process)
        for pid in family(process.pid):
            os.kill(pid, signal.SIGKILL)
    others = [place / name for name in ("agenteval-1", "agenteval-home", "another")]
    for other in others:
        other.mkdir()
    (place / "cgroup.subtree_control").write_text("-memory -pids -cpu")
    assert all(group.exists() for group in made)
    with evaluator(backend_name, place) as process:
        assert gone(made) is None
        os.kill(process.pid, signal.SIGKILL)
    assert gone(list(place.glob("agenteval-home-*"))) is None
    for other in others:
        other.rmdir()


@pytest.mark.parametrize(
    ("controllers", "kind", "why"),
    [
        ("cpu io", "domain", "no controller memory and pids"),
        ("cpu memory", "domain", "no controller pids"),
        ("memory pids", "", "the root of all groups"),
        ("memory pids", "threaded", "one of threads"),
        ("memory pids", "domain", "holds other processes"),
    ],
)
def test_a_group_that_cannot_be_divided_says_why(tmp_path, controllers, kind, why, monkeypatch):
    monkeypatch.setattr(usage, "SYSTEMD", str(tmp_path / "none"))
    for name in usage.KEYS:
        (tmp_path / name).write_text(f"{os.getpid()}\n1\n")
    (tmp_path / "cgroup.controllers").write_text(controllers)
    (tmp_path / "cgroup.type").write_text(kind)
    assert why in usage.lacking(str(tmp_path), lambda: {os.getpid()})


def test_a_group_of_systemd_is_divided_only_where_it_is_marked_as_delegated(tmp_path, monkeypatch):
    monkeypatch.setattr(usage, "SYSTEMD", str(tmp_path))
    for name in (*usage.KEYS, "cgroup.controllers", "cgroup.type"):
        (tmp_path / name).write_text("memory pids domain")
    (tmp_path / "cgroup.procs").write_text(str(os.getpid()))
    lacking = usage.lacking(str(tmp_path), lambda: {os.getpid()})
    given = usage.lacking(str(tmp_path), lambda: {os.getpid()}, is_delegated=True)
    assert lacking.endswith("is systemd's, which has not delegated it")
    assert given == ""


def test_where_no_group_can_be_made_worlds_go_on_without(tmp_path):
    groups = Groups(str(tmp_path / "gone"), 1)
    assert (groups.make({}), groups.make({}), groups.held) == ("", "", ())
    assert groups.lacking.endswith("agenteval-1-1: No such file or directory")


async def test_a_world_that_is_not_in_its_group_is_found_out(tmp_path):
    groups = Groups()
    (tmp_path / "cgroup.events").write_text("populated 0\n")
    groups.began(str(tmp_path))
    assert "starts no process in a control group" in groups.lacking


async def test_every_world_says_whether_it_has_a_group(backend_name):
    backend = BACKENDS[backend_name]()
    async with backend.open({}, Limits()):
        groups = backend.launcher.groups
    assert bool(groups.held) != bool(groups.lacking)
