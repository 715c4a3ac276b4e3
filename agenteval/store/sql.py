"""The store: `opened` to read it, and `SqlStore` to write runs and to read them whole.

It is a file of SQLite in WAL mode by default, or any database that SQLAlchemy speaks to. Shards are
the processes that play one run together.
"""

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agenteval.errors import Cause, HostError, UsageError
from agenteval.store import read, write
from agenteval.store.ingesting import Basis, Judge, LogWriter, Rescored, rescore
from agenteval.store.location import (
    SCHEMA,
    Connection,
    FileConnection,
    Location,
    Query,
    Values,
    connected,
    decoded,
    query_file,
    resolve_name,
    unopened,
    version_of,
)
from agenteval.store.older import connection_to_read
from agenteval.store.search import save_review
from agenteval.store.summaries import INTERRUPTED, known_runs, tables_known
from agenteval.store.tables import insert_row, update_row
from agenteval.store.write import (
    Hold,
    RunRecorder,
    claimed,
    imported_values,
    run_values,
)
from agenteval.trial.call import Ending, Outcome
from agenteval.trial.run import Crash, Effort, Look, Run
from agenteval.trial.summary import ImportedCounts, TrialSummary

if TYPE_CHECKING:
    import sqlalchemy


@contextmanager
def opened(store: str) -> Iterator[Query]:
    """Open the store at this file or URL for queries, of whatever schema, without changing it.

    Raises UsageError if there is none or a newer agenteval wrote it, and HostError if it is
    damaged.
    """
    where = Location(store)
    where.check_there()
    if where.file is None:
        from agenteval.store import orm  # noqa: PLC0415 -- start-up: an ORM

        with orm.connected_query(store) as query:
            yield query
        return
    with connection_to_read(where) as connection:
        connection.execute("BEGIN")  # all that is asked is of one moment, also of a run under way
        yield query_file(connection)


def is_older(where: Location) -> bool:
    """Return True if the store is there and of another schema: a first write upgrades it."""
    if not where.is_there:
        return False
    if where.file is None:
        from agenteval.store import orm  # noqa: PLC0415 -- start-up: an ORM

        return orm.is_older(where)
    with closing(connected(where.file)) as connection:
        return version_of(connection.execute) != SCHEMA


# Shards: the row of a trial is the claim of one of them.
# A shard reports that it lives by the database's clock, as those of machines differ. One that has
# reported nothing for as long as its lease is taken for gone: its trials in flight are set aside,
# to be played by others. Should it live after all, what it writes of them counts nowhere.

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
    """This process among those that play a run.

    Its methods raise UsageError for a database that shards cannot share.
    """

    connection: Connection
    part: Part
    run: str = ""
    id: int = 0

    def joins(self, model: str) -> str | None:
        """The run of this job that is to be played; None where it is to be begun.

        Without the name of a job it is the newest one, unless that has ended with this very shard.
        """
        if self.part.run:
            return self.part.run
        runs = self._ask(_JOB, model=model, job=self.part.job)
        if not runs:
            return None
        run, is_complete = runs[0]
        if is_complete and not self.part.job:
            came = self._number(_CAME, run=run, number=self.part.number)
            return None if came else str(run)
        return str(run)

    def arrive(self, run: str) -> None:
        self.run = run
        self.id = self._number(
            _ARRIVES,
            run=run,
            number=self.part.number,
            shards=self.part.agreed,
            job=self.part.job,
            host=os.uname().nodename,
            version=self.part.version,
            lease=self.part.lease,
        )

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

    def end(self) -> None:
        """Free what this shard plays, at once."""
        self._ask(_ENDS, shard=self.id)

    def seconds_together(self, run: str) -> float | None:
        """Return the seconds since the first shard came; None if for a time none played the run."""
        if self._number(_ALONE, run=run):
            return None
        spans = self._ask(_SPANS, run=run, shard=self.id)
        first = until = spans[0][0]
        last = 0.0
        for came, last_seen, lease in spans:
            # Older releases did not keep when a shard came.
            if came > until or not came:
                return None
            until = max(until, last_seen + lease / BEATS)
            last = max(last, last_seen)
        return float(last - first)

    def _ask(self, sql: str, **values: Any) -> list[Any]:
        name = self.connection.database
        if name not in _CLOCK:
            raise UsageError(f"--shard: not in a store of {name}; give PostgreSQL or SQLite")
        return self.connection.ask(sql.format(clock=_CLOCK[name]), **values)

    def _number(self, sql: str, **values: Any) -> int:
        return int(self._ask(sql, **values)[0][0])


