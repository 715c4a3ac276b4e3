"""Shards: processes that play one run together. The row of a trial is the claim of one of them.

A shard tells that it lives by the database's clock, as those of machines differ. One that has told
nothing for as long as its lease is taken for gone: its trials in flight are set aside, to be played
by others. Should it live after all, what it writes of them counts nowhere.
"""

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agenteval.core.outcome import Ending, Outcome
from agenteval.errors import Cause, UsageError
from agenteval.store.connections import Connection
from agenteval.store.summaries import INTERRUPTED

LEASE = 60.0
_CLOCK = {
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) AS double precision)",
}
_JOB = """SELECT run.id, run.complete FROM run WHERE model = :model AND EXISTS
    (SELECT 1 FROM shard WHERE run_id = run.id AND job = :job) ORDER BY started DESC, id DESC"""
_FIRST = "SELECT shards, version FROM shard WHERE run_id = :run ORDER BY id LIMIT 1"
_CAME = "SELECT count(*) FROM shard WHERE run_id = :run AND number = :number"
_ARRIVES = """INSERT INTO shard (run_id, number, shards, job, host, version, lease, seen, came)
    VALUES (:run, :number, :shards, :job, :host, :version, :lease, {clock}, {clock}) RETURNING id"""
_BEATS = "UPDATE shard SET seen = {clock} WHERE id = :shard"
_ENDS = "UPDATE shard SET seen = -{clock} WHERE id = :shard"
_SPANS = """SELECT came, CASE WHEN id = :shard THEN {clock} ELSE abs(seen) END AS seen, lease
    FROM shard WHERE run_id = :run ORDER BY came"""
_ALONE = "SELECT count(*) FROM trial WHERE run_id = :run AND shard IS NULL"
BEATS = 4  # in the time of a lease
_PLAYED = """SELECT id FROM run WHERE id IN (SELECT run_id FROM shard WHERE job = :job)
    ORDER BY started, id"""
_LET_GO = "UPDATE shard SET seen = -abs(seen) WHERE job = :job"
# Without a shard it was begun by one process alone, which is gone: it would hold the whole run.
# One that was seen later than now was seen before the clock was put back, and not since.
_TAKES_OVER = """UPDATE trial SET replaced = true, ending = :broken, outcome = :void,
    reason = :reason, cause = :cause
    WHERE run_id = :run AND NOT replaced AND outcome = '' AND (shard IS NULL OR shard IN
    (SELECT id FROM shard WHERE run_id = :run AND abs({clock} - seen) > lease))"""
_IN_FLIGHT = """SELECT count(*) FROM trial
    WHERE run_id = :run AND NOT replaced AND outcome = ''"""


def _clock_of(connection: Connection) -> str:
    """Its time, in SQL. Raises UsageError for a database that shards cannot share."""
    name = connection.database
    if name not in _CLOCK:
        raise UsageError(f"--shard: not in a store of {name}; give PostgreSQL or SQLite")
    return _CLOCK[name]


@dataclass(frozen=True, slots=True)
class Part:
    """The number of one shard among all. `job` is the scheduler's name for all of them."""

    number: int  # from 1
    of: int
    job: str = ""
    lease: float = LEASE  # seconds
    version: str = ""  # of agenteval
    trials: int = 0  # at a time, of a worker of a cluster; others have each as many as the run
    before: int = 0  # how many at a time the workers before it have
    run: str = ""  # that the workers are to go on with, whatever its job

    def others_before(self, at_a_time: int) -> int:
        """Return the number of trials that earlier shards play at a time.

        A shard plays `at_a_time` itself.
        """
        return self.before if self.trials else (self.number - 1) * at_a_time

    @property
    def label(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def agreed(self) -> int:
        """The number of shards, if all must state the same; 0 for a cluster, which may grow."""
        return 0 if self.trials else self.of

    def __str__(self) -> str:
        what = "worker" if self.trials else "--shard"
        return f"{what} {self.label} on {os.uname().nodename}"


@dataclass
class Shard:
    """This process among those that play a run."""

    connection: Connection
    part: Part
    run: str = ""
    id: int = 0

    @cached_property
    def _clock(self) -> str:
        return _clock_of(self.connection)

    def joins(self, model: str) -> str | None:
        """The run of this job that is to be played; None where it is to be begun.

        Without the name of a job it is the newest one, unless that has ended with this very shard.
        """
        if self.part.run:
            return self.part.run
        found = self._ask(_JOB, model=model, job=self.part.job)
        if not found:
            return None
        run, complete = found[0]
        over = complete and not self.part.job
        came = over and self._number(_CAME, run=run, number=self.part.number)
        return None if came else str(run)

    def arrive(self, run: str) -> None:
        values = {
            "run": run,
            "number": self.part.number,
            "shards": self.part.agreed,
            "job": self.part.job,
            "host": os.uname().nodename,
            "version": self.part.version,
            "lease": self.part.lease,
        }
        self.run, self.id = run, self._number(_ARRIVES, **values)

    def check(self, run: str) -> None:
        """Raises UsageError where the others are of another number or version."""
        for shards, version in self._ask(_FIRST, run=run):
            if shards and self.part.agreed not in {0, shards}:
                raise UsageError(
                    f"{self.part}: run {run} is played by {shards} shards. Give each of them the "
                    "same number, or another --job to begin a new run"
                )
            if version != self.part.version:
                raise UsageError(
                    f"{self.part}: this is agenteval {self.part.version}, and run {run} was begun "
                    f"by {version}. Install the same everywhere"
                )

    def beat(self) -> None:
        """Report that this shard lives."""
        self._ask(_BEATS, shard=self.id)

    def take_over(self) -> None:
        """Set aside what is in flight of shards that are gone."""
        known = {"broken": Ending.BROKEN, "void": Outcome.VOID, "cause": Cause.INTERRUPTED}
        self._ask(_TAKES_OVER, run=self.run, reason=INTERRUPTED, **known)

    def in_flight(self) -> int:
        """The trials of the run that somebody plays."""
        return self._number(_IN_FLIGHT, run=self.run)

    def played(self) -> list[str]:
        """The runs of this job, in the order in which they began."""
        return [str(run) for (run,) in self._ask(_PLAYED, job=self.part.job)]

    def let_go(self) -> None:
        """Free what all shards of this job play, which are known to be gone."""
        self._ask(_LET_GO, job=self.part.job)

    def _ask(self, sql: str, **values: Any) -> list[Any]:
        return self.connection.ask(sql.format(clock=self._clock), **values)

    def _number(self, sql: str, **values: Any) -> int:
        return int(self._ask(sql, **values)[0][0])


def end(connection: Connection, shard: int) -> None:
    """Free what this shard plays, at once."""
    connection.ask(_ENDS.format(clock=_clock_of(connection)), shard=shard)


def seconds_together(connection: Connection, run: str, closing: int) -> float | None:
    """Return the seconds since the first shard came; None if for a time none played the run."""
    if connection.ask(_ALONE, run=run)[0][0]:
        return None
    asked = _SPANS.format(clock=_clock_of(connection))
    spans = connection.ask(asked, run=run, shard=closing)
    first, last = spans[0][0], 0.0
    until = first
    for came, seen, lease in spans:
        if came > until or not came:  # as older releases did not keep
            return None
        until, last = max(until, seen + lease / BEATS), max(last, seen)
    return float(last - first)
