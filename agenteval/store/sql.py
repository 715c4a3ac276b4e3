"""Runs in a SQL database: a file of SQLite in WAL mode by default, or what SQLAlchemy speaks to."""

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import asdict, replace
from functools import cached_property
from typing import TYPE_CHECKING

from agenteval import store as parts  # whose orm imports an ORM: only when it is needed
from agenteval.core.outcome import Ending, Outcome
from agenteval.core.run import Crash, Effort, Look, Run
from agenteval.core.summary import ImportedCounts, TrialSummary
from agenteval.errors import Cause, HostError, UsageError
from agenteval.store import bound_rows, loading
from agenteval.store.bound_rows import (
    IMPORTED,
    RUN,
    TAGS,
    TableWriter,
    imported_values,
    run_values,
)
from agenteval.store.connections import Connection, FileConnection, unopened
from agenteval.store.location import Location, resolve_name
from agenteval.store.recorder import Hold, RunRecorder, claimed
from agenteval.store.reviews import save_review
from agenteval.store.shards import Part, Shard, end, seconds_together
from agenteval.store.summaries import (
    INTERRUPTED,
    Query,
    Values,
    decoded,
    is_older,
    known_runs,
    tables_known,
)

if TYPE_CHECKING:
    import sqlalchemy

    from agenteval.store.ingesting import LogWriter
    from agenteval.store.rescoring import Basis, Judge, Rescored

_THERE = "SELECT 1 FROM run WHERE id = :id UNION ALL SELECT 1 FROM imported WHERE id = :id"
_NEW = " ON CONFLICT DO NOTHING RETURNING id"  # two may start in one second
_LOOK = """INSERT INTO look
    (run_id, number, planned, trials, level, verdict, baseline, rules, at, data, judged) VALUES
    (:run, :number, :planned, :trials, :level, :verdict, :baseline, :rules, :at, :data, :judged)
    ON CONFLICT DO NOTHING RETURNING number"""
