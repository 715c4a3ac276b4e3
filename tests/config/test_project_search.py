"""The search for a project ends where somebody else could have put one."""

import grp
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agenteval.config import trust
from agenteval.config.files import shipped
from agenteval.config.gate import rules_at
from agenteval.config.trust import Search, find_project
from agenteval.errors import UsageError

NOBODY = 65534
AS_NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another")


@pytest.fixture
def deep(tmp_path, monkeypatch) -> Path:
    """`a/b` below a project, and a home that is somewhere else."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.delenv("SUDO_UID", raising=False)
    (tmp_path / "agenteval.toml").write_text("")
    (tmp_path / "a" / "b").mkdir(parents=True)
    return tmp_path / "a" / "b"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_the_nearest_file_upwards_is_the_project(deep, tmp_path) -> None:
    assert find_project(deep) == Search(tmp_path)


@pytest.mark.parametrize("is_file", [True, False], ids=["worktree", "folder"])
def test_a_repository_is_not_left(deep, is_file) -> None:
    git = deep.parent / ".git"
    git.write_text("gitdir: x") if is_file else git.mkdir()
    assert find_project(deep) == Search(deep)


def test_a_bare_repository_is_not_left(deep) -> None:
    for name in ("objects", "refs"):
        (deep.parent / name).mkdir()
    assert find_project(deep).project != deep
    (deep.parent / "HEAD").write_text("ref: refs/heads/main")
    assert find_project(deep) == Search(deep)


def test_the_root_of_a_repository_is_a_project_itself(deep, tmp_path) -> None:
    (tmp_path / ".git").mkdir()
    assert find_project(deep) == Search(tmp_path)


def test_the_home_folder_is_not_left(deep, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(deep.parent))
    assert find_project(deep) == Search(deep)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757])
def test_a_folder_that_others_can_write_is_neither_used_nor_crossed(deep, tmp_path, mode) -> None:
    deep.parent.chmod(mode)
    assert find_project(deep) == Search(deep, tmp_path, f"{deep.parent} may be written by any user")
    deep.parent.chmod(0o755)
    tmp_path.chmod(mode)
    assert find_project(deep) == Search(deep, tmp_path, "it may be written by any user")
    tmp_path.chmod(0o755)


def test_the_working_folder_itself_has_to_be_the_users(deep) -> None:
    deep.chmod(0o777)
    (deep / "allowlists").mkdir()
    assert find_project(deep) == Search(None, deep, "it may be written by any user")


def test_a_file_that_others_can_write_is_not_used(deep, tmp_path) -> None:
    (tmp_path / "agenteval.toml").chmod(0o666)
    assert find_project(deep) == Search(deep, tmp_path, "it may be written by any user")


def test_a_group_is_nobody_else_where_it_is_the_users_own(deep, tmp_path) -> None:
    tmp_path.chmod(0o775)
    own = grp.getgrgid(tmp_path.stat().st_gid)
    is_own = own.gr_name == "root" and os.geteuid() == 0
    assert find_project(deep).project == (tmp_path if is_own else deep)


@AS_ROOT
def test_another_file_system_is_not_entered(deep, tmp_path) -> None:
    python = f"{sys.executable} -P -c"
    asked = "from agenteval.config.trust import *; print(find_project(Path.cwd()))"
    steps = f"mount -t tmpfs -o mode=755 none {deep} && cd {deep} && {python} '{asked}'"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", steps], check=False, capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    wanted = Search(deep, tmp_path, f"{deep.parent} is on another file system")
    assert done.stdout.strip() == str(wanted)


def test_a_group_of_the_users_name_that_is_anothers_own_is_others(
    deep, tmp_path, monkeypatch
) -> None:
    tmp_path.chmod(0o775)
    group = tmp_path.stat().st_gid
    member = pwd.struct_passwd(("mallory", "x", 4712, group, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwall", lambda: [member])
    assert find_project(deep) == Search(deep, tmp_path, "it may be written by a group")


@AS_ROOT
def test_a_group_of_others_is_others(deep, tmp_path) -> None:
    os.chown(tmp_path, 0, 100)
    tmp_path.chmod(0o775)
    assert find_project(deep) == Search(deep, tmp_path, "it may be written by a group")


@AS_ROOT
@pytest.mark.parametrize("place", ["", "a", "agenteval.toml"])
def test_what_another_user_owns_is_neither_used_nor_crossed(deep, tmp_path, place) -> None:
    os.chown(tmp_path / place, NOBODY, NOBODY)
    search = find_project(deep)
    assert (search.project, search.refused) == (deep, tmp_path)
    assert search.reason.endswith("belongs to another user (nobody)")


@AS_ROOT
def test_under_sudo_the_caller_is_the_user_too(deep, tmp_path, monkeypatch) -> None:
    os.chown(tmp_path, 4711, 4711)
    assert find_project(deep).project == deep
    monkeypatch.setenv("SUDO_UID", "4711")
    assert find_project(deep).project == tmp_path
    for other in ("4711x", "9" * 5000, "-4711", "\u0664711"):
        monkeypatch.setenv("SUDO_UID", other)
        assert find_project(deep).project == deep


@AS_ROOT
def test_a_project_of_another_user_is_used_once_it_is_confirmed(deep, tmp_path) -> None:
    os.chown(tmp_path, NOBODY, NOBODY)
    os.chown(tmp_path / ".config", 0, 0) if (tmp_path / ".config").exists() else None
    trust.confirm(tmp_path, trust.digest(tmp_path))
    assert find_project(deep) == Search(tmp_path)
    (tmp_path / "gate.toml").write_text("# changed\n")
    assert find_project(deep).project == deep


@AS_ROOT
def test_an_ordinary_user_does_not_take_what_root_owns(open_folder) -> None:
    (open_folder / "agenteval.toml").write_text("")
    asked = "import os; from agenteval.config.trust import *; print(find_project(Path.cwd()))"
    done = subprocess.run(
        [*AS_NOBODY, sys.executable, "-P", "-c", asked],
        check=True,
        cwd=open_folder,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
    )
    assert "belongs to another user (root)" in done.stdout, done.stderr


def test_what_is_shipped_is_found_whoever_owns_it() -> None:
    assert find_project(shipped() / "scenarios").project == shipped()


@AS_ROOT
def test_a_gate_refuses_rules_that_are_passed_over_and_judges_by_no_others(
    deep, tmp_path, monkeypatch
) -> None:
    shutil.copy(shipped() / "gate.toml", tmp_path)
    os.chown(tmp_path / "agenteval.toml", NOBODY, NOBODY)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"gate\.toml: passed over.*--gate.*agenteval trust"):
        rules_at(None)
    assert rules_at(tmp_path / "gate.toml")[1] == str(tmp_path / "gate.toml")
