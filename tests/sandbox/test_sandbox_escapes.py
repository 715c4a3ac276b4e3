"""Nothing gets out: many attempts, on every backend, as root and as an ordinary user."""

import json
import os
from contextlib import ExitStack

import pytest
from escapes import Host, alive
from users import USERS, start

from agenteval.sandbox.backends import Bare
from agenteval.trial.trial import Limits

CANARY = "canary-in-the-environment"

# Without isolation these succeed, for any user: so each can tell an escape from a failure.
SUCCEED_WITHOUT = [
    "read a host file",
    "follow a symlink to a host file",
    "see names in the home",
    "find the project",
    "find the canary in any environment",
    "connect to the host over ipv4",
    "connect to the host over ipv6",
    "send udp to the host",
    "connect to an abstract socket",
    "connect to a socket by path",
    "open a netlink socket",
    "see a host process",
    "signal host processes",
    "clone into a user namespace",
    "clone3 into a user namespace",
    "unshare a user namespace",
    "make sysv shared memory",
    "hide memory in a file",
    "watch files as all programs of the user may",
    "enlarge the buffer of a socket",
]


@pytest.mark.parametrize("way", [pytest.param("executed", marks=pytest.mark.slow), "forked"])
@pytest.mark.parametrize("user", USERS)
def test_no_attempt_at_leaving_succeeds(backend_name, user, way, shared_copy):
    words = ["escapes.py", backend_name, way]
    with start(user, shared_copy, *words, AGENTEVAL_CANARY=CANARY) as process:
        output, complaints = process.communicate(timeout=120)
    assert process.returncode == 0, complaints
    stopped = json.loads(output)
    assert ([name for name, by in stopped.items() if not by], len(stopped) >= 100) == ([], True)


async def test_without_isolation_the_attempts_succeed(monkeypatch, tmp_path):
    monkeypatch.setenv("AGENTEVAL_CANARY", CANARY)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "diary").touch()
    with ExitStack() as stack:
        stack.enter_context(environment_on_show())
        host = Host(stack)
        async with Bare().open(host.files(), Limits()) as sandbox:
            done = await sandbox.run(["python3", "try_all.py", "bait.json", *SUCCEED_WITHOUT])
        host.victim.wait(timeout=5)
        stopped = json.loads(done.output) | host.noticed()
    assert [name for name, by in stopped.items() if by] == []


def environment_on_show():
    """A process whose environment, as the kernel shows it, holds the canary: ours was set late."""
    import subprocess  # noqa: PLC0415

    process = subprocess.Popen(["sleep", "600"], env=dict(os.environ))
    stack = ExitStack()
    stack.callback(process.wait)
    stack.callback(process.kill)
    return stack


async def test_without_isolation_nothing_outlives_its_call_either():
    mark = f"7{os.getpid()}.5"
    async with Bare().open({}, Limits()) as sandbox:
        await sandbox.run(["sh", "-c", f"(setsid sleep {mark} &); sleep {mark} &"])
        assert alive(mark) == []
