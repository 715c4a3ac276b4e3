"""Where scenarios lie: a folder with a scenario.toml, and the name it has by its place."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from agenteval.errors import UsageError

FILE = "scenario.toml"


def first(places: Sequence[Path]) -> Path:
    """The first place that is there. Raises UsageError when none is."""
    for place in places:
        if place.is_dir():
            return place
    raise UsageError(f"{_listed(places)}: no folder of scenarios there. Make one, or name a folder")


def find(target: str, places: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Name and folder of every scenario that a target means. Raises UsageError if it means none."""
    starts = (Path(target), *(place / target for place in places), *_by_path(target, places))
    for start in starts:
        folders = sorted(file.parent for file in start.rglob(FILE)) if start.is_dir() else []
        if folders:
            base = _base(start, places)
            yield from ((_name(folder, base), folder) for folder in folders)
            return
    for start in starts:
        if start.is_dir():
            raise UsageError(f"{start}: no {FILE} in it or below it. Name a folder of scenarios")
    known = sorted(
        _name(file.parent, place.resolve()) for place in places for file in place.rglob(FILE)
    )
    raise UsageError(
        f"no scenario or folder {target!r} in {_listed(places)}. "
        f"Known: {', '.join(known) or 'none'}"
    )


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
    return folder.resolve().relative_to(base).as_posix()


def _listed(places: Sequence[Path]) -> str:
    return " or ".join(f"{place}/" for place in places)
