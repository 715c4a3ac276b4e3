"""Plug-ins: additions of other distributions by entry points, loaded on first use.

A group is named after what it adds to: `agenteval.criteria`, `agenteval.dialects`,
`agenteval.failure_classes`, `agenteval.formats`, `agenteval.sandboxes`.

Each is named on standard error before it is imported. What is found through the working folder or
its project is a stranger's, and is not imported: to install a distribution is to trust it.
"""

import os
import site
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple


class PluginError(ValueError):
    """An error that a plug-in raised at its work; it names the plug-in."""


_OURS = b"[agenteval."
_METADATA = (".dist-info", ".egg-info")
_LARGEST = 1 << 20  # bytes of a file of entry points


class _Plugin(NamedTuple):
    value: Any
    source: str  # the distribution that it is of, with its version


@cache
def load(group: str, fits: Callable[[Any], bool] = lambda _: True) -> Mapping[str, Any]:
    """Return the plug-ins of a group by name, in the order of the alphabet.

    One that can't be loaded, or does not fit, is named on standard error once, and left out.
    """
    values = {name: plugin.value for name, plugin in _loaded(group).items()}
    return {name: value for name, value in values.items() if _fits(group, name, value, fits)}


def sources(group: str, names: Iterator[str]) -> tuple[str, ...]:
    """Return the distributions of plug-ins, each as `name/version`, in the alphabet's order."""
    return tuple(sorted({_loaded(group)[name].source for name in names}))


def called(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a plug-in's function. Raises PluginError, whatever that raises."""
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:  # its exit code would be taken for a gate's verdict
        raise PluginError(f"{type(error).__name__}: {error}") from error


@cache
def leave_out(group: str, name: str, reason: str) -> None:
    """Report on standard error, once, that a plug-in is left out."""
    line = " ".join(reason.split())
    sys.stderr.write(f"agenteval: plug-in {name} ({group}) is left out: {line}\n")


def _fits(group: str, name: str, value: object, fits: Callable[[Any], bool]) -> bool:
    is_fitting = fits(value)
    if not is_fitting:
        leave_out(group, name, f"the group takes no {type(value).__name__}")
    return is_fitting


@cache
def _loaded(group: str) -> Mapping[str, _Plugin]:
    if group not in _groups():
        return {}
    plugins: dict[str, _Plugin] = {}
    for point, source in sorted(_points(group), key=lambda entry: entry[0].name):
        if point.name in plugins:
            first = plugins[point.name].source
            leave_out(group, point.name, f"{source}: {first} has one of that name too")
            continue
        sys.stderr.write(f"agenteval: plug-in {point.name} ({group}) of {source} is imported\n")
        try:
            plugins[point.name] = _Plugin(called(point.load), source)
        except PluginError as error:
            leave_out(group, point.name, f"{source}: {error}")
    return plugins


def _points(group: str) -> Iterator[tuple[Any, str]]:
    """Yield the entry points of what is installed, each with its distribution as `name/version`.

    The first distribution of a name counts, as in Python itself, but for those of a project.
    """
    from importlib.metadata import distributions  # noqa: PLC0415 -- start-up: it takes 20 ms

    folders = [folder for folder in sys.path if not _is_of_project(folder)]
    names = set()
    for dist in distributions(path=folders):
        name = dist.name.lower().replace("_", "-")
        if name in names:
            continue
        names.add(name)
        for point in dist.entry_points:
            if point.group == group:
                yield point, f"{dist.name}/{dist.version}"


@cache
def _groups() -> frozenset[str]:
    """Return the groups of ours to which anything that is installed adds.

    Every command calls it, so it has to be quick: importing what knows all about entry points takes
    ten times as long as looking through their files for our name.
    """
    installed: set[tuple[str, str, str]] = set()
    of_projects: dict[str, list[tuple[str, str, str]]] = {}
    for folder in sys.path:
        added = of_folder(folder)
        if added and _is_of_project(folder):
            of_projects[folder] = added
        else:
            installed.update(added)
    for folder, added in sorted(of_projects.items()):
        where = os.path.realpath(folder)
        for group, name, value in added:
            # What is installed to be edited is both.
            if (group, name, value) not in installed:
                leave_out(group, name, f"{value} of {where}: a project's; install it to trust it")
    return frozenset(group for group, _, _ in installed)


def of_folder(folder: str) -> list[tuple[str, str, str]]:
    """Return group, name and value of each plug-in of ours whose distribution lies in a folder."""
    texts = [text for text in _entry_points(folder) if _OURS in text]
    entries = []
    group = ""
    for line in b"\n".join(texts).decode(errors="replace").splitlines():
        if line.startswith("["):
            group = line.strip().strip("[]")
        elif group.startswith("agenteval.") and line.strip():
            name, _, value = line.partition("=")
            entries.append((group, name.strip(), value.strip()))
    return entries


def _is_of_project(folder: str) -> bool:
    """Return True if a folder of `sys.path` is the working folder, or in the project around it."""
    if not os.path.isabs(folder):  # noqa: PTH117 -- start-up
        return True
    place = os.path.realpath(folder)
    here = os.path.realpath(os.curdir)
    libraries = [*site.getsitepackages(), site.getusersitepackages()]
    if place in map(os.path.realpath, libraries):  # of a virtual environment in the project
        return False
    root = _project_root(here)
    return place == here or (root != "/" and os.path.commonpath([place, root]) == root)


def _project_root(here: str) -> str:
    """Return the nearest folder upwards with an agenteval.toml or a repository, else `here`."""
    folder = here
    while folder != os.path.dirname(folder):  # noqa: PTH120 -- start-up
        if any(os.path.lexists(f"{folder}/{name}") for name in (".git", "agenteval.toml")):
            return folder
        folder = os.path.dirname(folder)  # noqa: PTH120 -- as above
    return here


def _entry_points(folder: str) -> Iterator[bytes]:
    folder = folder or "."
    try:
        names = os.listdir(folder)  # noqa: PTH208 -- start-up
    except OSError:
        return
    for name in names:
        if name.endswith(_METADATA):
            with suppress(OSError):
                yield _content(f"{folder}/{name}/entry_points.txt")


def _content(path: str) -> bytes:
    """Return the beginning of a regular file; nothing of a pipe or a device, which has no end."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        is_file = stat.S_ISREG(os.fstat(file).st_mode)
        return os.read(file, _LARGEST) if is_file else b""
    finally:
        os.close(file)