# The store.

_THERE = "SELECT 1 FROM run WHERE id = :id UNION ALL SELECT 1 FROM imported WHERE id = :id"
_NEW = "ON CONFLICT DO NOTHING RETURNING id"
_LOOK = """INSERT INTO look
    (run_id, number, planned, trials, level, verdict, baseline, rules, at, data, judged) VALUES
    (:run, :number, :planned, :trials, :level, :verdict, :baseline, :rules, :at, :data, :judged)
    ON CONFLICT DO NOTHING RETURNING number"""
_CRASH = "INSERT INTO crash (run_id, at, said) VALUES (:run, :at, :said)"
_THE_RUN = "SELECT id FROM run WHERE id = :run"
_TAGGED = "SELECT labels, note FROM tags WHERE run_id = :run"
_TAG = "ON CONFLICT (run_id) DO UPDATE SET labels = excluded.labels, note = excluded.note"
_ASIDE = """UPDATE trial SET replaced = true,
    ending = CASE outcome WHEN '' THEN :broken ELSE ending END,
    reason = CASE outcome WHEN '' THEN :reason ELSE reason END,
    cause = CASE outcome WHEN '' THEN :cause ELSE cause END,
    outcome = CASE outcome WHEN '' THEN :void ELSE outcome END
    WHERE run_id = :run AND NOT replaced AND outcome IN ('', :also) RETURNING scenario, number"""
_KEYS = "SELECT scenario, number FROM trial WHERE run_id = :run"
_IN_FORCE = f"{_KEYS} AND NOT replaced"


