"""The files of a project: their names, what ships with agenteval, and whose files they are."""

import grp
import os
import pwd
import re
import stat
import sys
from functools import cache
from pathlib import Path

from agenteval.core.plain import as_name

PROJECT_FILE = "agenteval.toml"
GATE_FILE = "gate.toml"
DEFAULT_STORE = "reports/agenteval.db"
DEFAULT_ARM = "taught/tools"
LISTS, ARMS, SCENARIOS, FIXTURES = "allowlists", "arms", "scenarios", "fixtures"
PARTS = (PROJECT_FILE, GATE_FILE, LISTS, ARMS, SCENARIOS, FIXTURES)


def shipped() -> Path:
    """The folder with the shipped scenarios/, allowlists/, fixtures/ and agenteval.toml.

    `agenteval/shipped` of an installed wheel; in a checkout that holds links, and this is where
    they lead: the checkout itself.
    """
    return (Path(__file__).parent.parent / "shipped" / PROJECT_FILE).resolve().parent


def home() -> Path | None:
    """The user's home folder; None where the environment names none by an absolute path."""
    place = Path(os.path.expanduser("~"))  # noqa: PTH111 -- Path.home raises where there is none
    return Path(os.path.realpath(place)) if place.is_absolute() else None


def is_folder(path: Path) -> bool:
    """Return `path.is_dir()`. Raises OSError, with every Python, where nobody can tell.

    From Python 3.14 on `is_dir` is False there, and a shipped folder would stand in silently.
    """
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # or no path at all
        return False


def stranger(path: Path) -> str:
    """Return who else owns or can write a file; empty if nobody does. Raises OSError."""
    status = path.stat()
    if status.st_uid not in _users():
        return f"belongs to another user ({_user_name(status.st_uid)})"
    if status.st_mode & stat.S_IWOTH:
        return "may be written by any user"
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_uid, status.st_gid):
        return "may be written by a group"
    return "may be written by others (ACL)" if _has_acl(path, status) else ""


def _has_acl(path: Path, status: os.stat_result) -> bool:
    """Return True if an access list stands behind the group's bits, which are its mask then."""
    if not status.st_mode & stat.S_IWGRP or not hasattr(os, "getxattr"):
        return False
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except OSError:
        return False


def _users() -> frozenset[int]:
    """Ids of the user; under sudo the one who called it too, as git has it."""
    user, caller = os.geteuid(), os.environ.get("SUDO_UID", "")
    is_called = user == 0 and re.fullmatch("[0-9]{1,10}", caller)
    return frozenset({user, int(caller)} if is_called else {user})


def _user_name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _is_private_group(user: int, group: int) -> bool:
    """Return True if a group is the user's alone: many distributions give each user such a one."""
    try:
        entry = grp.getgrgid(group)
    except KeyError:
        return False
    name = _user_name(user)
    if entry.gr_name != name or {*entry.gr_mem} - {name}:
        return False
    return not any(one.pw_gid == group and one.pw_uid != user for one in pwd.getpwall())


@cache
def announce(line: str) -> None:
    """Report on standard error, once a process, what a command does with a project."""
    sys.stderr.write(f"agenteval: {as_name(line)}\n")


def note_hidden(kind: str, name: str, path: Path, shipped_path: Path) -> None:
    """Say once that a project's file or folder stands in place of a shipped one that differs."""
    if is_hiding(path, shipped_path):
        announce(f"{kind} {name} is {path}, which hides the shipped one of that name")


@cache
def is_hiding(path: Path, shipped_path: Path) -> bool:
    """Return True if a file or folder stands in place of a shipped one, and differs from it."""
    is_there = os.path.lexists(shipped_path)
    is_other = os.path.realpath(path) != os.path.realpath(shipped_path)  # also of a loop of links
    return is_there and is_other and not _same(path, shipped_path)


def _same(path: Path, other: Path) -> bool:
    """Return True if both hold the same bytes; anything but a file or folder is like nothing."""
    try:
        first, second = path.lstat(), other.stat()
        if stat.S_ISDIR(first.st_mode) and stat.S_ISDIR(second.st_mode):
            names = _names(path)
            return names == _names(other) and all(_same(path / one, other / one) for one in names)
        is_file = stat.S_ISREG(first.st_mode) and stat.S_ISREG(second.st_mode)
        if not is_file or first.st_size != second.st_size:
            return False
        return path.read_bytes() == other.read_bytes()
    except OSError:
        return False


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"__pycache__"}
