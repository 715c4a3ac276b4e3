import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from agenteval.core.scenario import Check
from agenteval.engine.world import Database, holding, snapshot

COUNT = Check("two rows", "SELECT count(*) FROM t", 2)


def database(tmp_path: Path, script: str) -> dict[str, bytes]:
    path = tmp_path / "world.db"
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.commit()
    files = {"world.db": path.read_bytes()}
    if Path(f"{path}-wal").exists():
        files["world.db-wal"] = Path(f"{path}-wal").read_bytes()
    connection.close()
    return files


def test_checks_are_judged_one_by_one(tmp_path) -> None:
    files = database(tmp_path, "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2);")
    checks = (COUNT, Check("a text", "SELECT 'a'", "b"), Check("no row", "SELECT 1 WHERE 0", 1))
    assert holding(files, checks) == (True, False, False)


def test_what_only_stands_in_the_write_ahead_log_counts(tmp_path) -> None:
    files = database(
        tmp_path, "PRAGMA journal_mode=WAL; CREATE TABLE t(x); INSERT INTO t VALUES (1), (2);"
    )
    assert ("world.db-wal" in files, holding(files, [COUNT])) == (True, (True,))


@pytest.mark.parametrize("files", [{}, {"world.db": b"no database at all" * 100}])
def test_a_world_that_the_model_destroyed_does_not_hold(files) -> None:
    assert holding(files, [COUNT]) == (False,)


def test_a_view_that_never_ends_is_stopped(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("agenteval.engine.world.STEPS", 100_000)
    endless = (
        "CREATE VIEW t AS WITH RECURSIVE n(x) AS "
        "(SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n;"
    )
    assert holding(database(tmp_path, endless), [COUNT]) == (False,)


class Emptied:
    async def read(self, path: str) -> bytes:
        if path.endswith("-wal"):
            raise FileNotFoundError(path)
        return b"db"


@dataclass
class Stamped(Emptied):
    stamps: Iterator[str]
    reads: int = 0

    async def read(self, path: str) -> bytes:
        if path.endswith("-wal"):
            raise FileNotFoundError(path)
        self.reads += 1
        return b"%d" % self.reads

    async def stamp(self, paths: Sequence[str]) -> str:
        assert paths == ["w.db", "w.db-wal"]
        return next(self.stamps)


async def test_a_snapshot_takes_what_is_there() -> None:
    assert await snapshot(Emptied(), "w.db") == {"world.db": b"db"}


@pytest.mark.parametrize(
    ("stamps", "reads"),
    [
        (["a", "a", "a"], 1),
        (["a", "b", "b"], 2),
        (["", "", ""], 3),  # it cannot be told
        (["", "a", "a"], 2),
    ],
)
async def test_a_database_is_read_again_only_when_it_may_have_changed(stamps, reads) -> None:
    world = Stamped(iter(stamps))
    database = Database(world, "w.db")
    seen = [await database.now() for _ in stamps]
    assert (world.reads, seen[-1]) == (reads, {"world.db": b"%d" % reads})
