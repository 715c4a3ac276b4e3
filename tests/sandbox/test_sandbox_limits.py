"""Every limit by its name, its exit code and within its time."""

import os
import signal
from dataclasses import replace

import pytest
from strikes import MIB, SHARE, STRUCK, THREADS
from test_sandbox_ends import family
from witness import WITNESS

from agenteval.errors import InfrastructureError
from agenteval.sandbox import launch, session
from agenteval.sandbox.backends import Bare, Namespaces
from agenteval.sandbox.inside import usage
from agenteval.trial.trial import Limit, Limits


@pytest.mark.parametrize(("limit", "changes", "argv", "codes"), STRUCK)
async def test_a_limit_is_named(backend, limit, changes, argv, codes):
    async with backend.open({}, replace(Limits(), **changes)) as sandbox:
        done = await sandbox.run(argv)
        after = await sandbox.run(["echo", "alive"])
    assert (done.limit, after.output, done.exit_code in codes) == (limit, "alive\n", True), done
    assert done.seconds < 15


@pytest.mark.parametrize(
    ("limit", "changes", "argv", "codes"), [row for row in STRUCK if row[2][0] == "python3"]
)
async def test_a_limit_is_named_in_a_pre_forked_script(forking, limit, changes, argv, codes):
    files = {"attempt.py": argv[-1].encode(), "witness.py": WITNESS}
    async with forking.open(files, Limits()) as sandbox:  # a small limit would strike it as well
        forked = await sandbox.run(["python3", "witness.py"])
    async with forking.open(files, replace(Limits(), **changes)) as sandbox:
        done = await sandbox.run(["python3", "attempt.py"])
        after = await sandbox.run(["echo", "alive"])
    assert (forked.output, done.limit, after.output) == ("forked\n", limit, "alive\n"), done
    assert (done.exit_code in codes, done.seconds < 15) == (True, True), done


async def test_a_command_that_leaves_too_many_files_is_told_so_and_the_next_may_clean_up(backend):
    async with backend.open({}, replace(Limits(), inodes=200)) as sandbox:
        made = await sandbox.run(["sh", "-c", "for n in $(seq 300); do : > f$n; done"])
        looked = await sandbox.run(["sleep", "0.1"])
        cleaned = await sandbox.run(["sh", "-c", "rm f*; sleep 0.1; : > one; ls"])
    assert [made.limit, looked.limit, cleaned.limit, cleaned.output] == [
        Limit.INODES,
        "",
        "",
        "one\n",
    ]


async def test_output_is_kept_to_a_size_and_marked_as_cut(backend):
    async with backend.open({}, Limits()) as sandbox:
        whole = await sandbox.run(["head", "-c", str(MIB), "/dev/zero"])
        cut = await sandbox.run(["head", "-c", str(MIB + 1), "/dev/zero"])
    assert [(len(done.output), done.cut, done.exit_code, done.limit) for done in (whole, cut)] == [
        (MIB, False, 0, ""),
        (MIB, True, 0, ""),
    ]


async def test_a_command_that_only_prints_an_error_text_struck_no_limit(backend):
    async with backend.open({}, Limits()) as sandbox:
        done = await sandbox.run(["echo", "OSError: [Errno 24] Too many open files"])
    assert (done.exit_code, done.limit) == (0, "")


async def test_memory_that_processes_share_counts_once(backend):
    async with backend.open({}, replace(Limits(), memory=100 * MIB)) as sandbox:
        done = await sandbox.run(["python3", "-c", SHARE])
    assert (done.exit_code, done.limit) == (0, "")


async def test_without_isolation_the_watched_limits_still_strike():
    limits = replace(Limits(), call_seconds=0.3, processes=8, memory=200 * MIB)
    backend = Bare()
    async with backend.open({}, limits) as sandbox:
        slow = await sandbox.run(["sleep", "30"])
        threads = await sandbox.run(["python3", "-c", THREADS])
    assert (slow.limit, threads.limit) == (Limit.WALL_TIME, Limit.PROCESSES)


async def test_what_cannot_be_killed_in_time_ends_its_call_and_the_world_is_a_new_one(
    backend, monkeypatch
):
    monkeypatch.setattr(launch, "KILL_SECONDS", -1.0)  # so nothing that is left dies in time
    limits = replace(Limits(), call_seconds=29.0)  # no other test's: a plan is kept by its limits
    async with backend.open({"notes.txt": b"one\n"}, limits) as sandbox:
        whole = await sandbox.run(["sh", "-c", "rm notes.txt; touch mark; echo did"])
        stuck = await sandbox.run(["sh", "-c", "sleep 300 & echo said"])
        after = await sandbox.run(["ls"])
    assert [(done.limit, done.exit_code, done.output) for done in (whole, stuck, after)] == [
        ("", 0, "did\n"),
        (Limit.STUCK, None, "said\n"),
        ("", 0, "notes.txt\n"),
    ]


async def test_a_world_that_answers_no_more_ends_its_call_and_is_given_up(backend, monkeypatch):
    monkeypatch.setattr(session, "WALL_SECONDS", 0.0)
    monkeypatch.setattr(session, "GRACE_SECONDS", 2.0)
    limits = replace(Limits(), call_seconds=0.5)
    others = family(os.getpid())
    async with backend.open({"notes.txt": b"one\n"}, limits) as sandbox:
        for pid in (runners := deepest(family(os.getpid()) - others)):
            os.kill(pid, signal.SIGSTOP)
        stuck = await sandbox.run(["touch", "mark"])
        after = await sandbox.run(["ls"])
    for pid in runners:
        os.kill(pid, signal.SIGKILL)
    assert [(done.limit, done.exit_code, done.output) for done in (stuck, after)] == [
        (Limit.STUCK, None, ""),
        ("", 0, "notes.txt\n"),
    ]


def deepest(pids):
    """The one below which nothing runs: of a new trial the runner."""
    return [pid for pid in pids if family(pid) == {pid}]


async def test_where_no_new_world_comes_up_the_fault_is_the_hosts(monkeypatch):
    monkeypatch.setattr(session, "WALL_SECONDS", 0.0)
    others = family(os.getpid())
    async with Namespaces().open({}, replace(Limits(), call_seconds=0.5)) as sandbox:
        for pid in (runners := deepest(family(os.getpid()) - others)):
            os.kill(pid, signal.SIGSTOP)
        monkeypatch.setattr(session, "GRACE_SECONDS", 0.0)
        monkeypatch.setattr(session, "START_SECONDS", 0.0)
        with pytest.raises(InfrastructureError, match="did not answer"):
            await sandbox.run(["true"])
    for pid in runners:
        os.kill(pid, signal.SIGKILL)


def test_a_kernel_that_does_not_count_sockets_strikes_no_limit(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(usage, "SOCKETS", str(tmp_path / "sockstat"))
    without = usage._sockets()
    (tmp_path / "sockstat").write_text("sockets: used 7\n")
    assert (without, usage._sockets()) == (0, 7)
