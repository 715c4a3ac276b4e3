"""The tables of a store: `tables.sql` describes each column once, and all else follows from it.

The file is what makes a new SQLite store. Out of it come the columns that statements name, the
value of a column in a row that begins, the encoding of each value, and SQLAlchemy's tables, which
`migration` makes. Of text there are two kinds: VARCHAR holds our own words, and TEXT what a model
or a program wrote, which may hold what a database refuses.

A row is read and written here without an ORM, whose import takes 30 MB and 0.3 s.
"""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec

from agenteval.store.location import Bound, Connection, Query, Values, decoded, statements
from agenteval.store.texts import from_column, packed, to_column

# What SQLite has read of its own statements describes them better than a pattern of ours would.
_COLUMNS = """SELECT made.name, column.name, column.type, column.dflt_value, column."notnull"
    FROM sqlite_master AS made JOIN pragma_table_info(made.name) AS column
    WHERE made.type = 'table'"""
_EMPTY: dict[type, str] = {dict: "{}", list: "[]"}


def _encode_json(value: Any) -> str:
    """Return JSON, in a tenth of the time that the standard library takes.

    That one writes what msgspec cannot: lone surrogates, and a NaN, for which msgspec has null.
    """
    if not value:
        return _EMPTY.get(type(value)) or json.dumps(value)
    try:
        text = msgspec.json.encode(value)
    except (ValueError, OverflowError):
        return json.dumps(value)
    # A null of msgspec's may be None, or a NaN.
    return json.dumps(value) if b"null" in text else text.decode()


def _encode_text(value: str | None) -> str | None:
    return to_column(value) if value else value


def _decode_text(stored: str | None) -> str | None:
    return None if stored is None else from_column(stored)


def _is_true(literal: str) -> bool:
    return literal == "1"


class _Kind(NamedTuple):
    """The values of one kind of column: where there is no default, of a default, to and from it."""

    blank: Any
    read_default: Callable[[str], Any]
    encode: Callable[[Any], Any] | None = None
    decode: Callable[[Any], Any] | None = None


_KINDS = {
    "VARCHAR": _Kind("", str),
    "TEXT": _Kind("", str, _encode_text, _decode_text),
    "JSON": _Kind([], json.loads, _encode_json, decoded),
    "INTEGER": _Kind(0, int),
    "FLOAT": _Kind(0.0, float),
    "BOOLEAN": _Kind(blank=False, read_default=_is_true, decode=bool),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. `default` is what the rows of an older schema get."""

    table: str
    name: str
    kind: str  # one of _KINDS
    default: str | None
    is_required: bool

    @property
    def is_packed(self) -> bool:
        """True of what is large, and searched by nothing: a server's reply as received."""
        return (self.table, self.name) == ("turn", "raw")

    @property
    def blank(self) -> Any:
        """The value in a row of which nothing is known yet."""
        if not self.is_required:
            return None
        kind = _KINDS[self.kind]
        return kind.blank if self.default is None else kind.read_default(self.default)

    @property
    def encode(self) -> Callable[[Any], Any] | None:
        """The function that makes a value one for the driver; None where that takes it as it is."""
        return packed if self.is_packed else _KINDS[self.kind].encode

    @property
    def decode(self) -> Callable[[Any], Any] | None:
        return _KINDS[self.kind].decode


def _read_columns() -> dict[str, dict[str, Column]]:
    tables: dict[str, dict[str, Column]] = {}
    with closing(sqlite3.connect(":memory:")) as database:
        for statement in statements():
            database.execute(statement)
        for table, name, kind, default, is_required in database.execute(_COLUMNS):
            literal = None if default is None else default.strip("'")
            columns = tables.setdefault(table, {})
            columns[name] = Column(
                table,
                name,
                kind,
                literal,
                bool(is_required),
            )
    return tables


TABLES: Mapping[str, Mapping[str, Column]] = _read_columns()


def blank_row(table: str) -> Values:
    """Return a row of which nothing is known yet."""
    return dict(_blank_values(table))


@cache
def _blank_values(table: str) -> Values:
    return {name: column.blank for name, column in TABLES[table].items()}


def columns_but(table: str, *others: str) -> tuple[str, ...]:
    """Return the names of a table's columns without these others."""
    return tuple(name for name in TABLES[table] if name not in others)


class TableWriter:
    """The statements that write a table: columns `set_on_insert`, then those that are bound.

    `columns` are all but a number that the database gives, unless some are named. `mark` is the
    driver's placeholder of a value. `update` is of the row whose id follows what is bound.
    """

    def __init__(
        self,
        table: str,
        mark: str,
        columns: Collection[str] = (),
        set_on_insert: Collection[str] = (),
    ) -> None:
        names = [name for name in columns or _written(table) if name not in set_on_insert]
        self._encoders = [(name, TABLES[table][name].encode) for name in names]
        quoted = [f'"{name}"' for name in (*set_on_insert, *names)]  # one is called limit
        marks = ", ".join([mark] * len(quoted))
        self.insert = f'INSERT INTO "{table}" ({", ".join(quoted)}) VALUES ({marks})'  # noqa: S608 -- our own columns
        changes = ", ".join(f"{name} = {mark}" for name in quoted[len(set_on_insert) :])
        self.update = f'UPDATE "{table}" SET {changes} WHERE id = {mark}'  # noqa: S608 -- likewise

    def bind(self, values: Values) -> Bound:
        row = []
        for name, encode in self._encoders:
            value = values[name]
            row.append(encode(value) if encode else value)
        return tuple(row)


def _written(table: str) -> list[str]:
    """The columns but the id, where the database numbers the rows."""
    columns = TABLES[table].values()
    return [column.name for column in columns if (column.name, column.kind) != ("id", "INTEGER")]


writer_of = cache(TableWriter)


def insert_row(
    connection: Connection,
    table: str,
    values: Values,
    more: str = "",
    columns: tuple[str, ...] = (),
) -> list[Any]:
    """Insert a row; return what `more`, the end of the statement, has it return."""
    writer = writer_of(table, connection.mark, columns)
    return connection.execute(f"{writer.insert} {more}", writer.bind(values))


def update_row(
    connection: Connection,
    table: str,
    ident: int | str,
    values: Values,
) -> None:
    """Put these values into the row with this id."""
    writer = writer_of(table, connection.mark, tuple(values))
    connection.execute(writer.update, (*writer.bind(values), ident))


def change_row(
    connection: Connection,
    table: str,
    row: Any,
    values: Values,
) -> bool:
    """Put the values into a row as `read_rows` gives it; return False if it has them already."""
    changes = {name: value for name, value in values.items() if value != getattr(row, name)}
    if changes:
        update_row(connection, table, row.id, changes)
        vars(row).update(changes)
    return bool(changes)


def read_rows(
    query: Query, table: str, condition: str, *, but: Collection[str] = (), **values: Any
) -> Iterator[Any]:
    """Yield rows with an attribute for each column `but` those named, as the ORM would give them.

    `condition` is what follows the table's name in the statement; its values stand as `:name`.
    """
    columns = [column for name, column in TABLES[table].items() if name not in but]
    names = [column.name for column in columns]
    decoders = [(column.name, column.decode) for column in columns if column.decode]
    listed = ", ".join(f'"{name}"' for name in names)
    for stored in query(f'SELECT {listed} FROM "{table}" {condition}', **values):  # noqa: S608 -- our own columns
        row = dict(zip(names, stored, strict=True))
        for name, decode in decoders:
            row[name] = decode(row[name])
        yield SimpleNamespace(**row)
