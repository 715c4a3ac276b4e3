import sqlite3
from pathlib import Path

import pytest

from agenteval.core.scenario import Check
from agenteval.engine.world import holding, snapshot

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


async def test_a_snapshot_takes_what_is_there() -> None:
    assert await snapshot(Emptied(), "w.db") == {"world.db": b"db"}
