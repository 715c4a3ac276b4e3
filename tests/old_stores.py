"""A store of each schema so far, as the program of that day wrote it (`store/history`)."""

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

from agenteval.store.location import SCHEMA

HISTORY = Path(__file__).parent / "store" / "history"
OLDER = range(1, SCHEMA)


def restored(schema: int, folder: Path) -> Path:
    """The store of that schema, made anew in this folder."""
    file = folder / "runs.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript((HISTORY / f"schema{schema:02}.sql").read_text(encoding="utf-8"))
        connection.execute("PRAGMA journal_mode=WAL")
    return file


def contents(folder: Path) -> dict[str, str]:
    """A digest of each file in the folder, whoever made it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def counts(file: Path) -> dict[str, int]:
    """How many trials, calls and denied calls a store of any schema holds."""
    asked = {
        "trials": "SELECT count(*) FROM trial",
        "calls": "SELECT count(*) FROM call",
        "errors": "SELECT count(*) FROM call WHERE NOT allowed",
    }
    with closing(sqlite3.connect(file)) as connection:
        return {name: connection.execute(sql).fetchone()[0] for name, sql in asked.items()}
