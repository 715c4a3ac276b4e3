"""A copy of an SQLite store next to it, made before an upgrade alters the store."""

import os
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from agenteval.errors import HostError, is_of_the_host
from agenteval.store.location import connected, size_of

PARTIAL = ".partial"  # behind the name of a copy that is not whole yet
PAGES = 20_000  # copied at a time: between two of these, Ctrl-C is heard


def back_up(file: str, version: int, store: str) -> Path:
    """Copy the store to FILE.schemaN; the name of the copy, which is whole and on disk.

    The caller keeps others from writing meanwhile. Raises HostError where the copy cannot be
    written; nothing is left of it then.
    """
    name = _free_name(Path(f"{file}.schema{version}"))
    partial = name.with_name(name.name + PARTIAL)
    partial.unlink(missing_ok=True)  # a killed upgrade left it
    try:
        _check_free_space(Path(file), name.parent)
        _copy(file, partial)
        _check_whole(file, partial)
        shutil.copymode(file, partial)
        partial.rename(name)
        _sync(name.parent)
    except (sqlite3.Error, OSError) as error:
        partial.unlink(missing_ok=True)
        raise _not_copied(store, name, error) from error
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return name


def _free_name(path: Path) -> Path:
    """Never that of a copy that is there: it may be the only one of what it holds."""
    name, number = path, 1
    while name.exists() or name.is_symlink():
        number += 1
        name = path.with_name(f"{path.name}-{number}")
    return name


def _check_free_space(file: Path, folder: Path) -> None:
    """Raises OSError before a large store has filled the disk with half a copy."""
    log = Path(f"{file}-wal")
    size = size_of(file) + size_of(log)
    free = shutil.disk_usage(folder).free
    if free < size:
        raise OSError(f"{size / 1e6:.1f} MB are needed and {free / 1e6:.1f} MB are free")


def _copy(file: str, partial: Path) -> None:
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with closing(connected(file)) as source, closing(sqlite3.connect(partial)) as target:
        for setting in ("journal_mode=OFF", "synchronous=OFF"):  # it is synced as a whole
            target.execute(f"PRAGMA {setting}")
        source.backup(target, pages=PAGES)
    _sync(partial)


def _check_whole(file: str, copy: Path) -> None:
    """Raises OSError where the copy has another number of rows in any table."""
    with closing(connected(file)) as source, closing(connected(str(copy))) as target:
        if _rows(source) != _rows(target):
            raise OSError("the copy has other rows than the store")


def _rows(connection: sqlite3.Connection) -> Mapping[str, int]:
    asked = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    names = [name for (name,) in connection.execute(asked).fetchall()]
    return {
        name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]  # noqa: S608 -- the store's own
        for name in names
    }


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _not_copied(store: str, name: Path, error: Exception) -> HostError:
    said = getattr(error, "strerror", None) or str(error)
    cure = "make room there" if _is_full(error) else "let the folder be written"
    return HostError(
        f"--store {store}: not upgraded, as the copy {name} cannot be made ({said}); {cure}, and "
        "ask again. The store is as it was, and can be read"
    )


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError) and error.errno is not None:
        return is_of_the_host(error)
    return "full" in str(error) or "free" in str(error)
