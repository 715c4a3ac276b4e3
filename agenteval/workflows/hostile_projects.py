"""Projects as a hostile stranger shares them: viewing one must touch nothing outside it.

Each is the scenario that `scenarios new` writes, with one thing spoilt, as hostile_projects.toml
lists them. Viewing it reads its scenario, arms, word lists and allow list, builds its task instance
and prints that. It must end in time, with one line of error or a harmless instance. A home folder
with a victim's files must stay unchanged.
"""

import hashlib
import os
import socket
import sqlite3
import stat
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import Template
from typing import Any, Final

from agenteval.config.allowlists import load_policy
from agenteval.config.files import shipped
from agenteval.config.prompts import arms
from agenteval.config.scenarios import load_fixture, load_scenarios
from agenteval.errors import UsageError
from agenteval.host import temporary_folder
from agenteval.lazily import read_table
from agenteval.workflows.author import tables, write_skeleton
from agenteval.workflows.hostile import Tried, repeated

NAME: Final = "mine/one"
WORLD, FILES = "fixtures/mine-one/world.sql", "fixtures/mine-one/files"
SCENARIO = "scenarios/mine/one/scenario.toml"
INSTRUCTIONS = "scenarios/mine/one/instructions.md"
HARMLESS: Final = "^a world of"
_SPARSE = 10 << 30  # bytes
_PLANTED: Final = {
    ".bashrc": "# the victim's\n",
    ".aws/credentials": "not-a-real-secret\n",
    "notes.toml": 'description = "private words"\n',
}
Spoil = Callable[[Path, Path], None]  # of a project; the second is the victim's home


@dataclass(frozen=True, slots=True)
class Hostile:
    """The damage to a project, and the pattern that the result of viewing it must match."""

    expected: str
    spoil: Spoil
    is_slow: bool = False  # it ends by the processor time that it may use
    needs_root: bool = False  # only root makes devices; what root clones or unpacks may have them


def hostile_projects() -> Mapping[str, Hostile]:
    """Return the cases by name, without those that this user cannot make."""
    document = read_table("agenteval.workflows", "hostile_projects.toml")
    texts = {"WORLD": WORLD, "FILES": FILES, "SCENARIO": SCENARIO, "INSTRUCTIONS": INSTRUCTIONS}
    # TOML has no bytes that are not UTF-8; in a path Python writes one like this.
    texts |= {"HARMLESS": HARMLESS, "NOT_UTF8": "\udcff", **document["names"]}
    makes_devices = _makes_devices()
    projects = {"nothing is spoilt": Hostile(HARMLESS, lambda *_: None)}
    for name, case in document["projects"].items():
        hostile = _hostile(case, texts)
        if makes_devices or not hostile.needs_root:
            projects[name] = hostile
    return projects


def _hostile(case: Mapping[str, Any], texts: Mapping[str, str]) -> Hostile:
    damage = {}
    for key, text in case.items():
        if isinstance(text, str):
            damage[key] = repeated(Template(text).substitute(texts))
    return Hostile(
        damage.pop("expected"),
        partial(_spoil, damage),
        is_slow=case.get("is_slow", False),
        needs_root=case.get("needs_root", False),
    )


def _makes_devices() -> bool:
    """Return True if a device's node can be made where temporary folders are."""
    with temporary_folder() as folder:
        try:
            _MAKERS["device"](folder / "zero")
        except OSError:  # an ordinary user, or root of a container
            return False
    return True


def _spoil(damage: Mapping[str, str], project: Path, home: Path) -> None:
    """Do this damage to a project. Raises ValueError for a kind without a name."""
    match damage:
        case {"sql": script}:
            _rewrite(project / WORLD, home, lambda text: f"{text}\n{script}")
        case {"task": template}:
            _rewrite(project / INSTRUCTIONS, home, lambda text: f"{text}\n{template}\n")
        case {"replace": before, "by": after}:
            _rewrite(project / SCENARIO, home, lambda text: text.replace(before, after))
        case {"path": path, "append": more}:
            _rewrite(project / path, home, lambda text: text + more)
        case {"path": path, "prepend": more}:
            _rewrite(project / path, home, lambda text: more + text)
        case {"path": path, "write": content}:
            _rewrite(project / path, home, lambda _: content)
        case {"path": path, "link": target}:
            _link(project / path, home, target)
        case {"path": path, "make": kind}:
            place = project / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            _MAKERS[kind](place)
        case _:
            raise ValueError(damage)


