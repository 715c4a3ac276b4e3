"""Where named things are found: the user's project first, then what agenteval ships."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from agenteval.config.beneath import named, printable
from agenteval.errors import UsageError

PROJECT_FILE = "agenteval.toml"
GATE_FILE = "gate.toml"
DEFAULT_STORE = "reports/agenteval.db"
DEFAULT_ARM = "taught/tools"


def shipped() -> Path:
    """The folder with the shipped scenarios/, allowlists/, fixtures/ and agenteval.toml.

    `agenteval/shipped` of an installed wheel; in a checkout that holds links, and this is where
    they lead: the checkout itself.
    """
    return (Path(__file__).parent.parent / "shipped" / PROJECT_FILE).resolve().parent


def roots(start: Path | None = None) -> tuple[Path, ...]:
    """The folders to look in: first the project around `start` (default: here), then the shipped.

    The project is the nearest folder upwards that holds an agenteval.toml, else `start` itself.
    """
    here = (start or Path.cwd()).resolve()
    project = next(
        (folder for folder in (here, *here.parents) if (folder / PROJECT_FILE).is_file()), here
    )
    return tuple(dict.fromkeys((project, shipped())))


def find_rules(roots: Sequence[Path]) -> Path:
    """The first gate.toml under `roots`; the last of them is what agenteval ships."""
    return next(root / GATE_FILE for root in roots if (root / GATE_FILE).exists())


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
        folders = sorted({file.parent for file in named(start, FILE) if file.name == FILE})
        if folders:
            base = _base(start, places)
            yield from ((_name(folder, base), folder) for folder in folders)
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
