"""Files of a project, read beneath its folder: no link is followed, and sizes are bounded.

What a user names himself may be a link; what lies in the folder that he named may not: it would
show the model, and the model's server, any file that he can read.
"""

import errno
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from agenteval.errors import UsageError
from agenteval.host import (
    READ_ONLY,
    TEXT,
    demand_regular,
    in_megabytes,
    read_opened,
)

# Bytes of a file of a fixture, and of all of them.
LARGEST: Final = 64 << 20
FILES: Final = 10_000  # of a fixture
# Folders, one in the other.
DEPTH: Final = 32
_FOLDER: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW
LINK: Final = (
    "is a link, or lies behind one, and what lies in a project is read without following links: "
    "put the file itself there"
)


def read(path: Path, base: Path) -> bytes:
    """Return the bytes of a regular file beneath `base`; `host.read_bytes` reads what a user names.

    Raises UsageError for a link, for what is no regular file and for what is too large; and
    OSError, as for a file that is not there.
    """
    status = path.stat(follow_symlinks=False)
    # A link is refused when it is opened, with a cure of its own.
    if not stat.S_ISLNK(status.st_mode):
        demand_regular(status, path)
    descriptor = _open_beneath(path, base)
    try:
        return read_opened(descriptor, path, TEXT)
    finally:
        os.close(descriptor)


def _open_beneath(path: Path, base: Path) -> int:
    # Both as they are written.
    relative = os.path.relpath(path, base)
    if relative.startswith(os.pardir):
        raise UsageError(f"{path}: leads out of {base}: name a file within it")
    folder = os.open(base, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        return _by_kernel(folder, relative)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UsageError(f"{path}: {LINK}") from error
        error.filename = str(path)
        raise
    finally:
        os.close(folder)


def _by_kernel(folder: int, relative: str) -> int:
    """By openat2 where the kernel has it (Linux 5.6), else step by step."""
    if sys.platform == "linux":
        from agenteval.sandbox.inside import kernel  # noqa: PLC0415 -- ctypes, where it serves

        try:
            return kernel.open_beneath(folder, relative, READ_ONLY)
        # A container's filter may answer for a kernel that has it.
        except OSError as error:
            if error.errno not in {errno.ENOSYS, errno.EPERM, errno.EINVAL}:
                raise OSError(error.errno, os.strerror(error.errno or 0)) from None
    return _by_steps(folder, relative)


def _by_steps(folder: int, relative: str) -> int:
    """Open a file as openat2 does, by hand. Raises OSError; ELOOP for a link at any level."""
    *above, name = Path(relative).parts
    current = os.dup(folder)
    try:
        for step in above:
            below = _no_link(step, current, _FOLDER)
            os.close(current)
            current = below
        return _no_link(name, current, READ_ONLY | os.O_NOFOLLOW)
    finally:
        os.close(current)


def _no_link(name: str, folder: int, flags: int) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
        raise


def tree(folder: Path, base: Path) -> Mapping[str, bytes]:
    """Relative path to content of every file below `folder`, which lies beneath `base`.

    Raises UsageError: which file, what is wrong with it, and the cure.
    """
    top = _open_beneath(folder, base)
    try:
        reading = _Tree(folder, {})
        reading.take(top, "", 1)
    finally:
        os.close(top)
    return reading.files


class _Tree:
    """Files under way to being read, and how many bytes they may still have."""

    def __init__(self, folder: Path, files: dict[str, bytes]) -> None:
        self.folder, self.files, self.left = folder, files, LARGEST

    def take(self, place: int, prefix: str, depth: int) -> None:
        """Read what lies in the open folder `place`, which is called `within` below the top."""
        if depth > DEPTH:
            raise UsageError(
                f"{self.folder / prefix}: lies more than {DEPTH} folders deep: take it up"
            )
        with os.scandir(place) as entries:
            names = sorted(entry.name for entry in entries)
        for name in names:
            if name != "__pycache__":
                self._take_one(place, name, f"{prefix}{name}", depth)

    def _take_one(
        self,
        place: int,
        name: str,
        path: str,
        depth: int,
    ) -> None:
        whole = self.folder / path
        if not path.isprintable():
            raise UsageError(
                f"{self.folder}: the name {path!r} has a character that is not printed: rename it"
            )
        if len(self.files) >= FILES:
            raise UsageError(f"{self.folder}: more than {FILES} files: leave some out")
        status = os.stat(name, dir_fd=place, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise UsageError(f"{whole}: {LINK}")
        is_folder = stat.S_ISDIR(status.st_mode)
        if not is_folder:
            demand_regular(status, whole)
        file = os.open(name, _FOLDER if is_folder else READ_ONLY | os.O_NOFOLLOW, dir_fd=place)
        try:
            if is_folder:
                self.take(file, f"{path}/", depth + 1)
            else:
                self.files[path] = read_opened(file, whole, LARGEST)
                self._count(len(self.files[path]))
        finally:
            os.close(file)

    def _count(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise UsageError(
                f"{self.folder}: its files have more than {in_megabytes(LARGEST)} in all"
            )


def printable(name: str, path: Path) -> str:
    """The name of something of a project. Raises UsageError where it could not be shown as one."""
    if not name.isprintable():
        raise UsageError(f"{str(path)!r}: has a character that is not printed: rename it")
    return name


def named(start: Path, suffix: str) -> Iterator[Path]:
    """Files below `start` whose names end so, in order; no folder behind a link is entered."""
    for entry in entries(start):
        if entry.name.endswith(suffix) and not entry.is_dir(follow_symlinks=False):
            yield start / entry.path


def entries(start: Path) -> Iterator[os.DirEntry[str]]:
    """Every entry below `start`, in order: of no folder behind a link, and of no deeper one."""
    folders = [(str(start), 1)]
    while folders:
        folder, depth = folders.pop()
        try:
            with os.scandir(folder) as unordered:
                listed = sorted(unordered, key=lambda entry: entry.name)
        except OSError:
            continue
        yield from listed
        if depth < DEPTH:
            inner = [entry.path for entry in listed if entry.is_dir(follow_symlinks=False)]
            folders += [(path, depth + 1) for path in inner]
