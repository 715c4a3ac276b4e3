"""Runs as counts: of a stored run only the columns that a gate needs, and no transcript.

Reads SQLite by its own module: importing an ORM takes longer than `agenteval gate` may take. Any
other database goes the usual way.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agenteval.core.gated import GatedRun, GatedTrial
from agenteval.core.outcome import Outcome
from agenteval.core.run import Look
from agenteval.errors import UsageError
from agenteval.store.location import SCHEMA, Location

Query = Callable[..., Sequence[Sequence[Any]]]  # SQL text and its parameters by name

_RUN = """SELECT id, model, simulated, complete, concurrency, trials_planned, policies,
    protocol, taxonomy, sandbox, prefork, max_turns FROM run"""
_TRIALS = """SELECT id, scenario, seed, outcome, handshake, seconds FROM trial
    WHERE run_id = :run AND NOT replaced ORDER BY id"""
_CALLS = """SELECT trial_id, failure_class, count(*), count(call.seconds), sum(CASE WHEN
    "limit" <> '' OR exit_code < 0 OR exit_code >= 128 THEN 1 ELSE 0 END)
    FROM call JOIN trial ON trial.id = trial_id WHERE run_id = :run AND agent = ''
    GROUP BY trial_id, failure_class"""
_LOOKS = """SELECT number, planned, trials, level, verdict, baseline, rules FROM look
    WHERE run_id = :run ORDER BY number"""


@contextmanager
def opened(store: str) -> Iterator[Query]:
    """A way to ask the store at this file or URL. Raises UsageError when there is none."""
    where = Location(store)
    if where.file is None:
        yield from _asked_by_url(store)
        return
    if not Path(where.file).is_file():
        raise UsageError(
            f"--store {where}: no such file. Make a run first: agenteval run --model NAME"
        )
    connection = sqlite3.connect(where.file)
    try:
        if not _is_current(connection):
            _widen(store)
        yield lambda sql, **named: connection.execute(sql, named).fetchall()
    except sqlite3.DatabaseError as error:
        raise UsageError(f"--store {where}: not a store of agenteval ({error})") from error
    finally:
        connection.close()


def _is_current(connection: sqlite3.Connection) -> bool:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    look = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'look'").fetchone()
    return version == SCHEMA and look is not None


def _widen(store: str) -> None:
    """Add what a store of an earlier day lacks. Raises UsageError for one of a later day."""
    from agenteval.store.sql import SqlStore  # noqa: PLC0415 -- see above

    SqlStore(store).close()


def _asked_by_url(url: str) -> Iterator[Query]:
    from sqlalchemy import text  # noqa: PLC0415 -- as above

    from agenteval.store.sql import SqlStore  # noqa: PLC0415 -- as above

    store = SqlStore(url)
    try:
        with store.connect() as connection:
            yield lambda sql, **named: connection.execute(text(sql), named).fetchall()
    finally:
        store.close()


def load_gated(query: Query, run_id: str) -> GatedRun:
    """The counts of a run; `last` is the newest. Raises UsageError for an unknown id."""
    wanted = "ORDER BY started DESC" if run_id == "last" else "WHERE id = :run"
    rows = query(f"{_RUN} {wanted} LIMIT 1", **({} if run_id == "last" else {"run": run_id}))
    if not rows:
        newest = [row[0] for row in query("SELECT id FROM run ORDER BY started DESC LIMIT 5")]
        raise UsageError(
            f"no run {run_id!r} in the store (newest: {', '.join(newest) or 'none yet'}); "
            "`agenteval show` lists all"
        )
    found, model, simulated, complete, concurrency, planned, policies, *settings = rows[0]
    names = ("protocol", "taxonomy", "sandbox", "prefork", "max_turns")
    return GatedRun(
        id=found,
        model=model,
        simulated=bool(simulated),
        complete=bool(complete),
        concurrency=concurrency,
        trials_planned=planned,
        settings=dict(zip(names, settings, strict=True)),
        policies=_decoded(policies),
        trials=_trials(query, found),
        looks=tuple(Look(*row) for row in query(_LOOKS, run=found)),
    )


def _trials(query: Query, run_id: str) -> tuple[GatedTrial, ...]:
    """A trial that was in flight when the run died is void."""
    by_trial: dict[int, list[tuple[str, int, int, int]]] = {}
    for trial, *counts in query(_CALLS, run=run_id):
        by_trial.setdefault(trial, []).append((counts[0], counts[1], counts[2], counts[3]))
    return tuple(
        _trial(by_trial.get(number, []), row) for number, *row in query(_TRIALS, run=run_id)
    )


def _trial(counts: Sequence[tuple[str, int, int, int]], row: Sequence[Any]) -> GatedTrial:
    scenario, seed, outcome, handshake, seconds = row
    steps: Sequence[Mapping[str, Any]] = _decoded(handshake)
    return GatedTrial(
        scenario=scenario,
        seed=seed,
        outcome=Outcome(outcome or Outcome.VOID),
        calls=sum(calls for _, calls, _, _ in counts),
        by_class={name: calls for name, calls, _, _ in counts if name},
        executed=sum(executed for _, _, executed, _ in counts),
        crashed=sum(crashed for _, _, _, crashed in counts),
        handshake=all(map(_closed, steps)) if steps else None,
        seconds=seconds,
    )


def _closed(step: Mapping[str, Any]) -> bool:
    """Reached, and not too early; runs from before the order was kept count as in order."""
    return bool(step["reached"]) and step.get("in_order") is not False


def _decoded(column: Any) -> Any:
    """A JSON column: SQLite gives its text, other databases its value."""
    return json.loads(column) if isinstance(column, str) else column
