"""What the permission rules of other harnesses take a path to be."""

import posixpath


def absolute(path: str, root: str) -> str:
    """Unlike `normpath` alone with one slash in front: two would hide /etc from a rule for it."""
    return "/" + posixpath.normpath(posixpath.join(root, path)).lstrip("/")


def inside(whole: str, root: str) -> str | None:
    """An absolute path as seen from the project; None for one outside."""
    if whole == root:
        return "."
    prefix = root.rstrip("/") + "/"
    return whole.removeprefix(prefix) if whole.startswith(prefix) else None


def expanded(path: str, home: str) -> str:
    """A path with the home folder in place of a `~` that begins it; other people's stay."""
    return home + path[1:] if path == "~" or path.startswith("~/") else path
