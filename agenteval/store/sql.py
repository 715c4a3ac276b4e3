"""Runs in a SQL database through SQLModel: SQLite in WAL mode by default."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, event, text
from sqlalchemy.exc import DatabaseError, InterfaceError, OperationalError, SQLAlchemyError
from sqlmodel import Session, col, create_engine, select

from agenteval.core.run import Crash, Effort, Look, Run
from agenteval.core.summary import ImportedCounts, TrialSummary
from agenteval.errors import AgentevalError, UsageError, fault, is_damage
from agenteval.store import bound_rows, ingesting, loading, run_mapping
from agenteval.store.location import Location, meant
from agenteval.store.migration import check_schema, make_tables
from agenteval.store.recorder import Hold, RunRecorder, claimed
from agenteval.store.rescoring import Basis, Judge, Rescored, rescore
from agenteval.store.reviews import put
from agenteval.store.rows import CrashRow, RunRow, TagsRow, TrialRow
from agenteval.store.run_mapping import (
    IN_FORCE,
    ImportedRow,
    imported_row,
    set_aside,
)
from agenteval.store.shards import Part, Shard, end, seconds_together
from agenteval.store.summaries import Query, known, tables_known


class SqlStore:
    """All runs of one database. A returned write is on disk: a crash loses the call in flight."""

    def __init__(self, url: str) -> None:
        """Open the database at a SQLAlchemy URL or a plain file path, making it when new.

        Raises UsageError when it cannot be opened or was written by a newer version's schema, and
        HostError when its file is damaged or its server is away.
        """
        where = Location(url)
        self.url, self.shown = where.url, str(where)
        self._writing: Connection | None = None  # of the recorders
        try:
            self._engine = create_engine(self.url)
            if self._engine.dialect.name == "sqlite":
                _prepare_sqlite(self._engine)
            check_schema(self._engine, self.shown)
            make_tables(self._engine)
        except (SQLAlchemyError, ModuleNotFoundError, OSError, ValueError) as error:
            raise _unopened(self.shown, error) from error
        _tell_of_faults(self._engine, self.shown)

    def close(self) -> None:
        if self._writing is not None:
            self._writing.close()
        self._engine.dispose()

    def log_writer(self, taxonomy: str) -> ingesting.LogWriter:
        """What takes in sessions out of logs."""
        tables = bound_rows.SessionTables(self._engine.dialect, ingesting.SessionRow, taxonomy)
        return ingesting.LogWriter(self._engine.connect(), tables)

    def connect(self) -> Connection:
        """For questions in plain SQL."""
        return self._engine.connect()

    def add(self, run: Run) -> None:
        with Session(self._engine) as session:
            session.add(run_mapping.run_row(run))
            session.commit()

    def exists(self, run_id: str) -> bool:
        """Whether a run, or imported counts, have this id."""
        with Session(self._engine) as session:
            return any(session.get(table, run_id) for table in (RunRow, ImportedRow))

    def free_id(self, wanted: str) -> str:
        """`wanted`, or the first number behind it that no run has: two may start in one second."""
        found, number = wanted, 1
        while self.exists(found):
            number += 1
            found = f"{wanted}-{number}"
        return found

    def add_imported(self, imported: ImportedCounts) -> None:
        with Session(self._engine) as session:
            session.add(imported_row(imported))
            session.commit()

    def tag(self, run_id: str, labels: Sequence[str], note: str | None, *, off: bool) -> None:
        """Give the run labels, or take them `off`, and a note where there is one."""
        with Session(self._engine) as session:
            row = session.get(TagsRow, run_id) or TagsRow(run_id=run_id)
            kept = [one for one in row.labels if one not in labels]
            row.labels = kept if off else [*kept, *labels]
            row.note = row.note if note is None else note
            session.add(row)
            session.commit()

    def served_at(self, run_id: str, base_url: str) -> None:
        """Add servers, by their URLs with a space between, to those that the run names."""
        with Session(self._engine) as session:
            row = session.get_one(RunRow, run_id)
            each = dict.fromkeys(f"{row.card.get('base_url', '')} {base_url}".split())
            row.card = {**row.card, "base_url": " ".join(each)}
            session.commit()

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
        with Session(self._engine) as session:
            row = session.get_one(RunRow, run_id)
            row.complete, row.second_reader = complete, dict(second_reader)
            row.seconds = effort.seconds if effort else None
            row.joules = effort.joules if effort else None
            session.commit()

    def close_part(
        self,
        run_id: str,
        shard: Shard | None = None,
        *,
        complete: bool,
        second_reader: Mapping[str, int],
    ) -> None:
        """As `close_run`, by one of several processes, whose answers are added to the others'.

        What is still in flight of its shard is free at once.
        """
        with self.claimed(f"{run_id}: closing", Hold.WAITING), Session(self._engine) as session:
            row = session.get_one(RunRow, run_id)
            row.second_reader = dict(Counter(row.second_reader) + Counter(second_reader))
            if shard:
                if complete and not row.complete:
                    row.seconds = seconds_together(session.connection(), run_id, shard.id)
                end(session.connection(), shard.id)
            row.complete = row.complete or complete
            session.commit()

    def look(self, run_id: str, look: Look) -> None:
        """Keep what a gate saw of a run under way."""
        with Session(self._engine) as session:
            session.add(run_mapping.look_row(run_id, look))
            session.commit()

    def recorder(
        self, run: Run, digests: Mapping[str, str], shard: Shard | None = None
    ) -> RunRecorder:
        """Where the run's trials are written; `digests` is explained in `RunRecorder`."""
        part = shard.id if shard else None
        return RunRecorder(self._written(), run.id, run.taxonomy, digests, part)

    def shard(self, part: Part) -> Shard:
        """This process, among others that play the same runs."""
        return Shard(self._written(), part)

    def _written(self) -> Connection:
        if self._writing is None:
            self._writing = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        return self._writing

    def runs(self) -> Sequence[Run]:
        """All runs, newest first, without their trials."""
        with self.connect() as connection:
            ask = self.query(connection)
            return [loading.without_trials(ask, run.id) for run in known(ask)]

    def load(self, run_id: str) -> Run:
        """A whole run, by what names it (`store.location`). Raises UsageError."""
        with self.connect() as connection:
            return loading.load(self.query(connection), run_id, where=self.shown)

    @staticmethod
    def query(connection: Connection) -> Query:
        """The connection as `store.summaries` asks."""
        return lambda sql, **named: connection.execute(text(sql), named).fetchall()

    def summarized(self, run_id: str) -> tuple[Run, tuple[TrialSummary, ...]]:
        """A run without its trials, and their summaries: a small part of what `load` reads."""
        with self.connect() as connection:
            return loading.summarized(self.query(connection), run_id, where=self.shown)

    def review(self, call_id: int, label: str, note: str, at: str) -> bool:
        """Keep what a person says of a call (`store.reviews.put`)."""
        with Session(self._engine) as session:
            return put(session, call_id, label, note, at)

    def rescore(self, run_id: str, judge: Judge, basis: Basis) -> Rescored:
        """Judge a run's calls again (`store.rescoring`); both judgements are kept."""
        with Session(self._engine) as session:
            return rescore(session, run_id, judge, basis)

    def claimed(self, run_id: str, how: Hold = Hold.ALONE) -> AbstractContextManager[None]:
        """The run for one process, or some. Raises UsageError while another one plays it."""
        return claimed(self._engine, run_id, how)

    def crash(self, run_id: str, crash: Crash) -> None:
        """Keep that the server crashed."""
        with Session(self._engine) as session:
            session.add(CrashRow(run_id=run_id, **asdict(crash)))
            session.commit()

    def set_aside(self, run_id: str, *, voids: bool) -> Sequence[tuple[str, int]]:
        """Have trials played again: those in flight when the run died and, if wanted, the voids.

        They are kept, and marked as replaced. Gives the scenario and number of each.
        """
        with Session(self._engine) as session:
            return set_aside(session, run_id, voids=voids)

    def played(self, run_id: str) -> frozenset[tuple[str, int]]:
        """Scenario and number of every trial in force."""
        return self._keys(run_id, IN_FORCE)

    def ended(self, run_id: str) -> int:
        """How many of its trials have ended, void ones too."""
        return len(self._keys(run_id, IN_FORCE, col(TrialRow.outcome) != ""))

    def left(self, run_id: str) -> frozenset[tuple[str, int]]:
        """Those that were set aside, and have not been played again."""
        return self._keys(run_id) - self.played(run_id)

    def _keys(self, run_id: str, *wanted: ColumnElement[bool]) -> frozenset[tuple[str, int]]:
        query = select(TrialRow.scenario, TrialRow.number)
        with Session(self._engine) as session:
            return frozenset(session.exec(query.where(TrialRow.run_id == run_id, *wanted)).all())

    def meant(self, word: str, *, whatever: bool = False) -> str:
        """The id of the run or of the imported counts that a user means. Raises UsageError."""
        with self.connect() as connection:
            ask, where = self.query(connection), self.shown
            return meant(word, known(ask), tables_known(ask), where=where, whatever=whatever)