class SqlStore:
    """All runs of one database. A returned write is on disk: a crash loses the call in flight."""

    def __init__(self, url: str) -> None:
        """Open the database at a SQLAlchemy URL or a plain file path, making it when new.

        An older one is upgraded: open it to write, and `summaries.opened` to read.

        Raises UsageError when it cannot be opened or was written by a newer version's schema, and
        HostError when its file is damaged or its server is away.
        """
        self._where = Location(url)
        self.url, self.shown = self._where.url, str(self._where)
        try:
            self._connection = self._connected()
        except (sqlite3.Error, OSError, ValueError) as error:
            raise unopened(self.shown, error) from error
        self.ask: Query = self._connection.ask

    def _connected(self) -> Connection:
        """Connect to a file without the ORM, unless another release made its tables."""
        if self._where.file is None:
            return self._another()
        self._where.check_ours()
        with ExitStack() as failing:
            connection = FileConnection(self._where.file, self.shown)
            # The file is closed unless all that follows succeeds.
            failing.callback(connection.close)
            if not connection.is_current():
                self.engine.dispose()  # it has upgraded them
                connection.log_ahead()
            failing.pop_all()
        return connection

    def _another(self) -> Connection:
        from agenteval.store import orm  # noqa: PLC0415 -- start-up: an ORM

        connection: Connection = orm.UrlConnection(self.engine)
        return connection

    @cached_property
    def engine(self) -> "sqlalchemy.Engine":
        """The database as SQLAlchemy knows it."""
        from agenteval.store import orm  # noqa: PLC0415 -- start-up: an ORM

        return orm.engine_of(self._where)

    def close(self) -> None:
        self._connection.close()
        if "engine" in self.__dict__:  # it was asked for
            self.engine.dispose()

    def log_writer(self, taxonomy: str) -> LogWriter:
        """Return the writer that imports sessions from logs."""
        tables = write.SessionTables(self._connection.mark, taxonomy)
        return LogWriter(self._connection, tables)

    def connect(self) -> "sqlalchemy.Connection":
        """Return a connection for queries by SQLAlchemy."""
        return self.engine.connect()

    def add(self, run: Run) -> Run:
        """Store a new run; return it as stored: another one may just have taken its id."""
        return replace(run, id=self._added("run", run_values(run)))

    def exists(self, run_id: str) -> bool:
        """Return True if a run, or imported counts, have this id."""
        return bool(self.ask(_THERE, id=run_id))

    def _added(self, table: str, values: Values) -> str:
        """The id that it has now: its own, or with the first number behind it that is free."""
        ident, number = str(values["id"]), 1
        # Two runs may start in one second.
        while self.exists(ident) or not self._insert(table, values | {"id": ident}, _NEW):
            number += 1
            ident = f"{values['id']}-{number}"
        return ident

    def _insert(
        self,
        table: str,
        values: Values,
        more: str,
    ) -> list[Any]:
        return insert_row(self._connection, table, values, more)

    def add_imported(self, imported: ImportedCounts) -> ImportedCounts:
        """Store imported counts as `add` does a run."""
        return replace(imported, id=self._added("imported", imported_values(imported)))

    def tag(
        self,
        run_id: str,
        labels: Sequence[str],
        note: str | None,
        *,
        off: bool,
    ) -> None:
        """Give the run labels, or take them `off`, and a note where there is one."""
        with self._connection.together():
            if self._connection.database == "postgresql":  # another one may add a label, too
                self.ask(f"{_THE_RUN} FOR UPDATE", run=run_id)
            before = self.ask(_TAGGED, run=run_id)
            had, noted = before[0] if before else ("[]", "")
            kept = [one for one in decoded(had) if one not in labels]
            values = {"labels": kept if off else [*kept, *labels], "run_id": run_id}
            self._insert(
                "tags",
                values | {"note": noted if note is None else note},
                _TAG,
            )

    def served_at(self, run_id: str, base_url: str) -> None:
        """Add servers, by their URLs with a space between, to those that the run names."""
        with self._connection.together():
            card = decoded(self.ask("SELECT card FROM run WHERE id = :run", run=run_id)[0][0])
            urls = dict.fromkeys(f"{card.get('base_url', '')} {base_url}".split())
            changed = {"card": card | {"base_url": " ".join(urls)}}
            update_row(self._connection, "run", run_id, changed)

    def close_run(
        self,
        run_id: str,
        *,
        complete: bool,
        second_reader: Mapping[str, int],
        effort: Effort | None = None,
    ) -> None:
        """Keep how the run ended: with all its trials or not, how the second reader did, the cost.

        `effort` is of everything that is stored of the run; None where a part is not known.
        """
        values = {"complete": complete, "second_reader": dict(second_reader)}
        values |= asdict(effort) if effort else {"seconds": None, "joules": None}
        update_row(self._connection, "run", run_id, values)

    def close_part(
        self,
        run_id: str,
        shard: Shard | None = None,
        *,
        complete: bool,
        second_reader: Mapping[str, int],
    ) -> None:
        """Close the run as `close_run` does, by one of several processes.

        The second reader's answers are added to those of the others. What is still in flight of its
        shard is free at once.
        """
        asked = "SELECT complete, second_reader, seconds FROM run WHERE id = :run"
        with self.claimed(f"{run_id}: closing", Hold.WAITING), self._connection.together():
            (was, answers, seconds), *_ = self.ask(asked, run=run_id)
            if shard and complete and not was:
                seconds = shard.seconds_together(run_id)
            if shard:
                shard.end()
            counts = Counter(decoded(answers)) + Counter(second_reader)
            values = {"complete": bool(was or complete), "second_reader": dict(counts)}
            update_row(
                self._connection,
                "run",
                run_id,
                values | {"seconds": seconds},
            )

    def look(self, run_id: str, look: Look) -> bool:
        """Keep what a gate saw of a run under way; False where there is a look of that number."""
        return bool(self.ask(_LOOK, run=run_id, **asdict(look)))

    def recorder(
        self,
        run: Run,
        digests: Mapping[str, str],
        shard: Shard | None = None,
    ) -> RunRecorder:
        """Return the recorder of the run's trials; `RunRecorder` explains `digests`."""
        part = shard.id if shard else None
        return RunRecorder(
            self._connection,
            run.id,
            run.taxonomy,
            digests,
            part,
        )

    def shard(self, part: Part) -> Shard:
        """This process, among others that play the same runs."""
        return Shard(self._connection, part)

    def runs(self) -> Sequence[Run]:
        """All runs, newest first, without their trials."""
        return [read.without_trials(self.ask, run.id) for run in known_runs(self.ask)]

    def load(self, run_id: str) -> Run:
        """A whole run, by what names it (`store.location`). Raises UsageError."""
        return read.load(self.ask, run_id, where=self.shown)

    def summarized(self, run_id: str) -> tuple[Run, tuple[TrialSummary, ...]]:
        """A run without its trials, and their summaries: a small part of what `load` reads."""
        return read.summarized(self.ask, run_id, where=self.shown)

    def review(
        self,
        call_id: int,
        label: str,
        note: str,
        at: str,
    ) -> bool:
        """Store a person's review of a call (`store.search.save_review`)."""
        return save_review(self._connection, call_id, label, note, at)

    def rescore(
        self,
        run_id: str,
        judge: Judge,
        basis: Basis,
    ) -> Rescored:
        """Judge a run's calls again (`store.ingesting.rescore`); both judgements are kept."""
        return rescore(self._connection, run_id, judge, basis)

    def claimed(self, run_id: str, how: Hold = Hold.ALONE) -> AbstractContextManager[None]:
        """The run for one process, or some. Raises UsageError while another one plays it."""
        return claimed(self._where, self._another, run_id, how)

    def crash(self, run_id: str, crash: Crash) -> None:
        """Keep that the server crashed."""
        self.ask(_CRASH, run=run_id, **asdict(crash))

    def set_aside(self, run_id: str, *, voids: bool) -> Sequence[tuple[str, int]]:
        """Have trials played again: those in flight when the run died and, if wanted, the voids.

        They are kept, and marked as replaced. Gives the scenario and number of each.
        """
        broken = {"broken": Ending.BROKEN, "reason": INTERRUPTED, "cause": Cause.INTERRUPTED}
        also = Outcome.VOID if voids else ""
        rows = self.ask(_ASIDE, run=run_id, void=Outcome.VOID, also=also, **broken)
        return [(str(scenario), int(number)) for scenario, number in rows]

    def played(self, run_id: str) -> frozenset[tuple[str, int]]:
        """Scenario and number of every trial in force."""
        return self._keys(_IN_FORCE, run_id)

    def ended(self, run_id: str) -> int:
        """Return the number of its trials that have ended, void ones too."""
        return len(self._keys(f"{_IN_FORCE} AND outcome != ''", run_id))

    def trials_set_aside(self, run_id: str) -> frozenset[tuple[str, int]]:
        """Return the trials that were set aside, and have not been played again."""
        return self._keys(_KEYS, run_id) - self.played(run_id)

    def _keys(self, asked: str, run_id: str) -> frozenset[tuple[str, int]]:
        return frozenset((scenario, number) for scenario, number in self.ask(asked, run=run_id))

    def resolve_name(self, word: str, *, whatever: bool = False) -> str:
        """Return the id of the run or the imported counts that a user names. Raises UsageError."""
        ask, where = self.ask, self.shown
        return resolve_name(
            word, known_runs(ask), tables_known(ask), where=where, whatever=whatever
        )


def keep_look(store: str, run_id: str, look: Look) -> str:
    """Keep what a gate saw of a run; why it was not kept, or nothing where it was.

    To judge is to read: an older store is not upgraded for it.
    """
    try:
        if is_older(Location(store)):
            return "the store is of an older schema, which `agenteval store upgrade` changes"
        with closing(SqlStore(store)) as opened:
            return "" if opened.look(run_id, look) else "another gate looked at the same time"
    except (HostError, UsageError):
        return "the store cannot be written"
