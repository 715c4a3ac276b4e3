"""A file of SQLite of an older schema, read as one of today without a change of a byte.

Temporary views stand before its tables: what a column of today lacks there is its default, and
what has to be counted is counted from the calls of the one row that is asked for. So a store of
gigabytes is neither copied nor held in memory.
"""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import cache, lru_cache
from typing import Any

from agenteval.core.recovery import COUNTING
from agenteval.core.run import judged_by
from agenteval.core.summary import summarize
from agenteval.store import loading
from agenteval.store.connections import statements, version_of
from agenteval.store.location import SCHEMA
from agenteval.store.summaries import Query, summary_values

# What a trial's row was not counted for, or otherwise than today; see `store.migration`.
_COUNTED = (
    *("calls", "errors", "executed", "crashed", "prompt_tokens"),
    *("recovery", "agent_calls", "agent_errors"),
)
_NOT_COUNTED = f"""{{outcome}} <> '' AND NOT {{replaced}} AND {{counting}} <> {COUNTING}"""
# Before schema 19: nothing of a trial without sub-agents was counted differently by the third way.
_BUT_WITHOUT_AGENTS = " AND NOT ({counting} = 3 AND {agent_calls} = '{{}}')"
_TIMED_OUT = """CASE WHEN {outcome} = 'out-of-turns' AND {ending} = 'time' THEN 'timed-out'
    ELSE {outcome} END"""
_JUDGES = "CASE WHEN {judged} = '{{}}' AND {source} = '{{}}' THEN judges(id) ELSE {judged} END"
_COLUMNS = 'PRAGMA main.table_info("{}")'
_WHO_JUDGED = """SELECT DISTINCT trial.scenario, "call".agent, "call".policy FROM trial
    JOIN "call" ON "call".trial_id = trial.id WHERE trial.run_id = :run"""


def put_views(connection: sqlite3.Connection) -> None:
    """Give the names of tables another meaning, for this connection alone."""

    def query(sql: str, **named: Any) -> list[Any]:
        return connection.execute(sql, named).fetchall()

    # Columns of one row are asked for one after another: each trial is counted once.
    counts, judges = lru_cache(maxsize=64)(_counts), cache(_judges)
    connection.create_function("counted", 2, lambda trial, name: counts(query, trial)[name])
    connection.create_function("judges", 1, lambda run: judges(query, run))
    of_old = version_of(connection.execute) != SCHEMA
    for table, columns in _tables_of_today().items():
        there = {row[1] for row in query(_COLUMNS.format(table))}
        values = {name: f'"{name}"' if name in there else columns[name] for name in columns}
        listed = ", ".join(
            f'{value} AS "{name}"'
            for name, value in _with_derived(table, values, of_old=of_old).items()
        )
        source = f'FROM main."{table}"' if there else "WHERE 0"
        connection.execute(f'CREATE TEMP VIEW "{table}" AS SELECT {listed} {source}')


def _with_derived(table: str, values: Mapping[str, str], *, of_old: bool) -> dict[str, str]:
    """The value of each column as SQL, where `migration` would put another one in its place.

    `of_old` is False in a store of today of which only trials are counted otherwise.
    """
    if table == "run" and of_old:
        return {**values, "judged": _JUDGES.format(**values)}
    if table != "trial":
        return dict(values)
    condition = (_NOT_COUNTED + _BUT_WITHOUT_AGENTS * of_old).format(**values)
    counted = {
        name: f"CASE WHEN {condition} THEN counted(id, '{name}') ELSE {values[name]} END"
        for name in _COUNTED
    }
    return {**values, **counted, "outcome": _TIMED_OUT.format(**values), "counting": str(COUNTING)}


@cache
def _tables_of_today() -> Mapping[str, Mapping[str, str]]:
    """Each table's columns with their defaults, as SQL."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements():
            connection.execute(statement)
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {
            name: {row[1]: _default(*row[2:5]) for row in connection.execute(_COLUMNS.format(name))}
            for (name,) in names
        }


def _default(kind: str, _required: int, written: str | None) -> str:
    """Return a column's default as the column keeps it: SQLAlchemy writes numbers as texts."""
    value = written or "NULL"
    if kind == "FLOAT" and written:
        return f"CAST({value} AS REAL)"
    return value.strip("'") if kind in {"INTEGER", "BOOLEAN"} else value


def _counts(query: Query, trial: int) -> dict[str, Any]:
    """Return the figures counted from the calls of a trial, as its row would have them."""
    values = summary_values(summarize(loading.trial_of_row(query, trial)))
    return {name: _column(values[name]) for name in _COUNTED}


def _column(value: Any) -> Any:
    return value if isinstance(value, int) or value is None else json.dumps(value)


def _judges(query: Query, run: str) -> str:
    """Return the allow list that judged each agent, of a run of a time when calls alone said so."""
    rows = query(_WHO_JUDGED, run=run)
    return json.dumps(
        {judged_by(scenario, agent.rpartition("/")[0]): digest for scenario, agent, digest in rows}
    )
