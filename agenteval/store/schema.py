"""SQLAlchemy's form of the tables that `tables.sql` describes, for what is no file of SQLite.

It is made when this is imported, and no command that runs or gates in a file needs it.
"""

import re
from functools import cache
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    CursorResult,
    Dialect,
    Float,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TextClause,
    UniqueConstraint,
    false,
    text,
    update,
)
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeDecorator, TypeEngine

from agenteval.store import tables
from agenteval.store.location import Query, Values, statements
from agenteval.store.texts import from_column, packed, to_column


class ExactText(TypeDecorator[str]):
    """A text column that keeps NUL and lone surrogates, which models write and databases refuse."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 -- SQLAlchemy's signature
        return value if value is None else to_column(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 -- SQLAlchemy's signature
        return value if value is None else from_column(value)


class _PackedText(ExactText):
    """An ExactText that is compressed."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 -- SQLAlchemy's signature
        return value if value is None else packed(value)


_TYPES: dict[str, type[TypeEngine[Any]]] = {
    "VARCHAR": String,
    "TEXT": ExactText,
    "JSON": JSON,
    "INTEGER": Integer,
    "FLOAT": Float,
    "BOOLEAN": Boolean,
}
_UNIQUE = re.compile(r"  UNIQUE \((.+)\),?")
_FOREIGN_KEY = re.compile(r"  FOREIGN KEY\((\w+)\) REFERENCES (\w+) \((\w+)\),?")
_PRIMARY_KEY = re.compile(r"  PRIMARY KEY \((.+)\),?")
_INDEX = re.compile(r"CREATE (UNIQUE )?INDEX (\w+) ON (\w+) \((.+?)\)(?: WHERE (.+))?")
METADATA = MetaData()


def _type_of(column: tables.Column) -> TypeEngine[Any]:
    if column.is_packed:
        return _PackedText()
    if column.name == "recovery":
        # NULL until its trial has ended; of a call's arguments, None is what a model wrote.
        return JSON(none_as_null=True)
    return _TYPES[column.kind]()


def _make_column(column: tables.Column, *, is_key: bool) -> Column[Any]:
    # A default that is a number is refused by PostgreSQL for a truth value.
    default = false() if column.kind == "BOOLEAN" and column.default else column.default
    return Column(
        column.name,
        _type_of(column),
        primary_key=is_key,
        nullable=not column.is_required,
        server_default=default,
    )


def _make_table(name: str, lines: list[str]) -> Table:
    keys: list[str] = []
    constraints: list[SchemaItem] = []
    for line in lines:
        if match := _PRIMARY_KEY.fullmatch(line):
            keys = match[1].split(", ")
        elif match := _UNIQUE.fullmatch(line):
            members = match[1].split(", ")
            constraints.append(UniqueConstraint(*members))
        elif match := _FOREIGN_KEY.fullmatch(line):
            column, table, target = match.groups()
            constraints.append(ForeignKeyConstraint([column], [f"{table}.{target}"]))
    described = tables.TABLES[name].values()
    columns = [_make_column(column, is_key=column.name in keys) for column in described]
    return Table(name, METADATA, *columns, *constraints)


def _make_index(unique: str | None, name: str, table: str, columns: str, where: str | None) -> None:
    condition = None if where is None else text(where)
    Index(
        name,
        *(METADATA.tables[table].c[column] for column in columns.split(", ")),
        unique=bool(unique),
        sqlite_where=condition,
        postgresql_where=condition,
    )


for _statement in statements():
    if _index := _INDEX.fullmatch(_statement):
        _make_index(*_index.groups())
    else:
        _header, *_lines = _statement.splitlines()
        _make_table(_header.split()[2], _lines)


def query_on(connection: Connection) -> Query:
    """Return what puts plain SQL, whose values stand as `:name`, to a connection."""

    def query(sql: str, **values: Any) -> list[Any]:
        return rows_of(connection.execute(_read_sql(sql), values))

    return query


@cache
def _read_sql(sql: str) -> TextClause:
    return text(sql)


def rows_of(result: CursorResult[Any]) -> list[Any]:
    return list(result.fetchall()) if result.returns_rows else []


def write_changes(connection: Connection, table: str, row: Any, values: Values) -> Values:
    """Put the values into a stored row, where they differ; return those that did, as they were."""
    before = {name: getattr(row, name) for name in values}
    changes = {name: value for name, value in values.items() if value != before[name]}
    if changes:
        own = METADATA.tables[table]
        connection.execute(update(own).where(own.c.id == row.id).values(changes))
        vars(row).update(changes)
    return {name: before[name] for name in changes}
