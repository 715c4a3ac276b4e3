"""Questions to a trial's world: its SQLite database, read out of the sandbox, and its files."""

import json
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from agenteval.core.draw import Value
from agenteval.core.prompt.variant import Variables
from agenteval.core.scenario import Check, CodeTest
from agenteval.core.trial import Execution
from agenteval.protocols import Sandbox

DATABASE = "world.db"
SUFFIXES = ("", "-wal")
LOG = f"{DATABASE}-wal"
Row = Mapping[str, Value]
FEW = 100  # rows; a world that asks for more agents than that is refused them anyway
# What a question may cost: a world may hold a view that never ends, or one of huge values.
STEPS, INTERVAL = 50_000_000, 1_000  # of SQLite's machine: a second or so; between two looks
SECONDS = 5.0  # where its steps are slow ones
LIMITS = {sqlite3.SQLITE_LIMIT_LENGTH: 1 << 20, sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000}


@dataclass(slots=True)
class Database:
    """The world's database as it is now: read again only when its files were changed."""

    sandbox: Sandbox
    path: str
    files: dict[str, bytes] | None = None
    stamp: str = ""

    async def now(self) -> Mapping[str, bytes]:
        """The same value as before while nothing was changed."""
        stamp = await self.sandbox.stamp([self.path + suffix for suffix in SUFFIXES])
        if self.files is None or not stamp or stamp != self.stamp:
            self.files, self.stamp = await snapshot(self.sandbox, self.path), stamp
        return self.files


async def snapshot(sandbox: Sandbox, database: str) -> dict[str, bytes]:
    """The database's files as they are now; empty when the model destroyed them."""
    files = {}
    for suffix in SUFFIXES:
        try:
            files[DATABASE + suffix] = await sandbox.read(database + suffix)
        except OSError:  # gone, or no regular file any more
            continue
    return files


def holding(files: Mapping[str, bytes], checks: Sequence[Check]) -> tuple[bool, ...]:
    """Which checks hold. A world that cannot answer does not hold: the model broke it."""
    with _connected(files) as connection:
        return tuple(_holds(connection, check) for check in checks)


@contextmanager
def _connected(files: Mapping[str, bytes]) -> Iterator[sqlite3.Connection]:
    logged = tempfile.TemporaryDirectory() if LOG in files else nullcontext()
    with logged as folder, closing(_opened(files, folder)) as connection:
        for limit, most in LIMITS.items():
            connection.setlimit(limit, most)
        connection.set_progress_handler(_patience(), INTERVAL)
        yield connection


def _patience() -> Callable[[], bool]:
    """Whether SQLite has had its steps, or its time; it asks after so many steps."""
    looks, end = iter(range(STEPS // INTERVAL)), time.monotonic() + SECONDS
    return lambda: next(looks, None) is None or time.monotonic() > end


def _opened(files: Mapping[str, bytes], folder: str | None) -> sqlite3.Connection:
    """The database in memory; as files in `folder` when a write-ahead log belongs to it."""
    if folder is None:
        connection = sqlite3.connect(":memory:")
        image = bytearray(files.get(DATABASE, b""))
        # Bytes 18 and 19 of the header say that there may be a log; without one, there is none.
        image[18:20] = b"\x01\x01"
        connection.deserialize(bytes(image))
        return connection
    for name, content in files.items():
        (Path(folder) / name).write_bytes(content)
    return sqlite3.connect(Path(folder) / DATABASE)


def _holds(connection: sqlite3.Connection, check: Check) -> bool:
    try:
        row = connection.execute(check.query).fetchone()
    except sqlite3.Error:
        return False
    return row is not None and row[0] == check.expect


def rows(files: Mapping[str, bytes], query: str) -> list[Row]:
    """What a query finds now, column by name; nothing in a world that cannot answer."""
    with _connected(files) as connection:
        try:
            asked = connection.execute(query)
            names = [name for name, *_ in asked.description or ()]
            return [dict(zip(names, map(_value, row), strict=True)) for row in asked.fetchmany(FEW)]
        except sqlite3.Error:
            return []


def _value(found: object) -> Value:
    """As a template and JSON take it; a NULL is an empty text."""
    return found if isinstance(found, str | int | float) else str(found or "")


async def passes(sandbox: Sandbox, test: CodeTest, variables: Variables) -> bool:
    """Whether the test's program ends with 0."""
    return (await run_program(sandbox, test, variables)).exit_code == 0


async def run_program(sandbox: Sandbox, program: CodeTest, variables: Variables) -> Execution:
    """Run it in the workspace, under the limits of a call.

    Its source is an argument and no file: the model can neither read nor change it.
    """
    return await sandbox.run(("python3", "-I", "-c", program.source, json.dumps(variables)))
