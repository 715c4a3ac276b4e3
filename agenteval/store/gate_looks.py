"""The looks of gates at stored runs, read and kept without an ORM as summaries are."""

import sqlite3
from dataclasses import asdict

from agenteval import store as parts  # whose sql imports an ORM: only when it is needed
from agenteval.core.run import Look
from agenteval.errors import HostError
from agenteval.store.location import Location

READ = """SELECT number, planned, trials, level, verdict, baseline, rules, at, data, judged
    FROM look
    WHERE run_id = :run ORDER BY number"""
_WRITE = """INSERT INTO look
    (run_id, number, planned, trials, level, verdict, baseline, rules, at, data, judged) VALUES
    (:run, :number, :planned, :trials, :level, :verdict, :baseline, :rules, :at, :data, :judged)"""


def keep_look(store: str, run_id: str, look: Look) -> bool:
    """Keep what a gate saw of a run; False where the store cannot be written."""
    where = Location(store)
    if where.file is None:
        return _kept_by_url(store, run_id, look)
    connection = sqlite3.connect(where.file)
    try:
        with connection:
            connection.execute(_WRITE, asdict(look) | {"run": run_id})
    except sqlite3.Error:
        return False
    finally:
        connection.close()
    return True


def _kept_by_url(url: str, run_id: str, look: Look) -> bool:
    other = parts.sql.SqlStore(url)
    try:
        other.look(run_id, look)
    except HostError:
        return False
    finally:
        other.close()
    return True
