"""Which sandbox a run gets: one that was tried and holds, or none at all and the reason."""

import json
import os
import shutil
import sys
import tempfile
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner
from users import start

from agenteval.cli.machine import doctor
from agenteval.errors import UsageError
from agenteval.sandbox.backends import AUTOMATIC, Bare, Namespaces, choose, probe_all
from agenteval.sandbox.inside import kernel
from agenteval.sandbox.launch import runner_spec, syscall_filter
from agenteval.sandbox.launch import world as describe
from agenteval.sandbox.probe import cure, group_cure, probe
from agenteval.sandbox.session import Plan, Session, launched
from agenteval.workflows import projects
from agenteval.workflows.hostile import Tried


async def test_every_backend_that_is_installed_works_and_blocks_the_battery():
    seen = {one.backend: one for one in await probe_all()}
    expected = [name for name in AUTOMATIC if name != "bubblewrap" or shutil.which("bwrap")]
    assert [name for name in AUTOMATIC if seen[name].works] == expected
    assert [len(seen[name].blocked) for name in expected] == [14 for _ in expected]


async def test_elsewhere_than_on_linux_a_run_takes_a_container_engine_and_says_why(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("AGENTEVAL_CONTAINER_ENGINE", "no-such-engine")
    with pytest.raises(UsageError) as refused:
        await choose()
    with pytest.raises(UsageError) as named:
        await choose("bubblewrap")
    assert "; nothing is run. container: no program no-such-engine" in str(refused.value)
    assert "bubblewrap" not in str(refused.value)
    assert "and this is darwin (podman or docker: a run uses them)" in str(named.value)


class Leaky(Namespaces):
    """Shows one folder of the host more than it should, as a careless backend might."""

    name = "leaky"

    def __init__(self, folder: Path, *, layered: bool) -> None:
        super().__init__()
        self.folder, self.layered = str(folder), layered

    def open(self, files, limits):
        world = describe(self._python, limits)
        build = asdict(world) | {
            "binds": [*world.binds, self.folder],
            "hostname": "leaky",
            "loopback": False,
            "seccomp": syscall_filter(loopback=False),
        }
        rules = world.rules if self.layered else ()
        plan = Plan("namespaces", build, runner_spec(limits, own_user=False, rules=rules))
        return Session(partial(launched, self.launcher, plan), files, limits)


@pytest.fixture
def shown_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody's"))
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    return tmp_path


async def test_a_backend_that_shows_a_folder_of_the_host_does_not_pass(shown_folder):
    seen = await probe(Leaky(shown_folder, layered=False))
    assert (seen.works, seen.reason, len(seen.blocked)) == (
        False,
        "got through: read a file of the host",
        13,
    )


async def test_the_second_layer_holds_where_the_first_shows_a_folder(monkeypatch):
    if not kernel.landlock_version():
        pytest.skip("this kernel has no Landlock")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # /tmp is the world's own
        os.chmod(folder, 0o755)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        seen = await probe(Leaky(Path(folder), layered=True))
    assert (seen.works, dict(seen.blocked)["read a file of the host"]) == (
        True,
        "Permission denied",
    )


@pytest.mark.parametrize("version", range(1, 7))
def test_the_second_layer_is_laid_in_the_words_of_every_kernel(monkeypatch, tmp_path, version):
    if kernel.landlock_version() < version:
        pytest.skip(f"this kernel has no Landlock of version {version}")
    monkeypatch.setattr(kernel, "landlock_version", lambda: version)
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    child = os.fork()
    if child == 0:
        try:
            kernel.landlock([("/", "read"), (str(inside), "write")], loopback=False)
            (inside / "file").write_text("made")
            outside.write_text("made")
        except PermissionError:
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert (status, (inside / "file").exists(), outside.exists()) == (0, True, False)


async def test_a_backend_that_does_not_run_commands_as_promised_does_not_pass():
    seen = await probe(Bare())
    assert (seen.works, seen.reason[:25]) == (False, "/bin/sh -c pwd; echo $HOME"[:25])


async def test_without_bubblewrap_namespaces_are_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (await choose()).name == "namespaces"


async def test_bubblewrap_by_name_is_refused_where_it_is_not_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"no program bwrap on PATH.*install bubblewrap"):
        await choose("bubblewrap")


async def test_no_isolation_only_by_name():
    assert (await choose("none")).name == "none"


async def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(
        UsageError, match=r"docker: no such sandbox. Known: bubblewrap, namespaces, container, none"
    ):
        await choose("docker")


async def test_a_bubblewrap_that_is_too_old_is_told_and_namespaces_are_chosen(
    monkeypatch, shared_copy
):
    """Its words are those of 0.4.1, as in Debian 11. It is started as a user who is nobody else."""
    old = shared_copy / "old" / "bwrap"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'bwrap: Unknown option --clearenv' >&2\nexit 1\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:/usr/bin:/bin")
    with pytest.raises(UsageError, match=r"Unknown option --clearenv .*0\.7 or later"):
        await choose("bubblewrap")
    assert (await choose()).name == "namespaces"


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("no new namespaces", "seccomp=unconfined"),
        ("a masked /proc", "systempaths=unconfined"),
        ("AppArmor", "profile bwrap /usr/bin/bwrap"),
        ("no user namespaces", "sysctl user.max_user_namespaces="),
    ],
)
def test_where_nothing_holds_the_choice_is_an_error_with_a_cure(trouble, words, shared_copy):
    with start("ordinary", shared_copy, "crippled.py", trouble) as process:
        output, complaints = process.communicate(timeout=60)
    assert (process.returncode, complaints) == (2, "")
    assert output.startswith("no sandbox works here; nothing is run. ")
    assert words in output.partition("namespaces: ")[2]


