"""Summaries of trials in the store: written when a trial ends, read by one SELECT a run.

SQLite is read by the standard library's module: importing an ORM takes longer than `agenteval
gate` may take. Any other database goes the usual way.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from agenteval import store as parts  # orm and older are imported only when they are needed
from agenteval.core.counts import Cluster
from agenteval.core.outcome import Outcome
from agenteval.core.recovery import COUNTING, NO_DENIALS, TrialRecovery
from agenteval.core.scenario import GoalCheck
from agenteval.core.summary import TrialSummary
from agenteval.core.trial import HandshakeStep
from agenteval.errors import Cause, UsageError, fault, is_damage
from agenteval.store.connections import is_current, no_store, unopened, version_of
from agenteval.store.kept_texts import as_written, from_column
from agenteval.store.location import SCHEMA, Known, Location, check_version, connected

Query = Callable[..., Sequence[Any]]  # SQL text and its parameters by name; rows
Values = dict[str, Any]  # of one row, by column
Value = TypeVar("Value")

INTERRUPTED = "interrupted before it ended"

_KNOWN = """SELECT run.id, run.model, tags.labels, run.simulated, EXISTS (SELECT 1 FROM trial
    WHERE run_id = run.id AND NOT replaced AND outcome NOT IN ('', 'void'))
    FROM run LEFT JOIN tags ON tags.run_id = run.id ORDER BY started DESC, run.id DESC"""
_TABLES = "SELECT id FROM imported ORDER BY imported DESC"
_TRIALS = """SELECT scenario, number, seed, outcome, calls, errors, executed, crashed, handshake,
    recovery, prompt_tokens, agent_calls, agent_errors, reason, cause, retries, stretched, goal,
    goal_turn FROM trial WHERE run_id = :run AND NOT replaced ORDER BY scenario, number"""


def summary_values(summary: TrialSummary) -> Values:
    """Return the columns that a trial's row gets from its summary when it has ended."""
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
        "agent_errors": dict(summary.agent_errors),
        "reason": summary.reason,
        "cause": summary.cause or "",
        "retries": summary.retries,
        "stretched": summary.stretched,
        "goal": [msgspec.to_builtins(check) for check in summary.goal],
        "goal_turn": summary.goal_turn,
    }


def summaries(query: Query, run_id: str) -> tuple[TrialSummary, ...]:
    """Return the summaries of all trials in force, in the order of `SqlStore.load`."""
    return tuple(_summary(*row) for row in query(_TRIALS, run=run_id))


@as_written()
def _summary(scenario: str, number: int, seed: int, outcome: str, *counted: Any) -> TrialSummary:
    """Without an outcome it was in flight when the run died: void, and nothing of it counted."""
    if not outcome:
        return TrialSummary(
            scenario, number, seed, Outcome.VOID, reason=INTERRUPTED, cause=Cause.INTERRUPTED
        )
    calls, errors, executed, crashed, steps, recovery, tokens, agents, *rest = counted
    agent_errors, reason, cause, retries, stretched, goal, goal_turn = rest
    return TrialSummary(
        *(scenario, number, seed, Outcome(outcome)),
        calls=calls,
        errors=_shared(dict, errors),
        executed=executed,
        crashed=crashed,
        handshake=_shared(_handshake, steps),
        recovery=_recovery(recovery) if recovery else NO_DENIALS,
        prompt_tokens=tokens,
        agents=_shared(_agents, agents),
        agent_errors=_shared(dict, agent_errors),
        reason=from_column(reason),
        cause=Cause(cause) if cause else None,
        retries=retries,
        stretched=stretched,
        goal=_shared(_goal, goal),
        goal_turn=goal_turn,
    )


def _handshake(steps: Any) -> tuple[HandshakeStep, ...]:
    return tuple(HandshakeStep(**step) for step in steps)


def _agents(counted: Any) -> dict[str, Cluster]:
    return {name: (denied, made) for name, (denied, made) in counted.items()}


def _goal(checks: Any) -> tuple[GoalCheck, ...]:
    return tuple(GoalCheck(**check) for check in checks)


def _shared(build: Callable[[Any], Value], column: Any) -> Value:
    """Return the value of a JSON column.

    The same text is one value, as most trials are like many others.
    """
    return _of_text(build, column) if isinstance(column, str) else build(column)


@lru_cache(maxsize=4096)
def _of_text(made: Callable[[Any], Value], column: str) -> Value:
    return made(decoded(column))


def _recovery(column: Any) -> TrialRecovery:
    if isinstance(column, str):
        return msgspec.json.decode(column, type=TrialRecovery)
    return msgspec.convert(column, TrialRecovery)


@contextmanager
def opened(store: str) -> Iterator[Query]:
    """Open the store at this file or URL for queries, of whatever schema, without changing it.

    Raises UsageError if there is none or a newer agenteval wrote it, and HostError if it is
    damaged.
    """
    where = Location(store)
    where.check_there()
    if where.file is None:
        with parts.orm.connected_query(store) as query:
            yield query
        return
    with connection_to_read(where) as connection:
        connection.execute("BEGIN")  # all that is asked is of one moment, also of a run under way
        yield lambda sql, **named: connection.execute(sql, named).fetchall()


@contextmanager
def connection_to_read(where: Location) -> Iterator[sqlite3.Connection]:
    """To a file that is there, by the tables of today. Raises as `opened`."""
    connection = connected(where.file or "")
    try:
        check_version(version_of(connection.execute), str(where))
        if not is_current(connection.execute):
            parts.older.put_views(connection)
        connection.execute("PRAGMA query_only=ON")
        yield connection
    except sqlite3.DatabaseError as error:
        if is_damage(str(error)) or "disk" in str(error):  # it is full, or fails
            raise fault(str(where), str(error)) from error
        if "unable to open" in str(error):  # it needs a file next to it, in a folder of others
            raise unopened(str(where), error) from error
        raise UsageError(no_store(str(where), str(error))) from error
    finally:
        connection.close()


def is_older(where: Location) -> bool:
    """Return True if the store is there and of another schema: a first write upgrades it."""
    if not where.is_there:
        return False
    if where.file is None:
        return parts.orm.is_older(where)
    with closing(connected(where.file)) as connection:
        return version_of(connection.execute) != SCHEMA


def known_runs(query: Query) -> list[Known]:
    """Return the runs with the words that name them, newest first."""
    return [
        Known(run, model, tuple(decoded(labels or "[]")), bool(simulated), bool(usable))
        for run, model, labels, simulated, usable in query(_KNOWN)
    ]


def tables_known(query: Query) -> list[str]:
    """The ids of imported counts, newest first."""
    return [row[0] for row in query(_TABLES)]


def decoded(column: Any) -> Any:
    """A JSON column: SQLite gives its text, other databases its value. Raises HostError."""
    if not isinstance(column, str):
        return column
    try:
        return msgspec.json.decode(column)
    except msgspec.DecodeError:  # half a surrogate pair, which the standard library reads
        with as_written():
            return json.loads(column)