def _prepare_sqlite(engine: Engine) -> None:
    """WAL, so that `agenteval show` reads while a run writes."""
    file = engine.url.database
    if file and file != ":memory:":
        Path(file).parent.mkdir(parents=True, exist_ok=True)

    @event.listens_for(engine, "connect")
    def _settings(connection: Any, _record: Any) -> None:
        for setting in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=10000"):
            connection.execute(f"PRAGMA {setting}")


# What libpq says of a server that is down, starts or is full; not of a name that it does not know.
_AWAY = re.compile(
    "Is the server running|the database system is|timeout expired|closed the connection"
    "|too many clients|remaining connection slots"
)


def _unopened(shown: str, error: Exception) -> AgentevalError:
    """The user's error, unless the file is damaged or the server is away for now."""
    said = str(error)
    reason = said.splitlines()[0]
    if is_damage(reason) or _AWAY.search(said):
        return fault(shown, reason)
    cure = (
        "install its driver (for PostgreSQL: agenteval-gate[postgres])"
        if isinstance(error, ModuleNotFoundError)
        else "give a file path or a database URL such as sqlite:///runs.db"
    )
    return UsageError(f"--store {shown}: cannot be opened ({reason}); {cure}")


def _tell_of_faults(engine: Engine, shown: str) -> None:
    """Make one line of what the database can do nothing about: a full disk, a lost connection."""

    @event.listens_for(engine, "handle_error")
    def _told(failed: Any) -> None:
        error, said = failed.sqlalchemy_exception, str(failed.original_exception)
        of_the_host = isinstance(error, OperationalError | InterfaceError) or (
            type(error) is DatabaseError
        )
        # these would be faults of our SQL
        ours = said.startswith("no such ") or said.endswith(": syntax error")
        if of_the_host and not ours:
            raise fault(shown, said) from error
