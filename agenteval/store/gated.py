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

from agenteval.core.counts import ErrorCounts
from agenteval.core.gated import GatedRun, GatedTrial
from agenteval.core.imported import ImportedCounts
from agenteval.core.outcome import Outcome
from agenteval.core.run import Effort, Look, ModelCard, Options, Run
from agenteval.errors import UsageError
from agenteval.store.location import SCHEMA, Location
from agenteval.store.names import meant

Query = Callable[..., Sequence[Sequence[Any]]]  # SQL text and its parameters by name

# The columns that a run has as they are: the first of those that are asked for.
_PLAIN = ("id", "started", "seed", "trials_planned", "max_turns", "concurrency", "sandbox",
          "protocol", "taxonomy")  # fmt: skip
_RUN = """SELECT id, started, seed, trials_planned, max_turns, concurrency, sandbox, protocol,
    taxonomy, prefork, complete, seconds, joules, card, policies, options, scenarios
    FROM run WHERE id = :run"""
_TABLE = """SELECT id, imported, source, card, trials, by_trial, calls, by_class
    FROM imported WHERE id = :run"""
_RUNS = "SELECT id FROM run ORDER BY started DESC"
_TABLES = "SELECT id FROM imported ORDER BY imported DESC"
_TRIALS = """SELECT id, scenario, seed, outcome, handshake FROM trial
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
    added = "SELECT count(*) FROM sqlite_master WHERE name IN ('look', 'imported')"
    return bool(version == SCHEMA and connection.execute(added).fetchone()[0] == 2)


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


def load_gated(query: Query, word: str) -> GatedRun:
    """The counts of a run or a table, by what names it (`store.names`). Raises UsageError."""
    runs, tables = ([row[0] for row in query(ids)] for ids in (_RUNS, _TABLES))
    found = meant(word, runs, tables, where="the store")
    if found not in runs:
        return _of_table(*query(_TABLE, run=found)[0])
    looks = tuple(Look(*row) for row in query(_LOOKS, run=found))
    run = _run(*query(_RUN, run=found)[0], looks=looks)
    return GatedRun.of(run, _trials(query, found))


def _run(*row: Any, looks: tuple[Look, ...]) -> Run:
    *plain, prefork, complete, seconds, joules, card, policies, options, scenarios = row
    given = _decoded(options)
    return Run(
        **dict(zip(_PLAIN, plain, strict=True)),
        model=ModelCard(**_decoded(card)),
        prefork=bool(prefork),
        policies=_decoded(policies),
        complete=bool(complete),
        looks=looks,
        options=Options(**given) if given else None,
        scenarios=_decoded(scenarios),
        effort=None if seconds is None else Effort(seconds, joules),
    )


def _of_table(*row: Any) -> GatedRun:
    """Raises UsageError for counts of which it is not known what belongs together."""
    name, imported, source, card, trials, by_trial, calls, by_class = row
    named = [(scenario, trial) for scenario, trial in _decoded(trials)]
    if not by_trial or not all(scenario for scenario, _ in named):
        raise UsageError(
            f"{name}: its table does not name the scenario and trial of each line; as calls of one "
            "trial resemble each other, no bound would hold. Import a table with these columns, or "
            "see `agenteval compare`"
        )
    classes = {key: tuple(errors) for key, errors in _decoded(by_class).items()}
    counts = ErrorCounts(tuple(_decoded(calls)), classes)
    model = ModelCard(**_decoded(card))
    return GatedRun.of_table(ImportedCounts(name, model, imported, source, tuple(named), counts))


def _trials(query: Query, run_id: str) -> tuple[GatedTrial, ...]:
    """A trial that was in flight when the run died is void."""
    by_trial: dict[int, list[tuple[str, int, int, int]]] = {}
    for trial, *counts in query(_CALLS, run=run_id):
        by_trial.setdefault(trial, []).append((counts[0], counts[1], counts[2], counts[3]))
    return tuple(
        _trial(by_trial.get(number, []), row) for number, *row in query(_TRIALS, run=run_id)
    )


def _trial(counts: Sequence[tuple[str, int, int, int]], row: Sequence[Any]) -> GatedTrial:
    scenario, seed, outcome, handshake = row
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
    )


def _closed(step: Mapping[str, Any]) -> bool:
    """Reached, and not too early; runs from before the order was kept count as in order."""
    return bool(step["reached"]) and step.get("in_order") is not False


def _decoded(column: Any) -> Any:
    """A JSON column: SQLite gives its text, other databases its value."""
    return json.loads(column) if isinstance(column, str) else column