_CRASH = "INSERT INTO crash (run_id, at, said) VALUES (:run, :at, :said)"
_THE_RUN = "SELECT id FROM run WHERE id = :run"
_TAGGED = "SELECT labels, note FROM tags WHERE run_id = :run"
_TAG = " ON CONFLICT (run_id) DO UPDATE SET labels = excluded.labels, note = excluded.note"
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
        """To a file without an ORM, unless its tables are of another day."""
        if self._where.file is None:
            return self._another()
        self._where.check_ours()
        with ExitStack() as failing:
            connection = FileConnection(self._where.file, self.shown)
            failing.callback(connection.close)
            if not connection.is_current():
                self.engine.dispose()  # it has upgraded them
                connection.log_ahead()
            failing.pop_all()
        return connection

    def _another(self) -> Connection:
        connection: Connection = parts.orm.UrlConnection(self.engine)
        return connection

    @cached_property
    def engine(self) -> "sqlalchemy.Engine":
        """The database as SQLAlchemy knows it."""
        return parts.orm.engine_of(self._where)

    def close(self) -> None:
        self._connection.close()
        if "engine" in self.__dict__:  # it was asked for
            self.engine.dispose()

    def log_writer(self, taxonomy: str) -> "LogWriter":
        """Return the writer that imports sessions from logs."""
        tables = bound_rows.SessionTables(self._connection.mark, taxonomy)
        return parts.ingesting.LogWriter(self.engine.connect(), tables)

    def connect(self) -> "sqlalchemy.Connection":
        """For questions by SQLAlchemy."""
        return self.engine.connect()

    def _add(self, table: str, columns: str, values: Values, more: str = "") -> bool:
        """Insert a row; return True if `more` made the statement return one."""
        written = TableWriter(table, columns, self._connection.mark)
        return bool(self._connection.execute(written.insert + more, written.bind(values)))

    def _update_run(self, run_id: str, columns: str, values: Values) -> None:
        written = TableWriter("run", columns, self._connection.mark)
        self._connection.execute(written.update, (*written.bind(values), run_id))

    def add(self, run: Run) -> Run:
        """Store a new run; return it as stored: another one may just have taken its id."""
        return replace(run, id=self._added("run", RUN, run_values(run)))

    def exists(self, run_id: str) -> bool:
        """Return True if a run, or imported counts, have this id."""
        return bool(self.ask(_THERE, id=run_id))

    def _added(self, table: str, columns: str, values: Values) -> str:
        """The id that it has now: its own, or with the first number behind it that is free."""
        ident, number = str(values["id"]), 1
        while self.exists(ident) or not self._add(table, columns, values | {"id": ident}, _NEW):
            number += 1
            ident = f"{values['id']}-{number}"
        return ident

    def add_imported(self, imported: ImportedCounts) -> ImportedCounts:
        """Store imported counts as `add` does a run."""
        return replace(imported, id=self._added("imported", IMPORTED, imported_values(imported)))

    def tag(self, run_id: str, labels: Sequence[str], note: str | None, *, off: bool) -> None:
        """Give the run labels, or take them `off`, and a note where there is one."""
        with self._connection.together():
            if self._connection.database == "postgresql":  # another one may add a label, too
                self.ask(f"{_THE_RUN} FOR UPDATE", run=run_id)
            before = self.ask(_TAGGED, run=run_id)
            had, noted = before[0] if before else ("[]", "")
            kept = [one for one in decoded(had) if one not in labels]
            values = {"labels": kept if off else [*kept, *labels], "run_id": run_id}
            self._add("tags", TAGS, values | {"note": noted if note is None else note}, _TAG)

    def served_at(self, run_id: str, base_url: str) -> None:
        """Add servers, by their URLs with a space between, to those that the run names."""
        with self._connection.together():
            card = decoded(self.ask("SELECT card FROM run WHERE id = :run", run=run_id)[0][0])
            each = dict.fromkeys(f"{card.get('base_url', '')} {base_url}".split())
            self._update_run(run_id, "card{}", {"card": card | {"base_url": " ".join(each)}})

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
        values = {"complete": complete, "second_reader": dict(second_reader)} | (
            asdict(effort) if effort else {"seconds": None, "joules": None}
        )
        self._update_run(run_id, "complete second_reader{} seconds joules", values)

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
                seconds = seconds_together(self._connection, run_id, shard.id)
            if shard:
                end(self._connection, shard.id)
            counts = Counter(decoded(answers)) + Counter(second_reader)
            values = {"complete": bool(was or complete), "second_reader": dict(counts)}
            columns = "complete second_reader{} seconds"
            self._update_run(run_id, columns, values | {"seconds": seconds})

    def look(self, run_id: str, look: Look) -> bool:
        """Keep what a gate saw of a run under way; False where there is a look of that number."""
        return bool(self.ask(_LOOK, run=run_id, **asdict(look)))

    def recorder(
        self, run: Run, digests: Mapping[str, str], shard: Shard | None = None
    ) -> RunRecorder:
        """Return the recorder of the run's trials; `RunRecorder` explains `digests`."""
        part = shard.id if shard else None
        return RunRecorder(self._connection, run.id, run.taxonomy, digests, part)

    def shard(self, part: Part) -> Shard:
        """This process, among others that play the same runs."""
        return Shard(self._connection, part)

    def runs(self) -> Sequence[Run]:
        """All runs, newest first, without their trials."""
        return [loading.without_trials(self.ask, run.id) for run in known_runs(self.ask)]

    def load(self, run_id: str) -> Run:
        """A whole run, by what names it (`store.location`). Raises UsageError."""
        return loading.load(self.ask, run_id, where=self.shown)

    def summarized(self, run_id: str) -> tuple[Run, tuple[TrialSummary, ...]]:
        """A run without its trials, and their summaries: a small part of what `load` reads."""
        return loading.summarized(self.ask, run_id, where=self.shown)

    def review(self, call_id: int, label: str, note: str, at: str) -> bool:
        """Store a person's review of a call (`store.reviews.save_review`)."""
        return save_review(self._connection, call_id, label, note, at)

    def rescore(self, run_id: str, judge: "Judge", basis: "Basis") -> "Rescored":
        """Judge a run's calls again (`store.rescoring`); both judgements are kept."""
        judged: Rescored = parts.rescoring.rescore(self.engine, run_id, judge, basis)
        return judged

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
