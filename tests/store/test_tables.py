"""`tables.sql` is read whole, and SQLAlchemy's tables are those that it makes."""

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from agenteval.store.location import SCHEMA, Connection, FileConnection
from agenteval.store.migration import METADATA
from agenteval.store.orm import UrlConnection
from agenteval.store.sql import SqlStore
from agenteval.store.tables import TableWriter, blank_row


def test_nothing_is_counted_of_a_trial_that_has_begun() -> None:
    counted = {name: value for name, value in blank_row("trial").items() if value}
    assert counted == {"stretched": 1.0}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "{}"),
        ([], "[]"),
        ((), "[]"),
        (None, "null"),
        ("", '""'),
        (0, "0"),
        (["é"], '["é"]'),
        ({"a": "x"}, '{"a":"x"}'),
    ],
)
def test_what_is_empty_is_json_too(value: object, text: str) -> None:
    assert TableWriter("run", "?", ["card"]).bind({"card": value}) == (text,)


def shape(path: Path) -> dict[str, list[tuple]]:
    """The columns of each table, and the indexes with theirs."""
    with closing(sqlite3.connect(path)) as there:
        names = "SELECT name, type FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name"
        return {
            name: [kind, *there.execute(f"PRAGMA {kind}_info('{name}')")]
            for name, kind in there.execute(names).fetchall()
        }


def test_a_new_file_has_the_tables_that_sqlalchemy_makes(tmp_path: Path) -> None:
    with closing(FileConnection(str(tmp_path / "plain.db"), "")) as made:
        assert made.is_current()
    engine = create_engine(f"sqlite:///{tmp_path / 'orm.db'}")
    METADATA.create_all(engine)
    engine.dispose()
    assert shape(tmp_path / "plain.db") == shape(tmp_path / "orm.db")


def test_the_switch_to_wal_mode_waits_for_another_process_that_writes(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    writer = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    with closing(writer):
        writer.execute("CREATE TABLE mine (x)")
        writer.execute("BEGIN IMMEDIATE")
        threading.Timer(0.3, writer.execute, ["COMMIT"]).start()
        with closing(FileConnection(str(path), "")) as opened:
            opened.log_ahead()
            assert opened.ask("PRAGMA journal_mode") == [("wal",)]


def test_a_file_that_has_tables_and_no_number_is_not_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with closing(sqlite3.connect(path)) as there:
        there.execute("CREATE TABLE mine (x)")
    with closing(FileConnection(str(path), "")) as opened:
        assert (opened.is_current(), [*shape(path)]) == (False, ["mine"])


HEAVY = """
import sys
from agenteval.store.sql import SqlStore
store = SqlStore(sys.argv[1])
assert store.played("r") == frozenset()
store.close()
print(sorted(name for name in ("sqlalchemy", "sqlmodel", "pydantic") if name in sys.modules))
"""


def test_a_file_of_today_is_opened_without_an_orm(tmp_path: Path) -> None:
    for _ in ("new", "again"):
        words = [sys.executable, "-c", HEAVY, str(tmp_path / "runs.db")]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"


@pytest.fixture(params=["file", "url"])
def connection(request, tmp_path: Path):
    path = tmp_path / "runs.db"
    with closing(SqlStore(str(path))) as store:
        opened = FileConnection(str(path), "") if request.param == "file" else None
        with closing(opened or UrlConnection(store.engine)) as made:
            yield made


def _cut_short(connection: Connection, write: str) -> None:
    with connection.together():
        connection.ask(write, id="c")
        raise KeyboardInterrupt


def test_of_several_statements_together_all_are_done_or_none(connection) -> None:
    write = "INSERT INTO log_file (id, state) VALUES (:id, 'read')"
    with connection.together():
        connection.ask(write, id="a")
        connection.ask(write, id="b")
    with pytest.raises(KeyboardInterrupt):
        _cut_short(connection, write)
    assert [*map(tuple, connection.ask("SELECT id FROM log_file ORDER BY id"))] == [("a",), ("b",)]


def test_a_statement_is_put_as_the_driver_takes_it(connection) -> None:
    mark = connection.mark
    write = f"INSERT INTO log_file (id, state) VALUES ({mark}, {mark}) RETURNING state"
    assert [*map(tuple, connection.execute(write, ("a", "half")))] == [("half",)]
    assert connection.database == "sqlite"


def test_a_database_of_a_later_day_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with closing(sqlite3.connect(path)) as there:
        there.execute(f"PRAGMA user_version={SCHEMA + 1}")
    with closing(FileConnection(str(path), "")) as opened:
        assert (opened.is_current(), shape(path)) == (False, {})