def _rewrite(place: Path, home: Path, change: Callable[[str], str]) -> None:
    text = place.read_text(encoding="utf-8") if place.exists() else ""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(change(text).replace("HOME", str(home)), encoding="utf-8")


def _link(place: Path, home: Path, target: str) -> None:
    """Put a link in the place of a file, or of a folder with all that is in it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        place.rename(home.parent / f"moved-{place.name}")
    target = target.replace("HOME", str(home)).replace("MOVED", str(home.parent / "moved"))
    place.symlink_to(target)


def _listen(place: Path) -> None:
    before = Path.cwd()
    os.chdir(place.parent)  # the path of a socket has few characters
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(place.name)
    os.chdir(before)


def _sparse(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(_SPARSE)


def _device(
    kind: int,
    major: int,
    minor: int,
) -> Callable[[Path], None]:
    return lambda place: os.mknod(place, kind | 0o666, os.makedev(major, minor))


def _many(place: Path) -> None:
    place.mkdir()
    for number in range(10_001):
        (place / str(number)).touch()


def _deep(place: Path) -> None:
    deepest = place.joinpath(*["d"] * 40)
    deepest.mkdir(parents=True)
    (deepest / "file").touch()


def _database(place: Path) -> None:
    """An image whose goal is a view without end, in the place of a script."""
    with closing(sqlite3.connect(place)) as connection:
        connection.execute(
            "CREATE VIEW chores AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 "
            "FROM n) SELECT id, 'x' AS text, 1 AS done FROM n"
        )
        connection.commit()


_MAKERS: Mapping[str, Callable[[Path], object]] = {
    "file": Path.touch,
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "socket": _listen,
    "sparse file": _sparse,
    "many files": _many,
    "deep folders": _deep,
    "database": _database,
    "device": _device(stat.S_IFCHR, 1, 5),
    "disk": _device(stat.S_IFBLK, 7, 0),
}


def _write_hostile(hostile: Hostile, folder: Path) -> tuple[Path, Path]:
    """Write the project and the victim's home into a new folder; both."""
    home, project = folder / "home", folder / "project"
    for path, text in _PLANTED.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text, encoding="utf-8")
    with closing(sqlite3.connect(home / "victim.db")) as victim:
        victim.executescript("CREATE TABLE t (secret); INSERT INTO t VALUES ('private words');")
    project.mkdir()
    (project / "agenteval.toml").touch()
    write_skeleton(NAME, root=project)
    hostile.spoil(project, home)
    return project, home


def snapshot(folder: Path) -> Mapping[str, tuple[object, ...]]:
    """Kind, mode, times and content of all that lies in a folder; a large file by its size."""
    entries: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = ""
        if path.is_file() and not path.is_symlink() and status.st_size < 1 << 24:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        entries[str(path)] = (status.st_mode, status.st_mtime_ns, status.st_size, content)
    return entries


def try_projects() -> list[Tried]:
    """Write, inspect and compare each hostile project that ends at once."""
    return [
        Tried("project", name, _came_of(hostile), hostile.expected)
        for name, hostile in hostile_projects().items()
        if not hostile.is_slow
    ]


def _came_of(hostile: Hostile) -> str:
    with temporary_folder() as folder:
        project, home = _write_hostile(hostile, folder)
        before = snapshot(folder)
        came = look(project, home)
        # A folder that is too deep to be walked again cannot be compared.
        with suppress(OSError):
            if snapshot(folder) != before:
                return f"it changed something outside; and {came}"
    return came


def look(project: Path, home: Path) -> str:
    """Return what viewing this scenario prints: its task instance, or the line of an error."""
    where = (project, shipped())
    try:
        (scenario,) = load_scenarios([NAME], roots=where)
        load_policy(
            scenario.policy,
            roots=where,
            by_user=False,
        )
        arms(where)
        files = load_fixture(scenario, 0, roots=where)
        rows = list(tables(files[scenario.database]))
    except UsageError as error:
        lines = str(error).splitlines()
        return lines[0] if len(lines) == 1 else f"{len(lines)} lines: {lines[0]}"
    private = any(str(home) in line or "private words" in line for line in rows)
    return "the victim's words" if private else f"a world of {len(files)} files"
