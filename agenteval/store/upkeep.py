"""The upkeep of a store: runs copied and removed, damage searched for, space given back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, Connection, Table, bindparam, delete, insert, select, text, update

from agenteval.errors import HostError, UsageError
from agenteval.store.location import Location, size_of
from agenteval.store.migration import METADATA, ExactText
from agenteval.store.orm import connected_to_read
from agenteval.store.sql import SqlStore
from agenteval.store.texts import PACKED

BATCH = 500  # rows held at a time: a turn keeps a whole reply
SHOWN = 5  # lines of what a database says itself
_TURN = METADATA.tables["turn"]
_SESSION = METADATA.tables["session"]
_LOG = METADATA.tables["log_file"]
_NEXT = (
    select(_TURN.c.id, _TURN.c.raw)
    .where(_TURN.c.id > bindparam("last"), text(f"raw NOT LIKE '{PACKED}%'"))
    .order_by(_TURN.c.id)
    .limit(BATCH)
)
_PACK = update(_TURN).where(_TURN.c.id == bindparam("turn"))
_DOUBLED = """SELECT count(*) FROM (SELECT 1 FROM trial WHERE NOT replaced
    GROUP BY run_id, scenario, number HAVING count(*) > 1) AS twice"""
_AMISS = {
    "trials are in force more than once": _DOUBLED,
    "trials have other calls than were counted when they ended": """SELECT count(*) FROM trial
        LEFT JOIN (SELECT trial_id, count(*) AS there FROM call WHERE agent = '' GROUP BY trial_id)
        AS kept ON kept.trial_id = trial.id
        WHERE NOT replaced AND outcome != '' AND calls != coalesce(there, 0)""",
    "calls belong to no turn": """SELECT count(*) FROM call LEFT JOIN turn
        ON turn.trial_id = call.trial_id AND turn.agent = call.agent AND turn.number = call.turn
        WHERE turn.id IS NULL""",
}


def tables() -> Iterator[Table]:
    """Yield the tables that runs have rows in, each after those that its rows name."""
    return (table for table in METADATA.sorted_tables if _belongs(table) is not None)


def _belongs(table: Table) -> Any:
    """The column by which a row belongs to a run; None where none does."""
    if table.name in {"run", "imported"}:
        return table.c.id
    for name, column in table.c.items():
        if name in _ABOVE:
            return column
    return None


_ABOVE = {"run_id": "run", "trial_id": "trial", "rescore_id": "rescore"}


def _rows_of(table: Table, run_id: str) -> Any:
    """The condition by which rows are this run's."""
    column = _belongs(table)
    above = _ABOVE.get(column.name, "run")
    if above == "run":
        return column == run_id
    parent = METADATA.tables[above]
    return column.in_(select(parent.c.id).where(parent.c.run_id == run_id))


def remove(store: SqlStore, run_ids: Sequence[str]) -> None:
    """Remove all of these runs, or none.

    The logs of sessions among them can be imported again.
    """
    with store.connect() as connection, connection.begin():
        for run_id in run_ids:
            sessions = select(_SESSION.c.id).where(_SESSION.c.run_id == run_id)
            if connection.execute(sessions).first():
                # Whose a file is, its digest does not tell.
                connection.execute(delete(_LOG))
            # Rows that refer to others go before these.
            for table in reversed(list(tables())):
                connection.execute(delete(table).where(_rows_of(table, run_id)))


def copy(source: str, target: SqlStore, run_ids: Sequence[str]) -> None:
    """Copy all of these runs, or none, out of the store at this file or URL, which stays unchanged.

    Raises UsageError for a run that the target has already.
    """
    taken = [run_id for run_id in run_ids if target.exists(run_id)]
    if taken:
        raise UsageError(
            f"{', '.join(taken)}: in {target.shown} already; nothing was copied. `agenteval runs "
            "rm` takes a run out of a store"
        )
    with connected_to_read(source) as reading, target.connect() as written, written.begin():
        for run_id in run_ids:
            moved = _Moved(reading, written)
            # A row comes after those that it refers to, whose new numbers are then known.
            for table in tables():
                moved.copy(table, run_id)


@dataclass(slots=True)
class _Moved:
    """A copy of one run under way: a row whose number is taken in the new store gets another."""

    source: Connection
    written: Connection
    numbers: dict[str, dict[int, int]] = field(default_factory=dict)  # by table: old to new

    def copy(self, table: Table, run_id: str) -> None:
        own = select(table).where(_rows_of(table, run_id)).order_by(*table.primary_key)
        self.numbers[table.name] = {}
        rows = self.source.execute(own).mappings()
        for batch in rows.partitions(BATCH):
            for row in batch:
                self._copy_row(table, dict(row))

    def _copy_row(self, table: Table, row: dict[str, Any]) -> None:
        values = self._renumbered(table, row)
        number = values.get("id")
        # A text is the key of this run alone, and stays.
        if not isinstance(number, int):
            self.written.execute(insert(table), values)
            return
        del values["id"]
        key = self.written.execute(insert(table), values).inserted_primary_key
        if key:
            self.numbers[table.name][number] = key[0]

    def _renumbered(self, table: Table, values: dict[str, Any]) -> dict[str, Any]:
        for key in table.foreign_keys:
            name, above = key.parent.name, key.column.table.name
            if above != "run" and values[name] is not None:
                values[name] = self.numbers[above][values[name]]
        return values


def faults(connection: Connection) -> Iterator[str]:
    """A line for each thing that is wrong in a store that is read."""
    if connection.dialect.name == "sqlite":
        lines = connection.execute(text("PRAGMA integrity_check")).scalars().all()
        for line in lines[:SHOWN]:
            if line != "ok":
                yield f"the file is damaged: {line}"
    for table in METADATA.sorted_tables:
        for key in table.foreign_keys:
            above = key.column.table
            lost = select(key.parent).outerjoin(above, key.parent == key.column)
            lost = lost.where(key.parent.is_not(None), key.column.is_(None))
            if rows := len(connection.execute(lost).all()):
                yield f"{rows} rows of {table.name} belong to no row of {above.name}"
        yield from _unread(connection, table)
    for what, asked in _AMISS.items():
        if rows := connection.execute(text(asked)).scalar_one():
            yield f"{rows} {what}"


def _unread(connection: Connection, table: Table) -> Iterator[str]:
    """A line for each column with a value that was damaged in its place."""
    for column in table.c:
        if not isinstance(column.type, JSON | ExactText):
            continue
        values = select(column).execution_options(yield_per=BATCH)
        try:
            for _ in connection.execute(values):
                pass
        except HostError:
            yield f"{table.name}.{column.name} has a value that cannot be read"


def compact(store: SqlStore) -> None:
    """Compress replies that an older version stored uncompressed, and give space back."""
    with store.connect() as connection:
        _pack(connection)
    with store.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM")
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")


def _pack(connection: Connection) -> None:
    last = 0
    while rows := connection.execute(_NEXT, {"last": last}).all():
        last = rows[-1].id
        # The type of the column compresses what is written back.
        connection.execute(_PACK, [{"turn": row.id, "raw": row.raw} for row in rows])
        connection.commit()


def size(store: str) -> int:
    """The bytes of a store of one file."""
    file = Location(store).file
    names = [f"{file}{end}" for end in ("", "-wal")] if file else []
    return sum(size_of(Path(name)) for name in names)
