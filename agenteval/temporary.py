"""Folders of one process: temporary ones, and those that are locked for a change."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

PREFIX: Final = "agenteval-temporary-"


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder that is removed at the end; of a killed process, by the user's next process.

    Its owner holds a lock on it. A folder without one is of a process that was killed.
    """
    _sweep(tempfile.gettempdir())
    folder, descriptor = _locked_folder()
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


def _locked_folder() -> tuple[Path, int]:
    """Return a new folder and the descriptor that locks it; another if it was just swept away."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
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
