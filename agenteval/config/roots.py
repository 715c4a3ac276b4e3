"""Where named things are found: the user's project first, then what agenteval ships.

A project is a stranger's until the user says otherwise (`config.trust`). The search for one never
uses or crosses a folder that somebody else owns or can write, as git's does since CVE-2022-24765.
"""

import grp
import os
import pwd
import stat
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from agenteval import config
from agenteval.config.beneath import named, printable
from agenteval.core.plain import as_name, as_word
from agenteval.errors import UsageError

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


class Search(NamedTuple):
    """A project, and the nearest one that was passed over."""

    project: Path | None  # None where the folder itself is not the user's own
    refused: Path | None = None
    reason: str = ""


def roots(start: Path | None = None) -> tuple[Path, ...]:
    """The folders to look in: first the project around `start` (default: here), then the shipped.

    One line on standard error names a project above this folder, and one that is passed over.
    """
    here = (start or working_folder()).resolve()
    search = find_project(here)
    if search.refused:
        announce(
            f"{search.refused}: passed over, as {search.reason}. Look at it: agenteval doctor "
            f"--project {as_word(str(search.refused))}; to use it: agenteval trust "
            f"{as_word(str(search.refused))}"
        )
    if start is None and search.project not in {None, here}:
        announce(f"the project is {search.project}, whose {PROJECT_FILE} is the nearest upwards")
    return tuple(dict.fromkeys(filter(None, (search.project, shipped()))))


def working_folder() -> Path:
    """Raises UsageError where it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UsageError("the working folder is gone: enter one that is there") from error


def find_project(here: Path) -> Search:
    """The nearest folder upwards from `here`, a resolved path, that holds an agenteval.toml.

    Else `here` itself. The search ends at the root of a repository, at the home folder, at another
    file system, and before a folder or file that is another user's.
    """
    ours, device = shipped(), here.stat().st_dev
    for folder in (here, *here.parents):
        file = folder / PROJECT_FILE
        is_project = _is_file(file)
        if folder == ours and is_project:
            return Search(folder)
        reason = _foreign(folder, device) or (is_project and _foreign(file)) or ""
        if reason:
            return _passed_over(here, folder, reason)
        if is_project:
            return Search(folder)
        if folder == home() or os.path.lexists(folder / ".git"):
            break
    return Search(here)


def _passed_over(here: Path, folder: Path, reason: str) -> Search:
    """What is above the border, or in it; used all the same where the user has confirmed it."""
    project = None if folder == here else here
    has_parts = folder == here and any(os.path.lexists(here / part) for part in PARTS)
    above = (one for one in (folder, *folder.parents) if _is_file(one / PROJECT_FILE))
    refused = here if has_parts else next(above, None)
    if refused is None:
        return Search(project)
    if refused == shipped() or config.trust.is_trusted(refused):
        return Search(refused)
    where = "it" if refused == folder else str(folder)
    return Search(project, refused, f"{where} {reason}")


def home() -> Path | None:
    """The user's home folder; None where the environment names none by an absolute path."""
    place = Path(os.path.expanduser("~"))  # noqa: PTH111 -- Path.home raises where there is none
    return Path(os.path.realpath(place)) if place.is_absolute() else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # before Python 3.14, where a folder above cannot be entered
        return False


def _foreign(path: Path, device: int | None = None) -> str:
    """Why a folder or file is not the user's own alone; empty where it is."""
    try:
        status = path.stat()
    except OSError as error:
        return f"cannot be looked at ({error.strerror})"
    if device not in {None, status.st_dev}:
        return "is on another file system"
    return stranger(status) or ("may be written by others (ACL)" if _has_acl(path, status) else "")


def stranger(status: os.stat_result) -> str:
    """Who else owns or can write what has this status; empty where nobody does."""
    if status.st_uid not in _users():
        return f"belongs to another user ({_user_name(status.st_uid)})"
    if status.st_mode & stat.S_IWOTH:
        return "may be written by any user"
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_uid, status.st_gid):
        return "may be written by a group"
    return ""


def _users() -> frozenset[int]:
    """Ids of the user; under sudo the one who called it too, as git has it."""
    user, caller = os.geteuid(), os.environ.get("SUDO_UID", "")
    is_called = user == 0 and caller.isascii() and caller.isdigit()
    return frozenset({user, int(caller)} if is_called else {user})


