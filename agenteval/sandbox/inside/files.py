"""Files of the workspace, put and read from within, so that no link or FIFO leads to the host."""

import errno
import os
import stat
import time

SETTLED = 0.05  # seconds; several ticks of the clock that stamps files
OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


def read(path: str, limit: int) -> bytes:
    """A regular file's bytes. Raises OSError for anything else, and for more than `limit` bytes."""
    fd = os.open(path, os.O_RDONLY | OPEN)
    with os.fdopen(fd, "rb") as file:
        _must_be_regular(fd, path)
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    return content


def stamp(paths: list[str]) -> str:
    """Changes when one of the files does; empty while one is so new that its times may not."""
    told = []
    for path in paths:
        try:
            found = os.lstat(path)
        except (OSError, ValueError) as error:
            told.append(type(error).__name__)
            continue
        if time.clock_gettime(time.CLOCK_REALTIME) - found.st_ctime < SETTLED:
            return ""
        told.append(f"{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}")
    return ",".join(told)


def write(root: str, path: str, content: bytes) -> None:
    """Write below `root`, making folders and following no link. A `#!` makes it executable."""
    *folders, name = _steps(path)
    mode = 0o755 if content.startswith(b"#!") else 0o644
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for step in folders:
            deeper = _enter(folder, step)
            os.close(folder)
            folder = deeper
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | OPEN, mode, dir_fd=folder)
        with os.fdopen(fd, "wb") as file:
            _must_be_regular(fd, path)
            file.truncate(0)
            file.write(content)
    finally:
        os.close(folder)


def _steps(path: str) -> list[str]:
    steps = [step for step in path.split("/") if step not in {"", "."}]
    if path.startswith("/") or not steps or ".." in steps:
        raise OSError(errno.EINVAL, "not a path below the workspace", path)
    return steps


def _enter(folder: int, step: str) -> int:
    try:
        os.mkdir(step, 0o755, dir_fd=folder)
    except FileExistsError:
        pass
    return os.open(step, os.O_RDONLY | os.O_DIRECTORY | OPEN, dir_fd=folder)


def _must_be_regular(fd: int, path: str) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
