"""Runs that are copied into another store, and taken out of one."""

from dataclasses import replace

import pytest
from sqlalchemy import Integer, func, select, update
from test_sql_store import RUN, play, store

from agenteval.errors import UsageError
from agenteval.store.ingesting import Basis
from agenteval.store.sql import SqlStore
from agenteval.store.upkeep import copy, remove, tables
from agenteval.trial.run import Crash, Look

__all__ = ["store"]

FIRST = replace(RUN, id="r0", started="2025-01-01T00:00:00.000+00:00")


def fill(there: SqlStore) -> None:
    there.add(RUN)
    play(there)
    there.look("r1", Look(1, 5, 12, 0.001, "INCONCLUSIVE", "r0", "abc"))
    there.crash("r1", Crash(1.0, "gone"))
    there.tag("r1", ["best"], "of this week", off=False)
    judge = lambda _place, _call, record: (record.verdict, "abc")  # noqa: E731
    there.rescore("r1", judge, Basis("2", {"demo": "abc"}, {"s": "abc"}, "2026-01-02"))


def rows(there: SqlStore) -> dict[str, int]:
    with there.connect() as asked:
        return {
            table.name: asked.execute(select(func.count()).select_from(table)).scalar_one()
            for table in tables()
        }


@pytest.fixture
def other(tmp_path):
    opened = SqlStore(str(tmp_path / "other.db"))
    yield opened
    opened.close()


def test_a_copied_run_is_what_it_was_where_its_row_numbers_are_taken(store, other):
    fill(store)
    store.add(FIRST)
    copy(store.url, other, ["r1"])
    with other.connect() as written, written.begin():
        for table in tables():  # the first run under another name
            for column in (one for one in table.c if one.name in {"run_id", "id"}):
                if not isinstance(column.type, Integer):
                    written.execute(update(table).values({column.name: "r9"}))
    copy(store.url, other, ["r1"])
    whole = store.load("r1")
    assert (other.load("r1"), other.load("r9")) == (whole, replace(whole, id="r9"))
    assert rows(other) == {name: 2 * count for name, count in rows(store).items()} | {"run": 2}


def test_what_is_there_already_is_refused_and_nothing_is_copied(store, other):
    fill(store)
    store.add(FIRST)
    copy(store.url, other, ["r1"])
    before = rows(other)
    with pytest.raises(UsageError, match=r"r1: in .*other\.db already; nothing was copied"):
        copy(store.url, other, ["r0", "r1"])
    assert rows(other) == before


def test_a_removed_run_leaves_no_row_and_takes_none_of_another(store, other):
    fill(store)
    copy(store.url, other, ["r1"])
    other.add(FIRST)
    remove(other, ["r1"])
    assert {name: count for name, count in rows(other).items() if count} == {"run": 1}
    assert [run.id for run in other.runs()] == ["r0"]
