"""Writing a run: as it happens, by one process, a row for each turn and call at once.

First the rows of a run and of imported counts, and of sessions from logs, which are bound wherever
they were read. Then the recorder of a run, and the claim by which one process alone plays it.
"""

import fcntl
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from agenteval.errors import HostError, UsageError
from agenteval.protocols import TrialKey
from agenteval.store import read
from agenteval.store.location import Bound, Connection, Location, Values
from agenteval.store.tables import (
    TableWriter,
    blank_row,
    columns_but,
    insert_row,
    writer_of,
)
from agenteval.store.texts import prompt_values
from agenteval.trial.run import Run, judged_by
from agenteval.trial.session import Session
from agenteval.trial.summary import ImportedCounts
from agenteval.trial.trial import CallRecord, Trial, Turn

_PLACE = ("run_id", "number", "scenario", "seed")  # of a trial; known when it begins
# The column `recovery` stays NULL until the trial has ended.
_AT_FIRST = columns_but("trial", "id", "recovery")
_AT_LAST = columns_but("trial", "id", *_PLACE, "shard", "replaced")


def run_values(run: Run) -> Values:
    effort, options, arm, source = run.effort, run.options, run.arm, run.source
    values = {name: getattr(run, name) for name in columns_but("run", *read.RUN_OTHERWISE)}
    return values | {
        "model": run.model.name,
        "simulated": run.model.simulated,
        "seconds": effort.seconds if effort else None,
        "joules": effort.joules if effort else None,
        "card": asdict(run.model),
        "options": asdict(options) if options else {},
        "arm": asdict(arm) if arm else {},
        "source": asdict(source) if source else {},
    }


def imported_values(imported: ImportedCounts) -> Values:
    counts = imported.counts
    return {
        "id": imported.id,
        "imported": imported.imported,
        "source": imported.source,
        "card": asdict(imported.model),
        "trials": imported.trials,
        "by_trial": counts.by_trial,
        "calls": counts.calls,
        "by_class": counts.by_class,
    }


# Sessions from logs.

_OF_SESSION = ("agent", "version", "project", "parent", "path", "part", "began", "ended")


class LoggedRecord(NamedTuple):
    """A call as it is stored: with what is derived of it, next to what was recorded."""

    record: CallRecord
    derived: str
    offending: str
    shape: str


@dataclass(frozen=True, slots=True)
class Judged:
    """A session with the trial that it is; its number is given to it where it is stored.

    `trial` has what it takes to count it; `records` what is kept of each call.
    """

    session: Session
    trial: Trial
    records: Sequence[LoggedRecord]
    policies: Mapping[str, str]
    policy: str
    differ: int


@dataclass(frozen=True, slots=True)
class Entry:
    """All rows of a session, but for what only the store knows: its run, its trial, its number."""

    session: str
    part: int
    model: str
    size: tuple[int, int, int]
    scenario: str
    seed: int
    trial: Bound
    about: Bound
    turns: Sequence[Bound]
    calls: Sequence[Bound]


class SessionTables:
    """The tables that a session is written to; `mark` is that of the database's driver."""

    def __init__(self, mark: str, taxonomy: str) -> None:
        self._taxonomy = taxonomy
        self.trial = TableWriter("trial", mark, set_on_insert=_PLACE)
        self.turn = TableWriter("turn", mark, set_on_insert=("trial_id",))
        self.call = TableWriter("call", mark, set_on_insert=("trial_id",))
        self.session = TableWriter(
            "session",
            mark,
            set_on_insert=("run_id", "trial_id"),
        )

    def entry(self, judged: Judged) -> Entry:
        session, trial = judged.session, judged.trial
        turns = (read.turn_values(0, n, turn, agent="") for n, turn in enumerate(trial.turns))
        return Entry(
            session=session.id,
            part=session.part,
            model=session.model,
            size=session.size,
            scenario=trial.scenario,
            seed=trial.seed,
            trial=self.trial.bind(blank_row("trial") | read.ended_values(trial)),
            about=self.session.bind(_about(judged)),
            turns=[self.turn.bind(values) for values in turns],
            calls=self._calls(judged),
        )

    def _calls(self, judged: Judged) -> list[Bound]:
        policy = next(iter(judged.policies.values()), "")
        known = {"agent": "", "policy": policy, "taxonomy": self._taxonomy}
        calls = []
        for record, derived, offending, shape in judged.records:
            values = read.call_values(0, record, **known)
            values |= {"derived": derived, "offending": offending, "shape": shape}
            calls.append(self.call.bind(values))
        return calls


