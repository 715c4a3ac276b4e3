"""Summaries of trials in the store: written when a trial ends, read by one SELECT a run.

SQLite is read by the standard library's module: importing an ORM takes longer than `agenteval
gate` may take. Any other database goes the usual way.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from agenteval import store as parts  # whose sql imports an ORM: only when it is needed
from agenteval.core.counts import ErrorCounts
from agenteval.core.outcome import Outcome
from agenteval.core.recovery import COUNTING, NO_DENIALS, TrialRecovery
from agenteval.core.run import Effort, Look, ModelCard, Options, Run
from agenteval.core.scenario import GoalCheck
from agenteval.core.summary import ImportedCounts, RunSummary, TrialSummary
from agenteval.core.trial import HandshakeStep
from agenteval.errors import Cause, UsageError
from agenteval.store.gate_looks import READ
from agenteval.store.location import SCHEMA, Known, Location, from_column, meant

Query = Callable[..., Sequence[Sequence[Any]]]  # SQL text and its parameters by name
Values = dict[str, Any]  # of one row, by column

INTERRUPTED = "interrupted before it ended"

# The columns that a run has as they are: the first of those that are asked for.
_PLAIN = ("id", "started", "seed", "trials_planned", "max_turns", "concurrency", "sandbox",
          "protocol", "taxonomy")  # fmt: skip
_RUN = """SELECT id, started, seed, trials_planned, max_turns, concurrency, sandbox, protocol,
    taxonomy, prefork, complete, seconds, joules, card, policies, options, scenarios
    FROM run WHERE id = :run"""
_TABLE = """SELECT id, imported, source, card, trials, by_trial, calls, by_class
    FROM imported WHERE id = :run"""
_KNOWN = """SELECT run.id, run.model, tags.labels, run.simulated, EXISTS (SELECT 1 FROM trial
    WHERE run_id = run.id AND NOT replaced AND outcome NOT IN ('', 'void'))
    FROM run LEFT JOIN tags ON tags.run_id = run.id ORDER BY started DESC, run.id DESC"""
_TABLES = "SELECT id FROM imported ORDER BY imported DESC"
_TRIALS = """SELECT scenario, number, seed, outcome, calls, errors, executed, crashed, handshake,
    recovery, prompt_tokens, agent_calls, reason, cause, retries, stretched, goal,
    goal_turn FROM trial WHERE run_id = :run AND NOT replaced ORDER BY scenario, number"""


def summary_values(summary: TrialSummary) -> Values:
    """What the row of a trial gets of its summary when it has ended."""
    return {
        "outcome": summary.outcome,
        "calls": summary.calls,
        "errors": dict(summary.errors),
        "executed": summary.executed,
        "crashed": summary.crashed,
        "handshake": [msgspec.to_builtins(step) for step in summary.handshake],
        "recovery": msgspec.to_builtins(summary.recovery),
        "counting": COUNTING,
        "prompt_tokens": summary.prompt_tokens,
        "agent_calls": {name: list(counts) for name, counts in summary.agents.items()},
        "reason": summary.reason,
        "cause": summary.cause or "",
        "retries": summary.retries,
        "stretched": summary.stretched,
        "goal": [msgspec.to_builtins(check) for check in summary.goal],
        "goal_turn": summary.goal_turn,
    }


def summaries(query: Query, run_id: str) -> tuple[TrialSummary, ...]:
    """Of all trials in force, in the order of `SqlStore.load`."""
    return tuple(_summary(*row) for row in query(_TRIALS, run=run_id))


def _summary(scenario: str, number: int, seed: int, outcome: str, *counted: Any) -> TrialSummary:
    """Without an outcome it was in flight when the run died: void, and nothing of it counted."""
    if not outcome:
        return TrialSummary(
            scenario, number, seed, Outcome.VOID, reason=INTERRUPTED, cause=Cause.INTERRUPTED
        )
    calls, errors, executed, crashed, steps, recovery, tokens, agents, *rest = counted
    reason, cause, retries, stretched, goal, goal_turn = rest
    return TrialSummary(
        *(scenario, number, seed, Outcome(outcome)),
        calls=calls,
        errors=decoded(errors),
        executed=executed,
        crashed=crashed,
        handshake=tuple(HandshakeStep(**step) for step in decoded(steps)),
        recovery=msgspec.convert(decoded(recovery), TrialRecovery) if recovery else NO_DENIALS,
        prompt_tokens=tokens,
        agents={name: (denied, made) for name, (denied, made) in decoded(agents).items()},
        reason=from_column(reason),
        cause=Cause(cause) if cause else None,
        retries=retries,
        stretched=stretched,
        goal=tuple(GoalCheck(**check) for check in decoded(goal)),
        goal_turn=goal_turn,
    )


@contextmanager
def opened(store: str) -> Iterator[Query]:
    """A way to ask the store at this file or URL. Raises UsageError when there is none."""
    where = Location(store)
    if where.file is None:
        yield from _asked_by_url(store)
        return
    where.check_there()
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
    added = "SELECT count(*) FROM sqlite_master WHERE name IN ('look', 'imported', 'tags')"
    return bool(version == SCHEMA and connection.execute(added).fetchone()[0] == 3)


def _widen(store: str) -> None:
    """Add what a store of an earlier day lacks. Raises UsageError for one of a later day."""
    parts.sql.SqlStore(store).close()


def _asked_by_url(url: str) -> Iterator[Query]:
    store = parts.sql.SqlStore(url)
    try:
        with store.connect() as connection:
            yield store.query(connection)
    finally:
        store.close()


def known(query: Query) -> list[Known]:
    """The runs by what names them, newest first."""
    return [
        Known(run, model, tuple(decoded(labels or "[]")), bool(simulated), bool(usable))
        for run, model, labels, simulated, usable in query(_KNOWN)
    ]


def tables_known(query: Query) -> list[str]:
    """The ids of imported counts, newest first."""
    return [row[0] for row in query(_TABLES)]


def load_summary(query: Query, word: str) -> RunSummary:
    """The summary of a run or a table, by what names it (`store.names`). Raises UsageError."""
    runs, tables = known(query), tables_known(query)
    found = meant(word, runs, tables, where="the store")
    if found in tables:
        return _of_table(*query(_TABLE, run=found)[0])
    looks = tuple(Look(*row) for row in query(READ, run=found))
    return RunSummary.of(_run(*query(_RUN, run=found)[0], looks=looks), summaries(query, found))


def _run(*row: Any, looks: tuple[Look, ...]) -> Run:
    *plain, prefork, complete, seconds, joules, card, policies, options, scenarios = row
    given = decoded(options)
    return Run(
        **dict(zip(_PLAIN, plain, strict=True)),
        model=ModelCard(**decoded(card)),
        prefork=bool(prefork),
        policies=decoded(policies),
        complete=bool(complete),
        looks=looks,
        options=options_value(given),
        scenarios=decoded(scenarios),
        effort=None if seconds is None else Effort(seconds, joules),
    )


def _of_table(*row: Any) -> RunSummary:
    """Raises UsageError for counts of which it is not known what belongs together."""
    name, imported, source, card, trials, by_trial, calls, by_class = row
    named = [(scenario, trial) for scenario, trial in decoded(trials)]
    if not by_trial or not all(scenario for scenario, _ in named):
        raise UsageError(
            f"{name}: its table does not name the scenario and trial of each line; as calls of one "
            "trial resemble each other, no bound would hold. Import a table with these columns, or "
            "see `agenteval compare`"
        )
    classes = {key: tuple(errors) for key, errors in decoded(by_class).items()}
    counts = ErrorCounts(tuple(decoded(calls)), classes)
    model = ModelCard(**decoded(card))
    return RunSummary.of_table(ImportedCounts(name, model, imported, source, tuple(named), counts))


def options_value(given: dict[str, Any]) -> Options | None:
    """None of a run of before they were kept; once an arm was called a profile."""
    if "profile" in given:
        given = {**given, "arm": given["profile"]}
    return Options(**{name: given[name] for name in OPTIONS}) if given else None


OPTIONS = tuple(Options.__dataclass_fields__)


def decoded(column: Any) -> Any:
    """A JSON column: SQLite gives its text, other databases its value."""
    return json.loads(column) if isinstance(column, str) else column