def _user_name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _is_private_group(user: int, group: int) -> bool:
    """Whether a group is the user's alone: many distributions give each user one of his name."""
    try:
        entry = grp.getgrgid(group)
    except KeyError:
        return False
    name = _user_name(user)
    return entry.gr_name == name and not {*entry.gr_mem} - {name}


def _has_acl(path: Path, status: os.stat_result) -> bool:
    """Whether a list of rights stands behind the group's bits, which are its mask then."""
    if not status.st_mode & stat.S_IWGRP or not hasattr(os, "getxattr"):
        return False
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except OSError:
        return False


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
    """Whether a file or folder stands in place of a shipped one, and differs from it."""
    is_there = os.path.lexists(shipped_path)
    return is_there and path.resolve() != shipped_path.resolve() and not _same(path, shipped_path)


def _same(path: Path, other: Path) -> bool:
    """Whether both hold the same bytes; what is neither a file nor a folder is like nothing."""
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


def find_rules(roots: Sequence[Path]) -> Path:
    """The first gate.toml under `roots`; the last of them is what agenteval ships."""
    path = next(root / GATE_FILE for root in roots if (root / GATE_FILE).exists())
    note_hidden("the gate's rules", GATE_FILE, path, shipped() / GATE_FILE)
    return path


FILE = "scenario.toml"


def first(places: Sequence[Path]) -> Path:
    """The first place that is there. Raises UsageError when none is."""
    for place in places:
        if place.is_dir():
            return place
    raise UsageError(f"{_listed(places)}: no folder of scenarios there. Make one, or name a folder")


def find(target: str, places: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Name and folder of every scenario that a target means. Raises UsageError if it means none."""
    starts = _starts(target, places)
    for start in starts:
        folders = sorted({file.parent for file in named(start, FILE) if file.name == FILE})
        if folders:
            base = _base(start, places)
            scenario_folders = [(_name(folder, base), folder) for folder in folders]
            _note_hidden_scenarios(scenario_folders, base)
            yield from scenario_folders
            return
    for start in starts:
        if start.is_dir():
            raise UsageError(f"{start}: no {FILE} in it or below it. Name a folder of scenarios")
    known = sorted(
        _name(file.parent, place.resolve())
        for place in places
        for file in named(place, FILE)
        if file.name == FILE
    )
    raise UsageError(
        f"no scenario or folder {target!r} in {_listed(places)}. "
        f"Known: {', '.join(known) or 'none'}"
    )


def _starts(target: str, places: Sequence[Path]) -> Sequence[Path]:
    """Where a target may lie; last the folder here, where it is not the user's own."""
    below = (*(place / target for place in places), *_by_path(target, places))
    path = Path(target)
    is_explicit = path.is_absolute() or target.startswith(".")
    if is_explicit or find_project(working_folder()).project is not None:
        return (path, *below)
    return (*below, path)


def _note_hidden_scenarios(scenario_folders: Sequence[tuple[str, Path]], base: Path) -> None:
    ours = shipped() / SCENARIOS
    hiding_names = [name for name, folder in scenario_folders if is_hiding(folder, ours / name)]
    if hiding_names:
        names = ", ".join(hiding_names[:3]) + (
            f" and {len(hiding_names) - 3} more" if hiding_names[3:] else ""
        )
        announce(f"scenario {names} is of {base}, which hides the shipped ones of these names")


def _by_path(target: str, places: Sequence[Path]) -> Iterator[Path]:
    """`scenarios/` and what is below it, where the folder here has none, as in an empty project."""
    path = Path(target)
    if not path.is_dir() and ".." not in path.parts:
        yield from (place.parent / path for place in places if path.parts[:1] == (place.name,))


def _base(start: Path, places: Sequence[Path]) -> Path:
    """What names are relative to: the place that `start` stands in, else `start` or its parent."""
    start = start.resolve()
    for place in places:
        if start.is_relative_to(place.resolve()):
            return place.resolve()
    return start.parent if (start / FILE).exists() else start


def _name(folder: Path, base: Path) -> str:
    return printable(folder.resolve().relative_to(base).as_posix(), folder)


def _listed(places: Sequence[Path]) -> str:
    return " or ".join(f"{place}/" for place in places)
