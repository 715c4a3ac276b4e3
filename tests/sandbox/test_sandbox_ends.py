"""What is left of a sandbox when its evaluator is killed, cancelled or done: nothing."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from available import ENGINE, installed
from escapes import alive
from process_table import below, processes
from users import USERS, start

from agenteval.errors import InfrastructureError, UsageError
from agenteval.sandbox.backends import AUTOMATIC, BACKENDS
from agenteval.trial.trial import Limits


def family(pid: int) -> set[int]:
    """This process and all below it, as the host sees them."""
    return {pid, *(child for child, _, _ in below(pid))}


def user_of(pid: str) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def wait_until_gone(pids: set[int]) -> set[int]:
    deadline = time.monotonic() + 5
    while left := pids & {pid for pid, _, _ in processes()}:
        if time.monotonic() > deadline:
            return left
        time.sleep(0.02)
    return set()


@pytest.mark.slow
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", BACKENDS)
def test_a_killed_evaluator_leaves_no_process(name, user, shared_copy, rootless):
    mark = f"6{os.getpid()}.5"
    words = ["keep_running.py", installed(name), mark]
    extra = rootless() if (name, user) == ("container", "ordinary") else {}
    with start(user, shared_copy, *words, **ENGINE, **extra) as process:
        said = process.stdout.readline()
        pids = family(process.pid)
        seen = len(alive(mark))
        process.kill()
        process.communicate(timeout=10)
    assert (said, seen >= 4, wait_until_gone(pids), alive(mark)) == ("running\n", True, set(), [])


@pytest.mark.slow
@pytest.mark.parametrize("user", USERS)
def test_a_folder_of_a_killed_evaluator_goes_at_the_next_start_of_containers(
    user, shared_copy, rootless
):
    words = ["keep_running.py", installed("container")]
    extra = rootless() if user == "ordinary" else {}
    place = shared_copy / f"tmp-{user}"
    place.mkdir()
    place.chmod(0o777)

    def folders() -> set[Path]:
        return set(place.iterdir())

    def begun(mark: str):
        process = start(user, shared_copy, *words, mark, **ENGINE, **extra, TMPDIR=str(place))
        assert process.stdout.readline() == "running\n"
        return process

    with begun(f"8{os.getpid()}.5") as living:
        own = folders()
        with begun(f"8{os.getpid()}.25") as killed:
            left = folders() - own
            killed.kill()
        with begun(f"8{os.getpid()}.125") as after:
            now = folders()
            after.kill()
        living.kill()
    assert (len(own), len(left), own <= now, left & now) == (2, 2, True, set())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("user", USERS)
def test_a_killed_evaluator_leaves_no_folder_without_isolation_either(user, shared_copy, number):
    folders = shared_copy / "tmp"
    with start(user, shared_copy, "keep_running.py", "none", f"2{os.getpid()}.5") as process:
        process.stdout.readline()
        pids, made = family(process.pid), set(folders.glob("agenteval-*/workspace"))
        process.send_signal(number)
        process.communicate(timeout=10)
    assert (len(made), wait_until_gone(pids), [path for path in made if path.exists()]) == (
        2,
        set(),
        [],
    )


async def test_a_cancelled_call_ends_its_world(backend):
    mark = f"5{os.getpid()}.5"
    async with backend.open({}, Limits()) as sandbox:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await sandbox.run(["sleep", mark])
        with pytest.raises(InfrastructureError):
            await sandbox.run(["true"])
    await asyncio.sleep(0.1)
    assert alive(mark) == []


async def test_files_that_do_not_fit_are_the_users_error(backend):
    with pytest.raises(UsageError, match="do not go into a workspace of 4096 bytes"):
        async with backend.open({"big": bytes(100_000)}, replace(Limits(), workspace=4096)):
            pass


async def test_many_trials_at_once_stay_apart(backend):
    async def trial(number: int) -> str:
        async with backend.open({"mine": str(number).encode()}, Limits()) as sandbox:
            for _ in range(3):
                await sandbox.run(["sh", "-c", "echo >> mine; cat mine mine > /tmp/both"])
            return (await sandbox.run(["sh", "-c", "cat mine; ls /tmp"])).output

    async with asyncio.TaskGroup() as group:
        trials = [group.create_task(trial(number)) for number in range(12)]
    assert [done.result() for done in trials] == [f"{number}\n\n\nboth\n" for number in range(12)]


async def test_a_killed_launcher_ends_its_trials_and_the_next_trial_has_another():
    others = family(os.getpid())
    backend = BACKENDS["namespaces"]()
    async with backend.open({}, Limits()) as sandbox:
        started = family(os.getpid()) - others
        launcher = max(started, key=lambda pid: len(family(pid)))
        os.kill(launcher, signal.SIGKILL)
        assert wait_until_gone(started) == set()
        with pytest.raises(InfrastructureError):
            await sandbox.run(["true"])
    async with backend.open({}, Limits()) as sandbox:
        done = await sandbox.run(["echo", "again"])
    assert done.output == "again\n"


async def test_what_runs_inside_is_never_root_outside_nor_the_user_of_another_trial(backend):
    marks = [f"4{os.getpid()}.5", f"3{os.getpid()}.5"]
    async with (
        backend.open({}, Limits()) as one,
        backend.open({}, Limits()) as other,
        asyncio.TaskGroup() as group,
    ):
        for sandbox, mark in zip((one, other), marks, strict=True):
            group.create_task(sandbox.run(["timeout", "1", "sleep", mark]))
        await asyncio.sleep(0.4)
        users = [user_of(pid) for mark in marks for pid in alive(mark)]
    me = os.geteuid()
    assert (len(users) >= 2, 0 in users) == (True, False)
    assert set(users) == {me} if me else len(set(users)) == 2


# An evaluator that plays two trials, one after another: seconds of its commands, and its own.
WORKING = """
import asyncio, os, sys
from agenteval.trial.trial import Limits
from agenteval.sandbox.backends import BACKENDS

COUNTS = "n=0; while [ $n -lt 250000 ]; do n=$((n+1)); done; times"

async def main():
    backend, spent = BACKENDS[sys.argv[1]](), 0.0
    for _ in range(2):
        async with backend.open({}, Limits()) as sandbox:
            said = (await sandbox.run(["sh", "-c", COUNTS])).output
            spent += float(said.split()[0].removeprefix("0m").removesuffix("s"))
    return spent

print(asyncio.run(main()), sum(os.times()[:2]))
"""


@pytest.mark.parametrize("name", [*AUTOMATIC, "none"])
def test_what_commands_use_is_told_of_the_evaluators_children(name):
    words = [sys.executable, "-c", WORKING, installed(name)]
    before = sum(os.times()[2:4])
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    used = sum(os.times()[2:4]) - before
    commands, own = map(float, done.stdout.split())
    assert commands > 0.2
    assert used - own > 0.95 * commands
