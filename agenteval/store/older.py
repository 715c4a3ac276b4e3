"""A file of SQLite of an older schema, read as one of today without a change of a byte.

Temporary views stand before its tables: what a column of today lacks there is its default, and
what has to be counted is counted from the calls of the one row that is asked for. So a store of
gigabytes is neither copied nor held in memory.

A copy of an SQLite store next to it, made before an upgrade alters the store.
"""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from agenteval.errors import HostError, UsageError, fault, is_damage, is_of_the_host
from agenteval.store import read
from agenteval.store.location import (
    SCHEMA,
    Location,
    Query,
    check_version,
    connected,
    is_current,
    no_store,
    query_file,
    size_of,
    unopened,
    version_of,
)
from agenteval.store.summaries import summary_values
from agenteval.store.tables import TABLES, Column
from agenteval.trial.recovery import COUNTING
from agenteval.trial.run import judged_by
from agenteval.trial.summary import summarize

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
    counts = {}
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
        [(count,)] = connection.execute(f'SELECT count(*) FROM "{name}"')  # noqa: S608 -- the store's own
        counts[name] = count
    return counts


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _not_copied(store: str, name: Path, error: Exception) -> HostError:
    reason = getattr(error, "strerror", None) or str(error)
    cure = "make room there" if _is_full(error) else "let the folder be written"
    return HostError(
        f"--store {store}: not upgraded, as the copy {name} cannot be made ({reason}); {cure}, and "
        "ask again. The store is as it was, and can be read"
    )


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError) and error.errno is not None:
        return is_of_the_host(error)
    return "full" in str(error) or "free" in str(error)


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


def _put_views(connection: sqlite3.Connection) -> None:
    """Give the names of tables another meaning, for this connection alone."""
    query = query_file(connection)
    # Columns of one row are asked for one after another: each trial is counted once.
    counts = lru_cache(maxsize=64)(_counts)
    connection.create_function(
        "counted",
        2,
        lambda trial, name: counts(query, trial)[name],
    )

    @cache
    def judges(run: str) -> str:
        return json.dumps(judges_by_calls(query, run))

    connection.create_function("judges", 1, judges)
    of_old = version_of(connection.execute) != SCHEMA
    for table, columns in TABLES.items():
        there = {row[1] for row in query(_COLUMNS.format(table))}
        values = {}
        for name, column in columns.items():
            values[name] = f'"{name}"' if name in there else _default(column)
        derived = _with_derived(table, values, of_old=of_old)
        listed = ", ".join(f'{value} AS "{name}"' for name, value in derived.items())
        source = f'FROM main."{table}"' if there else "WHERE 0"
        # A temporary view hides the table of its name, which is still there as main's.
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


def _default(column: Column) -> str:
    """Return a column's default as SQL, of the type that the column keeps."""
    if column.default is None:
        return "NULL"
    if column.kind == "FLOAT":
        return f"CAST('{column.default}' AS REAL)"
    return column.default if column.kind in {"INTEGER", "BOOLEAN"} else f"'{column.default}'"


def _counts(query: Query, trial: int) -> dict[str, Any]:
    """Return the figures counted from the calls of a trial, as its row would have them."""
    values = summary_values(summarize(read.trial_of_row(query, trial)))
    counts = {}
    for name in _COUNTED:
        value = values[name]
        counts[name] = value if isinstance(value, int) else json.dumps(value)
    return counts


def judges_by_calls(query: Query, run: str) -> dict[str, str]:
    """Return the allow list that judged each agent, as the calls of a run say."""
    return {
        judged_by(scenario, agent.rpartition("/")[0]): digest
        for scenario, agent, digest in query(_WHO_JUDGED, run=run)
    }


@contextmanager
def connection_to_read(where: Location) -> Iterator[sqlite3.Connection]:
    """Connect to an existing file, as today's tables. Raises as `opened`."""
    connection = connected(where.file or "")
    try:
        check_version(version_of(connection.execute), str(where))
        if not is_current(connection.execute):
            _put_views(connection)
        connection.execute("PRAGMA query_only=ON")
        yield connection
    except sqlite3.DatabaseError as error:
        if is_damage(str(error)) or "disk" in str(error):  # it is full, or fails
            raise fault(str(where), str(error)) from error
        if "unable to open" in str(error):  # it needs a file next to it, in a folder of others
            raise unopened(str(where), error) from error
        raise UsageError(no_store(str(where), str(error))) from error
    finally:
        connection.close()
