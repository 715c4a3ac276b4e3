"""A store looked through for damage, and made as small as it can be without losing anything."""

from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection, bindparam, select, text, update
from sqlmodel import SQLModel

from agenteval.store.location import PACKED, Location
from agenteval.store.rows import TurnRow
from agenteval.store.sql import SqlStore

BATCH = 500  # replies held at a time
SHOWN = 5  # lines of what a database says itself
_TURN = SQLModel.metadata.tables[str(TurnRow.__tablename__)]
_NEXT = (
    select(_TURN.c.id, _TURN.c.raw)
    .where(_TURN.c.id > bindparam("last"), text(f"raw NOT LIKE '{PACKED}%'"))
    .order_by(_TURN.c.id)
    .limit(BATCH)
)
_PACK = update(_TURN).where(_TURN.c.id == bindparam("turn"))
_DOUBLED = """SELECT count(*) FROM (SELECT 1 FROM trial WHERE NOT replaced
    GROUP BY run_id, scenario, number HAVING count(*) > 1) AS twice"""


def faults(store: SqlStore) -> Iterator[str]:
    """A line for each thing that is wrong."""
    with store.connect() as connection:
        if connection.dialect.name == "sqlite":
            said = [str(row[0]) for row in connection.execute(text("PRAGMA integrity_check"))]
            yield from (f"the file is damaged: {line}" for line in said[:SHOWN] if line != "ok")
        for table in SQLModel.metadata.sorted_tables:
            for key in table.foreign_keys:
                above = key.column.table
                lost = select(key.parent).outerjoin(above, key.parent == key.column)
                lost = lost.where(key.parent.is_not(None), key.column.is_(None))
                if rows := len(connection.execute(lost).all()):
                    yield f"{rows} rows of {table.name} belong to no row of {above.name}"
        if doubled := connection.execute(text(_DOUBLED)).scalar_one():
            yield f"{doubled} trials are in force more than once"


def compact(store: SqlStore) -> None:
    """Replies that an older version stored as they came are compressed; space is given back."""
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
        connection.execute(_PACK, [{"turn": row.id, "raw": row.raw} for row in rows])
        connection.commit()


def size(store: str) -> int:
    """The bytes of a store of one file."""
    file = Location(store).file
    names = [f"{file}{end}" for end in ("", "-wal")] if file else []
    return sum(Path(name).stat().st_size for name in names if Path(name).exists())
