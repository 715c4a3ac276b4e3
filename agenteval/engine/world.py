"""Questions to a trial's world: its SQLite database, read out of the sandbox."""

import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from agenteval.core.scenario import Check
from agenteval.protocols import Sandbox

STEPS = 50_000_000  # of SQLite's machine: a second or so; a world may hold a view that never ends


async def snapshot(sandbox: Sandbox, database: str) -> dict[str, bytes]:
    """The database's files as they are now; empty when the model destroyed them."""
    files = {}
    for suffix in ("", "-wal"):
        try:
            files[f"world.db{suffix}"] = await sandbox.read(database + suffix)
        except OSError:  # gone, or no regular file any more
            continue
    return files


def holding(files: dict[str, bytes], checks: Sequence[Check]) -> tuple[bool, ...]:
    """Which checks hold. A world that cannot answer does not hold: the model broke it."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        with closing(sqlite3.connect(Path(folder) / "world.db")) as connection:
            connection.set_progress_handler(lambda: 1, STEPS)
            return tuple(_holds(connection, check) for check in checks)


def _holds(connection: sqlite3.Connection, check: Check) -> bool:
    try:
        row = connection.execute(check.query).fetchone()
    except sqlite3.Error:
        return False
    return row is not None and row[0] == check.expect
