"""One process at a time plays a run: its claim dies with it, however it ends."""

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from sqlalchemy import Engine

from agenteval.errors import UsageError

CLAIMS = "-claims"  # behind the name of an SQLite file, as SQLite has its -wal and -shm
# Both kinds of lock have a number for a name; one of 62 bits fits into a file's offset.
_BITS = 62


@contextmanager
def claimed(engine: Engine, run_id: str) -> Iterator[None]:
    """Hold the run. Raises UsageError while another process does."""
    number = int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:8]) >> (64 - _BITS)
    with _held(engine, number) as held:
        if not held:
            raise UsageError(
                f"run {run_id} is being played by another process; wait until that has ended"
            )
        yield


def _held(engine: Engine, number: int) -> AbstractContextManager[bool]:
    file = engine.url.database
    if engine.dialect.name == "postgresql":
        return _in_database(engine, number)
    if engine.dialect.name == "sqlite" and file and file != ":memory:":
        return _in_file(Path(f"{file}{CLAIMS}"), number)
    return nullcontext(enter_result=True)


@contextmanager
def _in_file(path: Path, number: int) -> Iterator[bool]:
    """A lock on one byte, which the system takes back when the process is gone."""
    with path.open("ab") as claims:
        try:
            fcntl.lockf(claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except (BlockingIOError, PermissionError):  # as the system says that another one has it
            yield False
        else:
            yield True


@contextmanager
def _in_database(engine: Engine, number: int) -> Iterator[bool]:
    """A lock of the session, which the server takes back when the connection is gone."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        asked = connection.exec_driver_sql(f"SELECT pg_try_advisory_lock({number})")
        yield bool(asked.scalar_one())
        connection.exec_driver_sql("SELECT pg_advisory_unlock_all()")
