"""The tables of a store: `tables.sql` describes each column once, and all else follows from it.

The file is what makes a new SQLite store. Out of it come the columns that statements name, the
value of a column in a row that begins, the encoding of each value, and SQLAlchemy's tables, which
`migration` makes. Of text there are two kinds: VARCHAR holds our own words, and TEXT what a model
or a program wrote, which may hold what a database refuses.

A row is read and written here without an ORM, whose import takes 30 MB and 0.3 s.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

import msgspec

from agenteval.store.location import Bound, Query, Values, decoded, statements
from agenteval.store.texts import from_column, packed, to_column

_TABLE = re.compile(r"CREATE TABLE (\w+) \(")
_COLUMN = re.compile(
    r'  "?(?P<name>\w+)"? (?P<kind>[A-Z]+)'
    r"(?: DEFAULT (?P<default>\S+?))?(?P<required> NOT NULL)?,?"
)
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
    return json.dumps(value) if b"null" in text else text.decode()


def _encode_text(value: str | None) -> str | None:
    return to_column(value) if value else value


def _decode_text(stored: str | None) -> str | None:
    return None if stored is None else from_column(stored)


_ENCODERS: Mapping[str, Callable[[Any], Any]] = {
    "JSON": _encode_json,
    "TEXT": _encode_text,
    "packed TEXT": packed,
}
_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    "JSON": decoded,
    "TEXT": _decode_text,
    "BOOLEAN": bool,
}
# The value of a column that has no default, in a row of which nothing is known yet.
_BLANKS: Values = {
    "VARCHAR": "",
    "TEXT": "",
    "JSON": [],
    "INTEGER": 0,
    "FLOAT": 0.0,
    "BOOLEAN": False,
}


def _is_true(literal: str) -> bool:
    return literal == "1"


# A default is written as text, whatever the kind of its column.
_DEFAULTS: Mapping[str, Callable[[str], Any]] = {
    "VARCHAR": str,
    "TEXT": str,
    "JSON": json.loads,
    "INTEGER": int,
    "FLOAT": float,
    "BOOLEAN": _is_true,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. `default` is what the rows of an older schema get."""

    table: str
    name: str
    kind: str  # VARCHAR, TEXT, JSON, INTEGER, FLOAT or BOOLEAN
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
        if self.default is None:
            return _BLANKS[self.kind]
        return _DEFAULTS[self.kind](self.default)

    @property
    def encode(self) -> Callable[[Any], Any] | None:
        """The function that makes a value one for the driver; None where that takes it as it is."""
        return _ENCODERS.get(f"packed {self.kind}" if self.is_packed else self.kind)

    @property
    def decode(self) -> Callable[[Any], Any] | None:
        return _DECODERS.get(self.kind)


def _read_columns() -> dict[str, dict[str, Column]]:
    tables: dict[str, dict[str, Column]] = {}
    for statement in statements():
        header, *lines = statement.splitlines()
        table = _TABLE.fullmatch(header)
        if not table:  # an index
            continue
        columns = tables.setdefault(table[1], {})
        for match in filter(None, map(_COLUMN.fullmatch, lines)):
            name, kind, default, required = match.groups()
            literal = None if default is None else default.strip("'")
            columns[name] = Column(table[1], name, kind, literal, bool(required))
    return tables


TABLES: Mapping[str, Mapping[str, Column]] = _read_columns()


def blank_row(table: str) -> Values:
    """Return a row of which nothing is known yet."""
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
        of_table = TABLES[table]
        names = [name for name in columns or _written(table) if name not in set_on_insert]
        # Of one column alone an itemgetter would give no tuple.
        self._row_of = itemgetter(*names, names[-1])
        self._encoders = [
            (position, encode)
            for position, name in enumerate(names)
            if (encode := of_table[name].encode)
        ]
        quoted = [f'"{name}"' for name in (*set_on_insert, *names)]  # one is called limit
        marks = ", ".join([mark] * len(quoted))
        self.insert = f'INSERT INTO "{table}" ({", ".join(quoted)}) VALUES ({marks})'  # noqa: S608 -- our own columns
        changes = ", ".join(f"{name} = {mark}" for name in quoted[len(set_on_insert) :])
        self.update = f'UPDATE "{table}" SET {changes} WHERE id = {mark}'  # noqa: S608 -- likewise

    def bind(self, values: Values) -> Bound:
        *row, _ = self._row_of(values)
        for position, encode in self._encoders:
            row[position] = encode(row[position])
        return tuple(row)


def _written(table: str) -> list[str]:
    """The columns but the id, where the database numbers the rows."""
    columns = TABLES[table].values()
    return [one.name for one in columns if (one.name, one.kind) != ("id", "INTEGER")]


def read_rows(
    query: Query, table: str, condition: str, *, but: Collection[str] = (), **values: Any
) -> Iterator[Any]:
    """Yield rows with an attribute for each column `but` those named, as the ORM would give them.

    `condition` is what follows the table's name in the statement; its values stand as `:name`.
    """
    columns = [column for name, column in TABLES[table].items() if name not in but]
    names = [column.name for column in columns]
    decoders = [
        (position, decode) for position, column in enumerate(columns) if (decode := column.decode)
    ]
    listed = ", ".join(f'"{name}"' for name in names)
    for stored in query(f'SELECT {listed} FROM "{table}" {condition}', **values):  # noqa: S608 -- our own columns
        row = list(stored)
        for position, decode in decoders:
            row[position] = decode(row[position])
        yield SimpleNamespace(**dict(zip(names, row, strict=True)))
