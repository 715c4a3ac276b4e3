"""Plug-ins: what other distributions add to this one by entry points, loaded when first asked for.

A group is named after what it adds to: `agenteval.criteria`, `agenteval.dialects`,
`agenteval.failure_classes`, `agenteval.formats`, `agenteval.sandboxes`.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple


class PluginError(ValueError):
    """What a plug-in raised at its work; it names the plug-in."""


_OURS = b"[agenteval."
_METADATA = (".dist-info", ".egg-info")


class _Plugin(NamedTuple):
    value: Any
    source: str  # the distribution that it is of, with its version


@cache
def load(group: str, fits: Callable[[Any], bool] = lambda _: True) -> Mapping[str, Any]:
    """The plug-ins of a group by name, in the order of the alphabet.

    One that can't be loaded, or does not fit, is named on standard error once, and left out.
    """
    return {name: each.value for name, each in _loaded(group).items() if _fits(group, name, fits)}


def sources(group: str, names: Iterator[str]) -> tuple[str, ...]:
    """The distributions that plug-ins are of, each as `name/version`, in the alphabet's order."""
    return tuple(sorted({_loaded(group)[name].source for name in names}))


def called(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a plug-in's function gives. Raises PluginError, whatever that raises."""
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:  # its exit code would be taken for a gate's verdict
        raise PluginError(f"{type(error).__name__}: {error}") from error


@cache
def leave_out(group: str, name: str, reason: str) -> None:
    """Say on standard error, once, that a plug-in takes no part."""
    said = " ".join(reason.split())
    sys.stderr.write(f"agenteval: plug-in {name} ({group}) is left out: {said}\n")


def _fits(group: str, name: str, fits: Callable[[Any], bool]) -> bool:
    value = _loaded(group)[name].value
    if not fits(value):
        leave_out(group, name, f"the group takes no {type(value).__name__}")
        return False
    return True


@cache
def _loaded(group: str) -> Mapping[str, _Plugin]:
    if group not in _groups():
        return {}
    from importlib.metadata import entry_points  # noqa: PLC0415 -- start-up: it takes 20 ms

    found: dict[str, _Plugin] = {}
    for point in sorted(entry_points(group=group), key=lambda each: each.name):
        source = f"{point.dist.name}/{point.dist.version}" if point.dist else "?"
        if point.name in found:
            first = found[point.name].source
            leave_out(group, point.name, f"{source}: {first} has one of that name too")
            continue
        try:
            found[point.name] = _Plugin(called(point.load), source)
        except PluginError as error:
            leave_out(group, point.name, f"{source}: {error}")
    return found


@cache
def _groups() -> frozenset[str]:
    """The groups of ours to which anything that is installed adds.

    Every command asks, so it has to be quick: importing what knows all about entry points takes
    ten times as long as looking through their files for our name.
    """
    return frozenset(
        line.strip().strip(b"[]").decode(errors="replace")
        for folder in dict.fromkeys(sys.path)
        for text in _entry_points(folder)
        if _OURS in text
        for line in text.splitlines()
        if line.startswith(_OURS)
    )


def _entry_points(folder: str) -> Iterator[bytes]:
    try:
        names = os.listdir(folder or ".")  # noqa: PTH208 -- start-up
    except OSError:
        return
    for name in names:
        if name.endswith(_METADATA):
            try:
                with open(f"{folder}/{name}/entry_points.txt", "rb", 0) as file:  # noqa: PTH123 -- start-up
                    yield file.read()
            except OSError:
                continue
