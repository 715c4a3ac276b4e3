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


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT {} FROM n"


@pytest.mark.parametrize(
    ("limit", "most", "view"),
    [
        ("STEPS", 100_000, ENDLESS.format("x")),
        ("SECONDS", 0.2, ENDLESS.format("hex(zeroblob(500000)) LIKE '%1%2%'")),
        ("LIMITS", {sqlite3.SQLITE_LIMIT_LENGTH: 10}, "SELECT zeroblob(11) UNION SELECT 1"),
    ],
)
def test_a_view_that_takes_more_than_a_question_may_cost_is_stopped(
    tmp_path, monkeypatch, limit, most, view
) -> None:
    monkeypatch.setattr(f"agenteval.engine.world.{limit}", most)
    files = database(tmp_path, f"CREATE VIEW t AS {view};")
    assert holding(files, [COUNT]) == (False,)


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
