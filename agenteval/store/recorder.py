"""Writing one run as it happens, by one process: a row for each turn and call, at once."""

import fcntl
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Executable, bindparam, insert, text, update
from sqlmodel import SQLModel

from agenteval.core.run import judged_by
from agenteval.core.trial import CallRecord, Trial, Turn
from agenteval.errors import UsageError
from agenteval.protocols import TrialKey
from agenteval.store import mapping
from agenteval.store.bound_rows import Bound, TableWriter
from agenteval.store.kept_prompts import prompt_values
from agenteval.store.location import usable
from agenteval.store.rows import CallRow, TrialRow, TurnRow

_ID = SQLModel.metadata.tables[str(TrialRow.__tablename__)].c.id
_TRIAL = insert(TrialRow).returning(_ID)
_NEW_TRIAL = {  # made here, as a row object for each trial takes as long as all else of its start
    name: column.default
    for name, column in TrialRow.model_fields.items()
    if name != "id" and not column.is_required()
}
_IN_FORCE = SQLModel.metadata.tables[str(TrialRow.__tablename__)].c.replaced.is_(False)
_ENDED = update(TrialRow).where(bindparam("trial") == _ID, _IN_FORCE)
# Also where another process of the same run kept it, or this one for another trial.
_MESSAGE = text("""INSERT INTO message (run_id, digest, data) VALUES (:run_id, :digest, :data)
    ON CONFLICT DO NOTHING""")


@cache
def _claim(database: str) -> Executable:
    """Of several processes the first one has the trial."""
    dialect: Any = import_module(f"sqlalchemy.dialects.{database}")  # PostgreSQL's takes 2 MB
    claim: Executable = dialect.insert(TrialRow).on_conflict_do_nothing().returning(_ID)
    return claim


@dataclass(slots=True)
class RunRecorder:
    """Implements `protocols.Recorder`. A returned call is stored: a kill loses nothing before it.

    In PostgreSQL a commit waits for the disk. There a turn is written with the first call of it,
    in one statement: until that call is answered a kill has the trial played anew in any case.

    `connection` commits each statement; it is held, as asking a pool takes as long as writing.
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
    _held: dict[TrialKey, Bound] = field(default_factory=dict)  # a turn without a call yet
    _turns: TableWriter = field(init=False)
    _calls: TableWriter = field(init=False)

    def __post_init__(self) -> None:
        self._turns = TableWriter(self.connection.dialect, TurnRow)
        self._calls = TableWriter(self.connection.dialect, CallRow)

    def begin(self, key: TrialKey) -> bool:
        values = _NEW_TRIAL | {"run_id": self.run_id, "shard": self.shard, **asdict(key)}
        begins = _TRIAL if self.shard is None else _claim(self.connection.dialect.name)
        made = usable(self.connection).execute(begins, values).scalar_one_or_none()
        if made is not None:
            self._ids[key] = made
        return made is not None

    def turn(self, key: TrialKey, number: int, turn: Turn, *, agent: str = "") -> None:
        values = mapping.turn_values(self._ids[key], number, turn, agent=agent)
        self._write_held(key)
        self._held[key] = self._turns.bind(values)
        if self.connection.dialect.name != "postgresql":
            self._write_held(key)

    def call(self, key: TrialKey, record: CallRecord, *, agent: str = "") -> None:
        values = mapping.call_values(
            self._ids[key],
            record,
            agent=agent,
            policy=self.digests[judged_by(key.scenario, agent.rpartition("/")[0])],
            taxonomy=self.taxonomy,
        )
        # As text of SQL: to compile the same statement for each row takes as long as to run it.
        statement, held = self._calls.insert, self._held.get(key, ())
        if held:
            statement = f"WITH its_turn AS ({self._turns.insert}) {statement}"
        usable(self.connection).exec_driver_sql(statement, held + self._calls.bind(values))
        self._held.pop(key, None)

    def _write_held(self, key: TrialKey) -> None:
        if held := self._held.get(key):
            usable(self.connection).exec_driver_sql(self._turns.insert, held)
            del self._held[key]

    def finish(self, key: TrialKey, trial: Trial) -> None:
        self._write_held(key)
        prompts, messages = prompt_values(trial)
        self._keep(messages)
        values = mapping.ended_values(trial) | {"prompts": prompts}
        with _through_to_the_disk(usable(self.connection)):
            usable(self.connection).execute(_ENDED, {"trial": self._ids[key], **values})

    def _keep(self, messages: Mapping[str, str]) -> None:
        for digest in messages.keys() - self._messages:
            values = {"run_id": self.run_id, "digest": digest, "data": messages[digest]}
            usable(self.connection).execute(_MESSAGE, values)
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
    """So that a finished trial, with all before it, outlasts a power cut.

    Not each call: that would take 40 ms in SQLite. What fails leaves the stricter setting behind.
    """
    through, as_before = _THROUGH.get(connection.dialect.name, ("", ""))
    if not through:
        yield  # whatever that database does
        return
    connection.exec_driver_sql(through)
    yield
    connection.exec_driver_sql(as_before)


CLAIMS = "-claims"  # behind the name of an SQLite file, as SQLite has its -wal and -shm
# Both kinds of lock have a number for a name; one of 62 bits fits into a file's offset.
_BITS = 62


class Hold(Enum):
    """How a lock is asked for: for the system's locks on files, and PostgreSQL's function."""

    ALONE = (fcntl.LOCK_EX | fcntl.LOCK_NB, "SELECT pg_try_advisory_lock({})")
    TOGETHER = (fcntl.LOCK_SH | fcntl.LOCK_NB, "SELECT pg_try_advisory_lock_shared({})")
    WAITING = (fcntl.LOCK_EX, "SELECT pg_advisory_lock({}) IS NOT NULL")


@contextmanager
def claimed(engine: Engine, run_id: str, how: Hold = Hold.ALONE) -> Iterator[None]:
    """Hold the run. Raises UsageError while another process holds it otherwise than together.

    A store of one file knows processes, not claims: of two claims that one process has, the end of
    either ends both.
    """
    number = int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:8]) >> (64 - _BITS)
    with _held(engine, number, how) as held:
        if not held:
            raise UsageError(
                f"run {run_id} is being played by another process; wait until that has ended"
            )
        yield


def _held(engine: Engine, number: int, how: Hold) -> AbstractContextManager[bool]:
    file = engine.url.database
    if engine.dialect.name == "postgresql":
        return _in_database(engine, number, how)
    if engine.dialect.name == "sqlite" and file and file != ":memory:":
        return _in_file(Path(f"{file}{CLAIMS}"), number, how)
    return nullcontext(enter_result=True)


@contextmanager
def _in_file(path: Path, number: int, how: Hold) -> Iterator[bool]:
    """A lock on one byte, which the system takes back when the process is gone."""
    with path.open("a+b") as claims:
        try:
            fcntl.lockf(claims, how.value[0], 1, number)
        except (BlockingIOError, PermissionError):  # as the system says that another one has it
            yield False
        else:
            yield True


@contextmanager
def _in_database(engine: Engine, number: int, how: Hold) -> Iterator[bool]:
    """A lock of the session, which the server takes back when the connection is gone."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        asked = connection.exec_driver_sql(how.value[1].format(number))
        yield bool(asked.scalar_one())
        connection.exec_driver_sql("SELECT pg_advisory_unlock_all()")