def _about(judged: Judged) -> Values:
    session = judged.session
    return {name: getattr(session, name) for name in _OF_SESSION} | {
        "session": session.id,
        "size": list(session.size),
        "outcomes": dict(session.outcomes),
        "policy": judged.policy,
        "differ": judged.differ,
    }


# Also where another process of the same run kept it, or this one for another trial.
_MESSAGE = """INSERT INTO message (run_id, digest, data) VALUES (:run_id, :digest, :data)
    ON CONFLICT DO NOTHING"""


@dataclass(slots=True)
class RunRecorder:
    """Implements `protocols.Recorder`. A returned call is stored: a kill loses nothing before it.

    In PostgreSQL a commit waits for the disk. There a turn is written with the first call of it,
    in one statement: until that call is answered a kill has the trial played anew in any case.

    `digests` maps each scenario, and each sub-agent of it, to the digest of the allow list that
    judges it there, under the names that `judged_by` gives. `shard` is the number of its row,
    where several processes play the run.
    """

    connection: Connection
    run_id: str
    taxonomy: str
    digests: Mapping[str, str]
    shard: int | None = None
    _ids: dict[TrialKey, int] = field(default_factory=dict)
    _messages: set[str] = field(default_factory=set)  # digests of those that are stored
    _unwritten: dict[TrialKey, Bound] = field(default_factory=dict)  # a turn without a call yet

    def begin(self, key: TrialKey) -> bool:
        """Claim the trial; return False if another process has claimed it before."""
        values = blank_row("trial") | {"run_id": self.run_id, "shard": self.shard, **asdict(key)}
        claim = "" if self.shard is None else "ON CONFLICT DO NOTHING"
        made = insert_row(self.connection, "trial", values, f"{claim} RETURNING id", _AT_FIRST)
        if made:
            self._ids[key] = made[0][0]
        return bool(made)

    @property
    def _turns(self) -> TableWriter:
        return writer_of("turn", self.connection.mark)

    def turn(
        self,
        key: TrialKey,
        number: int,
        turn: Turn,
        *,
        agent: str = "",
    ) -> None:
        values = read.turn_values(
            self._ids[key],
            number,
            turn,
            agent=agent,
        )
        self._write_unwritten(key)
        self._unwritten[key] = self._turns.bind(values)
        if self.connection.database != "postgresql":
            self._write_unwritten(key)

    def call(
        self,
        key: TrialKey,
        record: CallRecord,
        *,
        agent: str = "",
    ) -> None:
        values = read.call_values(
            self._ids[key],
            record,
            agent=agent,
            policy=self.digests[judged_by(key.scenario, agent.rpartition("/")[0])],
            taxonomy=self.taxonomy,
        )
        calls = writer_of("call", self.connection.mark)
        statement = calls.insert
        turn = self._unwritten.get(key, ())
        if turn:
            statement = f"WITH its_turn AS ({self._turns.insert}) {statement}"
        self.connection.execute(statement, turn + calls.bind(values))
        self._unwritten.pop(key, None)

    def _write_unwritten(self, key: TrialKey) -> None:
        if held := self._unwritten.get(key):
            self.connection.execute(self._turns.insert, held)
            del self._unwritten[key]

    def finish(self, key: TrialKey, trial: Trial) -> None:
        self._write_unwritten(key)
        prompts, messages = prompt_values(trial)
        self._keep(messages)
        values = read.ended_values(trial) | {"prompts": prompts}
        ends = writer_of("trial", self.connection.mark, _AT_LAST)
        bound = (*ends.bind(values), self._ids[key])
        # Another process may have set the trial aside: then it stays as that left it.
        with _through_to_the_disk(self.connection):
            self.connection.execute(f"{ends.update} AND NOT replaced", bound)

    def _keep(self, messages: Mapping[str, str]) -> None:
        for digest in messages.keys() - self._messages:
            self.connection.ask(
                _MESSAGE,
                run_id=self.run_id,
                digest=digest,
                data=messages[digest],
            )
            self._messages.add(digest)


