"""What the permission rules of other harnesses take a path to be."""

import posixpath
from collections.abc import Mapping
from typing import Any

_KEYS = ("filePath", "file_path", "notebook_path", "path")


def named_paths(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Every path that a call names, under whichever key: rules have to fit all of them."""
    found = (arguments.get(key) for key in _KEYS)
    return tuple({path: None for path in found if isinstance(path, str)})


def absolute(path: str, root: str) -> str:
    """Unlike `normpath` alone with one slash in front: two would hide /etc from a rule for it."""
    return "/" + posixpath.normpath(posixpath.join(root, path)).lstrip("/")


def inside(whole: str, root: str) -> str | None:
    """An absolute path as seen from the project; None for one outside."""
    if whole == root:
        return "."
    prefix = root.rstrip("/") + "/"
    return whole.removeprefix(prefix) if whole.startswith(prefix) else None
