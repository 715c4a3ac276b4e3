"""Write `agenteval/store/tables.sql`, out of the tables of `rows`; with --check only look at it.

A new SQLite store is made by that file, as SQLAlchemy would make it.
"""

import sys
from pathlib import Path

from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement
from sqlmodel import SQLModel

from agenteval.store import orm

PLACE = Path(orm.__file__).with_name("tables.sql")


def statements() -> list[str]:
    made: list[ExecutableDDLElement] = []
    for table in SQLModel.metadata.sorted_tables:
        made.append(CreateTable(table))
        made += [CreateIndex(one) for one in sorted(table.indexes, key=lambda one: str(one.name))]
    return [_text(one) for one in made]


def _text(made: ExecutableDDLElement) -> str:
    lines = str(made.compile(dialect=sqlite.dialect())).strip().splitlines()
    return "\n".join(line.rstrip().replace("\t", "  ") for line in lines)


def main() -> None:
    text = ";\n".join([*statements(), ""])
    if "--check" not in sys.argv:
        PLACE.write_text(text, encoding="utf-8")
    elif PLACE.read_text(encoding="utf-8") != text:
        sys.exit(f"{PLACE.name}: not as the tables are; make format")


if __name__ == "__main__":
    main()