# For one commit, and back. What is stricter than `on` in PostgreSQL stays.
_ON = """SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') = 'off'"""
_THROUGH = {
    "sqlite": ("PRAGMA synchronous=FULL", "PRAGMA synchronous=NORMAL"),
    "postgresql": (_ON, "RESET synchronous_commit"),
}


@contextmanager
def _through_to_the_disk(connection: Connection) -> Iterator[None]:
    """Make a finished trial, with all before it, outlast a power cut.

    Not each call: that would take 40 ms in SQLite. What fails leaves the stricter setting behind.
    """
    through, as_before = _THROUGH.get(connection.database, ("", ""))
    if not through:
        yield  # whatever that database does
        return
    connection.ask(through)
    yield
    connection.ask(as_before)


# Claims.

CLAIMS = "-claims"  # behind the name of an SQLite file, as SQLite has its -wal and -shm
# Both kinds of lock have a number for a name; one of 62 bits fits into a file's offset.
_BITS = 62


class Hold(Enum):
    """A way to request a lock: for the system's locks on files, and for PostgreSQL's function."""

    ALONE = (fcntl.LOCK_EX | fcntl.LOCK_NB, "SELECT pg_try_advisory_lock({})")
    TOGETHER = (fcntl.LOCK_SH | fcntl.LOCK_NB, "SELECT pg_try_advisory_lock_shared({})")
    WAITING = (fcntl.LOCK_EX, "SELECT pg_advisory_lock({}) IS NOT NULL")


@contextmanager
def claimed(
    where: Location,
    another: Callable[[], Connection],
    run_id: str,
    how: Hold = Hold.ALONE,
) -> Iterator[None]:
    """Hold the run. Raises UsageError while another process holds it other than together.

    A store of one file knows processes, not claims: of two claims that one process has, the end of
    either ends both. PostgreSQL holds it for `another` connection.
    """
    digest = hashlib.sha256(run_id.encode()).digest()
    number = int.from_bytes(digest[:8]) >> (64 - _BITS)
    with _lock(where, another, number, how) as held:
        if not held:
            raise UsageError(
                f"run {run_id} is being played by another process; wait until that has ended"
            )
        yield


def _lock(
    where: Location,
    another: Callable[[], Connection],
    number: int,
    how: Hold,
) -> AbstractContextManager[bool]:
    if where.url.startswith("postgresql"):
        return _in_database(another, number, how)
    file = where.file or where.url.partition("?")[0].removeprefix("sqlite:///")
    if where.url.startswith("sqlite:///") and file not in {"", ":memory:"}:
        return _in_file(Path(f"{file}{CLAIMS}"), number, how)
    return nullcontext(enter_result=True)


@contextmanager
def _in_file(path: Path, number: int, how: Hold) -> Iterator[bool]:
    """A lock on one byte, which the system takes back when the process is gone."""
    with path.open("a+b") as claims:
        try:
            # The byte need not be there: a lock may lie beyond the end of the file.
            fcntl.lockf(claims, how.value[0], 1, number)
        except (BlockingIOError, PermissionError):  # as the system says that another one has it
            yield False
        else:
            yield True


@contextmanager
def _in_database(another: Callable[[], Connection], number: int, how: Hold) -> Iterator[bool]:
    """A lock of the session, which the server takes back when the connection is gone."""
    with closing(another()) as connection:
        try:
            yield bool(connection.ask(how.value[1].format(number))[0][0])
        finally:
            with suppress(HostError):  # the server has taken it back with the connection
                connection.ask("SELECT pg_advisory_unlock_all()")
