"""A folder as a project and this machine as a host: what each would do, tried or listed.

`examine` lists for `doctor --project` and `confirm` is for `trust`. Nothing of a project is
executed: files are named, only agenteval.toml is read, and no link is followed.

`examine_machine` tries the parts: sandboxes, readers of a model's output, bashlex.
"""

import asyncio
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from agenteval import plugins
from agenteval.config import beneath, trust
from agenteval.config.files import (
    ARMS,
    FIXTURES,
    GATE_FILE,
    LISTS,
    PARTS,
    PROJECT_FILE,
    SCENARIOS,
    is_hiding,
    read_content,
    shipped,
)
from agenteval.config.models import entries_of
from agenteval.config.trust import SCENARIO_FILE, find_project
from agenteval.errors import UsageError
from agenteval.play.second_reader import SecondReader
from agenteval.sandbox.backends import AUTOMATIC, BACKENDS, automatic, groups_of, probe_all
from agenteval.sandbox.inside.kernel import landlock_version
from agenteval.sandbox.probe import Probe, group_cure
from agenteval.trial.call import BashRun
from agenteval.workflows.hostile import Tried, try_texts, try_worlds
from agenteval.workflows.hostile_projects import try_projects

MOST = 20_000  # entries of a project that are looked at
_SCRIPTS = (".py", ".sh", ".sql")


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """A model of agenteval.toml at one of its servers."""

    name: str
    url: str
    variable: str
    is_set: bool  # whether the variable has a key here
    may_send: bool


@dataclass(frozen=True, slots=True)
class Project:
    """`brings` has names by kind, `hides` those that shipped ones have too."""

    folder: str
    refused: str  # why the search passes it over; empty where it does not
    digest: str
    is_trusted: bool
    problem: str
    models: Sequence[ModelAccess]
    brings: Mapping[str, Sequence[str]]
    hides: Mapping[str, Sequence[str]]
    unusual: Sequence[tuple[str, str]]  # links, devices, scripts, plug-ins: kind and place

    def document(self) -> dict[str, Any]:
        return asdict(self)


def _project_of(folder: Path) -> Path:
    """Return the project that commands in this folder use, whoever owns it. Raises UsageError."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: no folder; name the one of a project")
    here = folder.resolve()
    if any(os.path.lexists(here / part) for part in (PROJECT_FILE, GATE_FILE, LISTS, ARMS)):
        return here
    return find_project(here).project or here


def examine(folder: Path) -> Project:
    """List what the project of this folder would do. Raises UsageError."""
    root = _project_of(folder)
    content, models, problem = _models(root)
    try:
        digest, is_trusted = trust.digest(root, content), trust.is_trusted(root, content)
    except UsageError as error:
        digest, is_trusted, problem = "", False, str(error)
    brings = {kind: sorted(named) for kind, named in _named(root).items() if named}
    hides = {}
    for kind, names in brings.items():
        hiding = [name for name in names if _is_hiding(root, kind, name)]
        if hiding:
            hides[kind] = hiding
    search = find_project(root)
    return Project(
        folder=str(root),
        refused=search.reason if search.refused == root else "",
        digest=digest,
        is_trusted=is_trusted,
        problem=problem,
        models=models,
        brings=brings,
        hides=hides,
        unusual=list(_unusual(root)),
    )


def _models(root: Path) -> tuple[bytes | None, list[ModelAccess], str]:
    """Return the content of agenteval.toml, its models, and what is wrong with it.

    It is read once: what is confirmed is what was shown.
    """
    path, content = root / PROJECT_FILE, None
    if not path.is_file():
        return None, [], ""
    try:
        content = read_content(path)
        entries = entries_of(root, content)
    except UsageError as error:
        return content, [], str(error)
    models = []
    for name, entry in entries.items():
        for server in entry.per_server:
            url, variable = server.base_url, server.api_key_env
            is_set = bool(os.environ.get(variable, "").strip())
            may_send = trust.may_send(variable, url)
            models.append(ModelAccess(name, url, variable, is_set, may_send))
    return content, models, ""


def _named(root: Path) -> dict[str, list[str]]:
    """Return the names that a command could use, by the folder or file that has them."""
    lists, arms = root / LISTS, root / ARMS
    names = {
        LISTS: [path.stem for path in lists.glob("*.toml")],
        ARMS: [_below(path.with_suffix(""), arms) for path in beneath.named(arms, ".toml")],
        SCENARIOS: [_below(path.parent, root / SCENARIOS) for path in _scenarios(root)],
        FIXTURES: [path.name for path in (root / FIXTURES).glob("*") if path.is_dir()],
    }
    if os.path.lexists(root / GATE_FILE):
        names[GATE_FILE] = [GATE_FILE]
    return names


def _scenarios(root: Path) -> Iterator[Path]:
    files = islice(beneath.named(root / SCENARIOS, SCENARIO_FILE), MOST)
    return (file for file in files if file.name == SCENARIO_FILE)


def _below(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _is_hiding(
    root: Path,
    kind: str,
    name: str,
) -> bool:
    suffix = ".toml" if kind in {LISTS, ARMS} else ""
    place = Path(kind) if kind == GATE_FILE else Path(kind, f"{name}{suffix}")
    return is_hiding(root / place, shipped() / place)


def _unusual(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each link, device, pipe and script of the parts, and the plug-ins next to them."""
    entries = (path for part in PARTS for path in _walk(root / part))
    for path in islice(entries, MOST):
        if kind := _kind(path):
            yield kind, _below(path, root)
    for group, name, value in plugins.of_folder(str(root)):
        yield "plug-in", f"{name} ({group}): {value}"


