"""The container backend, where an engine and an image are at hand: the same promises."""

import json

import pytest
from available import ENGINE, installed
from users import start

from agenteval.core.scenario import Limits
from agenteval.errors import InfrastructureError
from agenteval.sandbox.container import Container
from agenteval.sandbox.probe import probe


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


async def test_its_probe_passes(container):
    seen = await probe(container)
    assert (seen.works, seen.reason, len(seen.blocked)) == (True, "", 14)


def test_no_attempt_at_leaving_a_container_succeeds(container, shared_copy):
    extra = {"AGENTEVAL_CANARY": "canary", **ENGINE}
    with start("as we are", shared_copy, "escapes.py", "container", **extra) as process:
        output, complaints = process.communicate(timeout=240)
    assert process.returncode == 0, complaints
    assert [name for name, by in json.loads(output).items() if not by] == []


async def test_an_image_that_is_not_there_is_named(monkeypatch, tmp_path):
    engine = tmp_path / "podman"
    engine.write_text('#!/bin/sh\necho "Error: $AGENTEVAL_CONTAINER_IMAGE: image not known" >&2\n')
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("AGENTEVAL_CONTAINER_IMAGE", "no/such/image")
    with pytest.raises(InfrastructureError, match="no/such/image: image not known"):
        async with Container().open({}, Limits()):
            pass


async def test_without_an_engine_the_reason_is_that(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match="no program podman or docker on PATH"):
        async with Container().open({}, Limits()):
            pass