async def test_a_home_that_holds_the_system_is_not_taken_for_one_that_shows(monkeypatch):
    monkeypatch.setenv("HOME", "/")
    assert (await probe(Namespaces())).works


@pytest.fixture(scope="module")
def inspected():
    return projects.examine_machine()


def printed_of(found, *options, monkeypatch):
    app = typer.Typer()
    app.command()(doctor)
    monkeypatch.setattr(projects, "examine_machine", lambda: found)
    return CliRunner().invoke(app, options)


@pytest.mark.slow
def test_doctor_prints_what_works_what_was_blocked_and_how_many_hostile_texts_held(
    inspected, monkeypatch
):
    printed = printed_of(inspected, monkeypatch=monkeypatch)
    as_json = json.loads(printed_of(inspected, "--json", monkeypatch=monkeypatch).output)
    count = len(as_json["inbound"])
    assert [one for one in as_json["inbound"] if not one["held"]] == []
    assert (printed.exit_code, count > 100) == (0, True)
    assert "sandbox namespaces: works\n  blocked  read a file of the host" in printed.output
    assert f"only when asked for: --sandbox NAME\nA run uses: {as_json['chosen']}" in printed.output
    kept = as_json["control_groups"]
    assert bool(kept["held"]) != bool(kept["lacking"] and kept["cure"])
    assert as_json["landlock"] == kernel.landlock_version()
    assert f"second layer (Landlock): {layer(as_json['landlock'])}\n" in printed.output
    assert f"inbound: {count} of {count} held: " in printed.output
    assert {one["part"].partition(",")[0] for one in as_json["inbound"]} == {
        *("judge", "tests", "parser", "store", "report", "project"),
    }


def layer(version: int) -> str:
    return f"version {version}" if version else "this kernel has none"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (
            projects.KernelLimits(("memory", "pids", "cpu")),
            (
                "  control groups: the kernel itself keeps memory with its own, processes, "
                "processors\ninbound"
            ),
        ),
        (
            projects.KernelLimits(("memory", "pids")),
            "own, processes\n  mend  processors: Delegate=",
        ),
        (
            projects.KernelLimits((), "/x is not this user's", group_cure("/x is not this user's")),
            "  no control groups: /x is not this user's\n  mend  start agenteval in a group of",
        ),
        (
            projects.KernelLimits((), "no sandbox works here", "first mend the sandbox"),
            "works here\n  mend  first mend the sandbox\ninbound",
        ),
        (projects.KernelLimits((), "the engine's own"), "groups: the engine's own\ninbound"),
    ],
)
def test_doctor_says_which_limits_the_kernel_keeps(inspected, monkeypatch, groups, words):
    printed = printed_of(replace(inspected, control_groups=groups), monkeypatch=monkeypatch)
    assert words in printed.output


@pytest.mark.parametrize(
    ("lacking", "words"),
    [
        ("/x has no controller memory", "unified_cgroup_hierarchy=1"),
        ("/x holds other processes; systemd-run: Failed to connect to bus", "enable-linger"),
        ("/x holds other processes as well", "systemd-run --user --scope"),
        ("", ""),
    ],
)
def test_what_keeps_control_groups_away_has_its_cure(lacking, words):
    assert words in group_cure(lacking)
    assert bool(words) == bool(group_cure(lacking))


@pytest.mark.slow
def test_an_inbound_attempt_that_does_harm_is_named_and_doctor_exits_1(inspected, monkeypatch):
    harm = Tried("store", "NUL", "another\0came back", "^it came back as it was$")
    printed = printed_of(replace(inspected, inbound=(harm,)), monkeypatch=monkeypatch)
    assert printed.exit_code == 1
    assert "store: 0 of 1 held\n  FAILS  NUL: another\u2400came back\n" in printed.output


@pytest.mark.parametrize(
    ("backend", "reason", "words"),
    [
        ("bubblewrap", "no program bwrap on PATH", "install bubblewrap"),
        ("bubblewrap", "bwrap: Unknown option --size", "too old"),
        ("bubblewrap", "bwrap: Can't set hostname to sandbox: Operation not permitted", "unmask="),
        (
            "bubblewrap",
            (
                "bwrap: Creating new namespace failed: nesting depth or "
                "/proc/sys/user/max_*_namespaces exceeded (ENOSPC)"
            ),
            "are in use",
        ),
        ("namespaces", "mount proc on ./proc: Operation not permitted", "systempaths="),
        ("namespaces", "clone into new namespaces: Operation not permitted", "seccomp="),
        ("namespaces", "clone into new namespaces: Invalid argument", "--sandbox container"),
        ("namespaces", "something else", ""),
        ("container", "no program podman or docker on PATH", "install podman"),
        ("container", "Error: docker.io/library/python: image not known", "podman pull"),
        ("container", "docker: Error response from daemon: No such image: x", "docker pull"),
        ("container", 'exec: "python3": executable file not found in $PATH', "no python3"),
        ("container", "docker: Cannot connect to the Docker daemon at unix:///x", "start the"),
        (
            "container",
            "docker: permission denied while trying to connect to the Docker daemon socket",
            "usermod -aG docker",
        ),
        ("container", "crun: cgroups in hybrid mode not supported", "install runc"),
        ("container", 'exec: "newuidmap": executable file not found in $PATH', "install uidmap"),
        ("container", "runc: unable to setup user: invalid argument", "--add-subuids"),
        ("container", "Error: cannot re-exec process", "inside another container"),
        ("container", "something else", ""),
    ],
)
def test_a_reason_has_its_cure(backend, reason, words):
    told = cure(backend, reason)
    assert (words in told, bool(told)) == (True, bool(words))
