"""Asking scripts for their command lines: each is run in a sandbox, as far as its parser."""

import asyncio
import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path

from agenteval.core.scenario import Limits
from agenteval.errors import UsageError
from agenteval.formats import reveal
from agenteval.formats.derived import Derived, read_told, to_text
from agenteval.protocols import SandboxBackend
from agenteval.sandbox.choose import choose

LIBRARIES = ".libraries"  # where click and typer lie beside the scripts
_PACKAGES = ("click", "typer", "annotated_doc", "typing_extensions", "shellingham")
_SOURCE = Path(reveal.__file__).read_text(encoding="utf-8")
_AT_A_TIME = 4
_LIMITS = Limits(call_seconds=10.0)


def derive_text(place: Path, runner: str, sandbox: str | None) -> str:
    """An allow list from what scripts themselves say they take. Raises UsageError."""
    return to_text(derive(place, runner, sandbox))


def derive(place: Path, runner: str, sandbox: str | None) -> list[Derived]:
    """What every script in a folder takes, or one script. Raises UsageError."""
    if not place.is_dir() and not (place.is_file() and place.suffix == ".py"):
        raise _nothing(place)
    folder = place if place.is_dir() else place.parent
    files = {
        f"{folder.resolve().name}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    wanted = [path for path in files if path.endswith(".py")]
    if not place.is_dir():
        wanted = [path for path in wanted if path.endswith(f"/{place.name}")][:1]
    if not wanted:
        raise _nothing(place)
    if any(word in text for text in files.values() for word in (b"click", b"typer")):
        files |= _libraries()
    return asyncio.run(_told(files, wanted, runner, sandbox))


def _nothing(place: Path) -> UsageError:
    return UsageError(
        f"{place}: no Python scripts there. Name a folder of scripts, such as "
        "fixtures/NAME/files/scripts, or one script"
    )


async def _told(
    files: Mapping[str, bytes], wanted: Iterable[str], runner: str, sandbox: str | None
) -> list[Derived]:
    backend = await choose(sandbox)
    free = asyncio.Semaphore(_AT_A_TIME)
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(_ask(backend, files, p, runner, free)) for p in wanted]
    return [task.result() for task in asked]


async def _ask(
    backend: SandboxBackend,
    files: Mapping[str, bytes],
    path: str,
    runner: str,
    free: asyncio.Semaphore,
) -> Derived:
    """In a world of its own: no script can change what another one tells."""
    async with free, backend.open(files, _LIMITS) as sandbox:
        done = await sandbox.run(("python3", "-W", "ignore", "-c", _SOURCE, path, LIBRARIES))
    return read_told(path, runner, done)


def _libraries() -> Mapping[str, bytes]:
    """Our own copies of click and typer: the Python of a sandbox has no libraries."""
    found = {}
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        sources = origin.parent.rglob("*.py") if spec.submodule_search_locations else [origin]
        base = origin.parent.parent if spec.submodule_search_locations else origin.parent
        for path in sources:
            found[f"{LIBRARIES}/{path.relative_to(base).as_posix()}"] = path.read_bytes()
    return found