def _walk(path: Path) -> Iterator[Path]:
    """The path and all below it, following no link."""
    if os.path.lexists(path):
        yield path
    if not path.is_symlink():
        yield from (Path(entry.path) for entry in beneath.entries(path))


def _kind(path: Path) -> str:
    """Return what makes an entry worth a look; empty for a plain file or folder."""
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return f"link to {path.readlink()}"
    except OSError as error:  # as of a path that is too long
        return f"cannot be looked at ({error.strerror})"
    if stat.S_ISDIR(status.st_mode):
        return ""
    if not stat.S_ISREG(status.st_mode):
        return "pipe" if stat.S_ISFIFO(status.st_mode) else "device or socket"
    is_script = path.suffix in _SCRIPTS or status.st_mode & stat.S_IXUSR
    return "script" if is_script else ""


def confirm(folder: Path) -> Project:
    """Confirm the project of this folder as it is now. Raises UsageError."""
    project = examine(folder)
    if not any(os.path.lexists(Path(project.folder, part)) for part in PARTS):
        raise UsageError(f"{project.folder}: no project: it has none of {', '.join(PARTS)}")
    if project.problem:
        raise UsageError(f"{project.folder}: not confirmed: {project.problem}")
    trust.confirm(Path(project.folder), project.digest)
    return project


def state_of(folder: str, pin: str) -> str:
    """Return the present state of a confirmed project, in words."""
    if not Path(folder).is_dir():
        return "gone"
    return "unchanged" if trust.digest(Path(folder)) == pin else "changed, so not trusted any more"


# This machine.

# A command it reads, with its words; one it cannot read, one it hangs on.
ASKED = (("ls 'a b'", "ls", "a b"), ("echo { }",), ("echo a'${'b",))


@dataclass(frozen=True, slots=True)
class KernelLimits:
    """The limits that the kernel itself enforces on each sandbox.

    If there are none, `lacking` says why, and `cure` what provides more.
    """

    held: tuple[str, ...] = ()
    lacking: str = ""
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Examined:
    """`chosen` is the sandbox that a run uses by itself; None where none works.

    `inbound` is what of a model's was given to the parts that read it, `landlock` the version of
    the second layer in this kernel, 0 where it has none.
    """

    probes: Sequence[Probe]
    inbound: Sequence[Tried]
    second_reader: Mapping[str, int]
    landlock: int
    control_groups: KernelLimits

    @property
    def chosen(self) -> str | None:
        return _chosen(self.probes)

    @property
    def holds(self) -> bool:
        """True if a run can start, and nothing that a model sends does harm."""
        return self.chosen is not None and all(tried.is_as_wanted for tried in self.inbound)

    def document(self) -> dict[str, Any]:
        return {
            "chosen": self.chosen,
            "control_groups": asdict(self.control_groups),
            "landlock": self.landlock,
            "sandboxes": [asdict(seen) for seen in self.probes],
            "inbound": [asdict(tried) | {"held": tried.is_as_wanted} for tried in self.inbound],
            "second_reader": dict(self.second_reader),
        }


def _chosen(probes: Sequence[Probe]) -> str | None:
    working = {seen.backend for seen in probes if seen.works}
    return next((name for name in automatic() if name in working), None)


def examine_machine() -> Examined:
    return asyncio.run(_examine())


async def _examine() -> Examined:
    probes = await probe_all()
    return Examined(
        probes=probes,
        inbound=await _inbound(probes),
        second_reader=await _second_reader(),
        landlock=landlock_version(),
        control_groups=await _kernel_limits(probes),
    )


async def _kernel_limits(probes: Sequence[Probe]) -> KernelLimits:
    name = _chosen(probes)
    if name is None:
        return KernelLimits(lacking="no sandbox works here", cure="first mend the sandbox")
    if name not in AUTOMATIC:
        return KernelLimits(lacking="of our own, as the container engine makes them")
    groups = await groups_of(name)
    return KernelLimits(groups.held, groups.lacking, group_cure(groups.lacking))


async def _inbound(probes: Sequence[Probe]) -> Sequence[Tried]:
    """Try every sandbox that works, all at once, as most of them wait; then the rest."""
    working = [seen.backend for seen in probes if seen.works and seen.backend in BACKENDS]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(try_worlds(BACKENDS[name]())) for name in working]
    return [*(tried for task in tasks for tried in task.result()), *try_texts(), *try_projects()]


async def _second_reader() -> Mapping[str, int]:
    """Return how bashlex answered the test commands, counted by answer."""
    async with SecondReader() as reader:
        for text, *words in ASKED:
            argv = tuple(words)
            await reader.objection(BashRun(text, argv, (argv,)))
    return dict(reader.counts)
