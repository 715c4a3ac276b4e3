"""The places in which named things are found: the user's project, then what agenteval ships.

A project is a stranger's until the user says otherwise (`config.trust`). The search for one never
uses or crosses a folder that somebody else owns or can write, as git's does since CVE-2022-24765.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from agenteval.config.beneath import named, printable
from agenteval.config.project_files import (
    GATE_FILE,
    PARTS,
    PROJECT_FILE,
    SCENARIOS,
    announce,
    home,
    is_folder,
    is_hiding,
    note_hidden,
    shipped,
    stranger,
)
from agenteval.core.plain import as_word
from agenteval.errors import UsageError


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
    shipped_folder, device = shipped(), here.stat().st_dev
    for folder in (here, *here.parents):
        file = folder / PROJECT_FILE
        is_project = _is_file(file)
        if folder == shipped_folder and is_project:
            return Search(folder)
        reason = _foreign(folder, device) or (is_project and _foreign(file)) or ""
        if reason:
            return _passed_over(here, folder, reason)
        if is_project:
            return Search(folder)
        if folder == home() or _is_repository(folder):
            break
    return Search(here)


def _is_repository(folder: Path) -> bool:
    """Return True for the root of a repository, of a work tree or a submodule, or a bare one."""
    has_bare = (os.path.lexists(folder / name) for name in ("HEAD", "objects", "refs"))
    return os.path.lexists(folder / ".git") or all(has_bare)


def _passed_over(here: Path, folder: Path, reason: str) -> Search:
    """Return the result of a search that ends at a border; a confirmed project there is used."""
    project = None if folder == here else here
    has_parts = folder == here and any(os.path.lexists(here / part) for part in PARTS)
    above = (one for one in (folder, *folder.parents) if _is_file(one / PROJECT_FILE))
    refused = here if has_parts else next(above, None)
    if refused is None:
        return Search(project)
    from agenteval.config import trust  # noqa: PLC0415 -- start-up: few projects are passed over

    if refused == shipped() or trust.is_trusted(refused):
        return Search(refused)
    where = "it" if refused == folder else str(folder)
    return Search(project, refused, f"{where} {reason}")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # before Python 3.14, where a folder above cannot be entered
        return False


def _foreign(path: Path, device: int | None = None) -> str:
    """Return why a folder or file is not the user's own alone; empty if it is."""
    try:
        if device not in {None, path.stat().st_dev}:
            return "is on another file system"
        return stranger(path)
    except OSError as error:
        return f"cannot be looked at ({error.strerror})"


def find_rules(roots: Sequence[Path]) -> Path:
    """The first gate.toml under `roots`; the last of them is what agenteval ships."""
    path = next(root / GATE_FILE for root in roots if os.path.lexists(root / GATE_FILE))
    note_hidden("the gate's rules", GATE_FILE, path, shipped() / GATE_FILE)
    return path


FILE = "scenario.toml"


def first(places: Sequence[Path]) -> Path:
    """The first place that is there. Raises UsageError when none is."""
    for place in places:
        if is_folder(place):
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
        if is_folder(start):
            raise UsageError(f"{start}: no {FILE} in it or below it. Name a folder of scenarios")
    scenario_names = sorted(
        _name(file.parent, place.resolve())
        for place in places
        for file in named(place, FILE)
        if file.name == FILE
    )
    raise UsageError(
        f"no scenario or folder {target!r} in {_listed(places)}. "
        f"Known: {', '.join(scenario_names) or 'none'}"
    )


def _starts(target: str, places: Sequence[Path]) -> Sequence[Path]:
    """Return the places of a target; the folder here comes last if it is not the user's own."""
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
    if not is_folder(path) and ".." not in path.parts:
        yield from (place.parent / path for place in places if path.parts[:1] == (place.name,))


def _base(start: Path, places: Sequence[Path]) -> Path:
    """Return the base of names: the place that holds `start`, else `start` or its parent."""
    start = start.resolve()
    for place in places:
        if start.is_relative_to(place.resolve()):
            return place.resolve()
    return start.parent if (start / FILE).exists() else start


def _name(folder: Path, base: Path) -> str:
    return printable(folder.resolve().relative_to(base).as_posix(), folder)


def _listed(places: Sequence[Path]) -> str:
    return " or ".join(f"{place}/" for place in places)
