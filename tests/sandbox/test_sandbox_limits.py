"""Every limit by its name, its exit code and within its time."""

from dataclasses import replace

import pytest
from strikes import MIB, SHARE, STRUCK, THREADS
from witness import WITNESS

from agenteval.core.scenario import Limits
from agenteval.core.trial import Limit
from agenteval.sandbox.backends import Bare


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
