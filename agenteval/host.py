"""This process on its machine: its limits in words, files within bounds, folders of its own.

First the limits (`ulimit`): which one is too small, which one struck. Then text files that a person
writes: read no further than a bound, and written whole or not at all. Last, temporary folders that
are removed, and folders that are locked for a change.
"""

import errno
import fcntl
import os
import resource
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from agenteval.errors import UsageError


@dataclass(frozen=True, slots=True)
class _Limit:
    """`unit` is how many of what the kernel counts the shell's `option` counts as one."""

    what: str
    option: str
    unit: int
    of_systemd: str

    def in_words(self, value: int) -> str:
        return f"{value // self.unit:,} {self.what}"


_LIMITS: Final = {
    "RLIMIT_NOFILE": _Limit("file descriptors", "-n", 1, "LimitNOFILE"),
    "RLIMIT_AS": _Limit("kB of address space", "-v", 1024, "LimitAS"),
    "RLIMIT_DATA": _Limit("kB of data", "-d", 1024, "LimitDATA"),
    "RLIMIT_FSIZE": _Limit("kB in a file", "-f", 1024, "LimitFSIZE"),
    "RLIMIT_NPROC": _Limit("processes of this user", "-u", 1, "LimitNPROC"),
}
_LIMIT_OF_ERROR: Final = {
    errno.EMFILE: "RLIMIT_NOFILE",
    errno.ENFILE: "RLIMIT_NOFILE",
    errno.ENOMEM: "RLIMIT_AS",
    errno.EAGAIN: "RLIMIT_NPROC",
}
# Messages of a library's loader that finds no memory for it.
_UNMAPPED: Final = ("failed to map segment", "map zero-fill pages", "cannot allocate memory")


def too_small(needed_values: Mapping[str, int]) -> str:
    """Return a line about the first limit below what is needed, with its fix; "" without one."""
    for name, needed in needed_values.items():
        allowed = _hard(name)
        if name in _LIMITS and allowed is not None and allowed < needed:
            limit = _LIMITS[name]
            return (
                f"this process may have {limit.in_words(allowed)} (ulimit {limit.option}), and a "
                f"world needs {limit.in_words(needed)}: {_cure(limit)}"
            )
    return ""


def struck(error: BaseException) -> str:
    """Return a line about the limit that caused this error, with its fix; "" without one."""
    if (name := _name(error)) is None:
        return ""
    limit = _LIMITS[name]
    allowed = _soft(name)
    if allowed is None:  # the machine itself has no more of it
        return f"this machine has no more {limit.what.removeprefix('kB of ')}: end what uses it"
    return (
        f"{limit.in_words(allowed)} are too few (ulimit {limit.option}); what was stored before is "
        f"intact: {_cure(limit)}"
    )


def _name(error: BaseException) -> str | None:
    message = str(error).lower()
    if isinstance(error, MemoryError) or any(phrase in message for phrase in _UNMAPPED):
        return "RLIMIT_AS"
    if "can't start new thread" in message:
        # threads count as processes; their stacks need address space
        return "RLIMIT_NPROC" if _soft("RLIMIT_AS") is None else "RLIMIT_AS"
    return _LIMIT_OF_ERROR.get(error.errno or 0) if isinstance(error, OSError) else None


def _cure(limit: _Limit) -> str:
    return f"raise it (`ulimit {limit.option}` of the shell, {limit.of_systemd}= of a systemd unit)"


def _hard(name: str) -> int | None:
    return _limit(name, 1)


def _soft(name: str) -> int | None:
    return _limit(name, 0)


def _limit(name: str, which: int) -> int | None:
    value = resource.getrlimit(getattr(resource, name))[which]
    return None if value == resource.RLIM_INFINITY else value


# Files that a person writes.

# Bytes of a text: TOML, rules, instructions. The largest allow list that was ever derived has a
# tenth of it.
TEXT: Final = 4 << 20
# A pipe is not waited for, and no terminal becomes ours.
READ_ONLY: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_KINDS: Final = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def read_text(path: Path, *, encoding: str = "utf-8") -> str:
    """Return the text of a file. Raises as `read_bytes` does, and UnicodeDecodeError."""
    return read_bytes(path).decode(encoding).replace("\r\n", "\n")


def read_bytes(path: Path, *, largest: int = TEXT) -> bytes:
    """Return the bytes of a regular file that the user named himself: links are followed.

    Raises UsageError for what is no such file and for a larger one, and OSError, as for a file
    that is not there.
    """
    # Before it is opened, as some devices act when they are; `read_opened` looks at it again.
    demand_regular(path.stat(), path)
    descriptor = os.open(path, READ_ONLY)
    try:
        return read_opened(descriptor, path, largest)
    finally:
        os.close(descriptor)


def read_opened(descriptor: int, path: Path, largest: int) -> bytes:
    """Return the bytes of an open file, which errors call `path`. Raises as `read_bytes` does."""
    status = os.fstat(descriptor)
    demand_regular(status, path)
    content = b""
    if status.st_size <= largest:
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            # One more, as a file of /proc is larger than its size, and one may grow.
            content = file.read(largest + 1)
    if max(status.st_size, len(content)) > largest:
        raise UsageError(
            f"{path}: is larger than {in_megabytes(largest)}, which is the most that is read of "
            "such a file: make it smaller"
        )
    return content


def demand_regular(status: os.stat_result, path: Path) -> None:
    """Raise UsageError for what is no regular file."""
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        shown = _KINDS.get(kind, "no regular file")
        raise UsageError(f"{path}: is {shown}, and only regular files are read: take it away")


def in_megabytes(size: int) -> str:
    return f"{size >> 20} MB"


def write_whole(path: Path, text: str) -> None:
    """Write the file, or leave none: half an allow list or gate.toml would be another one.

    Raises OSError with the file's name.
    """
    content = text.encode()
    file = path.open("wb")
    try:
        with file:
            file.write(content)
    except OSError as error:
        if path.is_file():  # and no device
            path.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error


# Folders.

PREFIX: Final = "agenteval-temporary-"


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder that is removed at the end; of a killed process, by the user's next process.

    Its owner holds a lock on it. A folder without one is of a process that was killed.
    """
    import tempfile  # noqa: PLC0415 -- start-up: this module is loaded first, and before a limit bites

    _sweep(tempfile.gettempdir())
    folder, descriptor = _locked_folder(tempfile.mkdtemp)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Be the only process that changes what lies in this folder; others wait. It is made."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _locked_folder(make: Callable[..., str]) -> tuple[Path, int]:
    """Return a new folder and the descriptor that locks it; another if it was just swept away."""
    while True:
        folder = Path(make(prefix=PREFIX))
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if folder.exists():
            return folder, descriptor
        os.close(descriptor)


@cache
def _sweep(place: str) -> None:
    """Remove, once a process, what killed processes of this user have left there."""
    for folder in Path(place).glob(f"{PREFIX}*"):
        with suppress(OSError):  # another's, or another is at it
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_uid == os.geteuid():
                    shutil.rmtree(folder)
            finally:
                os.close(descriptor)
