"""The container backend, where an engine and an image are at hand: the same promises."""

import json
from dataclasses import replace

import pytest
from available import ENGINE, installed
from behaviours import BEHAVING, BEHAVIOURS, forked_is_executed, named
from escapes import AT_ONCE, SMALL
from strikes import STRUCK
from users import USERS, start

from agenteval.errors import InfrastructureError
from agenteval.sandbox.backends import Container
from agenteval.sandbox.probe import probe
from agenteval.trial.trial import Limits
from agenteval.workflows.stages import load_stages


@pytest.fixture
def container():
    installed("container")
    return Container()


async def test_calls_and_files_are_those_of_any_sandbox(container):
    files = {"show.py": b"import sys; print(sys.argv[1:])", "run.sh": b"#!/bin/sh\necho ran\n"}
    calls = [["python3", "show.py", "a b"], ["uv", "run", "show.py"], ["./run.sh"], ["nosuch"]]
    async with container.open(files, Limits()) as sandbox:
        done = [await sandbox.run(argv) for argv in calls]
        await sandbox.write("deep/file", b"\0\1")
        content = await sandbox.read("/workspace/deep/file")
    assert [(one.exit_code, one.output) for one in done] == [
        (0, "['a b']\n"),
        (0, "[]\n"),
        (0, "ran\n"),
        (127, "bash: nosuch: command not found\n"),
    ]
    assert content == b"\0\1"


async def test_memory_is_the_limit_of_the_call_that_took_it_and_of_no_later_one(container):
    """Who looks first, the runner or the kernel, is a matter of milliseconds."""
    calls = [["python3", "take.py"], ["sh", "-c", "exit 1"]]
    async with container.open({"take.py": AT_ONCE.encode()}, SMALL) as sandbox:
        struck = [(await sandbox.run(argv)).limit for argv in 4 * calls]
    assert struck == 4 * ["memory", ""]


async def test_its_probe_passes(container):
    seen = await probe(container)
    assert (seen.works, seen.reason, len(seen.blocked)) == (True, "", 14)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["executed", "forked"])
@pytest.mark.parametrize("user", USERS)
def test_no_attempt_at_leaving_a_container_succeeds(container, user, way, shared_copy, rootless):
    extra = {"AGENTEVAL_CANARY": "canary", **ENGINE, **(rootless() if user == "ordinary" else {})}
    with start(user, shared_copy, "escapes.py", container.name, way, **extra) as process:
        output, complaints = process.communicate(timeout=240)
    assert process.returncode == 0, complaints
    stopped = json.loads(output)
    assert ([name for name, by in stopped.items() if not by], len(stopped) >= 100) == ([], True)


@pytest.mark.parametrize(("limit", "changes", "argv", "codes"), STRUCK)
async def test_a_limit_is_named(container, limit, changes, argv, codes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with container.open({}, replace(Limits(), **changes)) as sandbox:
        done = await sandbox.run(argv)
        after = await sandbox.run(["echo", "alive"])
    assert (done.limit, after.output, done.exit_code in codes) == (limit, "alive\n", True), done
    assert (done.seconds < 15, list(tmp_path.iterdir())) == (True, [])


@pytest.mark.slow
async def test_python_programs_behave_the_same_pre_forked(container):
    calls = [["python3", named(behaviour)] for behaviour in BEHAVIOURS]
    await forked_is_executed(container, Container(prefork=True), BEHAVING, calls)


@pytest.mark.slow
@pytest.mark.timeout(900)  # two minutes, where nobody else wants the processor
async def test_every_shipped_script_gives_the_same_bytes_pre_forked(container):
    fixtures = {stage.scenario.fixture: stage for stage in load_stages([])}
    for stage in fixtures.values():
        files = dict(stage.files(0))
        scripts = [["uv", "run", path] for path in files if path.endswith(".py")]
        calls = [[*call, *words] for call in scripts for words in ([], ["--help"], ["list"])]
        await forked_is_executed(container, Container(prefork=True), files, calls)


SAID = {  # of an image that is not there, by engine
    "podman": "Error: no/such/image: image not known\n",
    "docker": (
        "docker: Error response from daemon: No such image: no/such/image\n\n"
        "Run 'docker run --help' for more information\n"
    ),
}
START_FAILED = "Error: `/usr/bin/runc start 2952` failed: exit status 1"


async def test_of_a_runtime_that_failed_its_own_reason_is_told(monkeypatch, tmp_path):
    engine = tmp_path / "podman"
    engine.write_text(f"#!/bin/sh\necho 'no space left'>&2; echo '{START_FAILED}' >&2\n")
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("AGENTEVAL_CONTAINER_ENGINE", "podman")
    with pytest.raises(InfrastructureError, match=f"{START_FAILED}; no space left"):
        async with Container().open({}, Limits()):
            pass


@pytest.mark.parametrize("name", SAID)
async def test_an_image_that_is_not_there_is_named(monkeypatch, tmp_path, name):
    engine = tmp_path / name
    engine.write_text(f"#!/bin/sh\ncat >&2 <<END\n{SAID[name]}END\n")
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("AGENTEVAL_CONTAINER_ENGINE", name)
    with pytest.raises(InfrastructureError, match="no/such/image"):
        async with Container().open({}, Limits()):
            pass


RUNTIMES = {  # of a runtime that is not installed, by engine
    "podman": 'Error: default OCI runtime "runsc" not found: invalid argument\n',
    "docker": (
        "docker: Error response from daemon: unknown or invalid runtime name: runsc\n\n"
        "Run 'docker run --help' for more information\n"
    ),
}


@pytest.mark.parametrize("name", RUNTIMES)
async def test_a_runtime_is_asked_for_and_told_when_it_is_not_installed(
    monkeypatch, tmp_path, name
):
    engine, asked = tmp_path / name, tmp_path / "asked"
    engine.write_text(f"#!/bin/sh\necho $* > {asked}\ncat >&2 <<END\n{RUNTIMES[name]}END\n")
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("AGENTEVAL_CONTAINER_ENGINE", name)
    monkeypatch.setenv("AGENTEVAL_CONTAINER_RUNTIME", "runsc")
    seen = await probe(Container())
    told, asked = asked.read_text().split(), {"--runtime=runsc", "--runtime-flag=network=none"}
    assert (seen.works, "runsc" in seen.reason, asked - {*told}) == (
        False,
        True,
        set() if name == "podman" else {"--runtime-flag=network=none"},
    )
    pids = [int(one.partition("=")[2]) for one in told if one.startswith("--pids-limit")]
    assert pids[-1] > 500  # the last counts: gVisor's own threads are of the container
    assert seen.cure.startswith("the engine has no runtime of that name: install it")


async def test_without_an_engine_the_reason_is_that(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("AGENTEVAL_CONTAINER_ENGINE", raising=False)
    with pytest.raises(InfrastructureError, match="no program podman or docker on PATH"):
        async with Container().open({}, Limits()):
            pass
