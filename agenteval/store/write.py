"""Rows in the form of a database's driver: the columns of tables, and the binding of each value.

`rows` declares the same to SQLAlchemy, whose import takes 30 MB and 0.3 s that a run need not
spend; `tables.sql` is made of it by `make format`. A test compares the columns here with both.
Sessions from logs are bound wherever they were read.

Writing one run as it happens, by one process: a row for each turn and call, at once.
"""

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from enum import Enum
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from agenteval.errors import HostError, UsageError
from agenteval.protocols import TrialKey
from agenteval.store import read
from agenteval.store.location import Bound, Connection, Location, Values
from agenteval.store.texts import packed, prompt_values, to_column
from agenteval.trial.run import Run, judged_by
from agenteval.trial.session import Session
from agenteval.trial.summary import ImportedCounts
from agenteval.trial.trial import CallRecord, Trial, Turn

# Columns but a row's own number, those marked: {} of JSON, * of any text, ~ of text that is packed.
RUN = """id model simulated started seed trials_planned max_turns concurrency sandbox prefork
    protocol taxonomy complete seconds joules second_reader{} card{} policies{} judged{} options{}
    scenarios{} arm{} source{} per_token"""
ENDED = """ending outcome reason* cause retries stretched seconds handshake{} goal{} goal_turn
    prompts{} agents{} calls errors{} executed crashed prompt_tokens agent_calls{} agent_errors{}
    counting"""
TRIAL = f"run_id scenario number seed shard replaced {ENDED}"
COUNTED = "recovery{}"  # nothing, until the trial has ended
TURN = """trial_id agent number text* finish_reason* prompt_tokens completion_tokens
    reasoning_tokens cached_tokens seconds first_piece pieces gap_mean gap_median gap_p95
    gap_longest garbles{} repairs{} repeats* model* reasoning* raw~ ended calls{}"""
CALL = """trial_id agent turn position call_id* name* raw* arguments{} garbled* allowed
    failure_class findings{} objection* policy taxonomy reply* exit_code output* output_is_reply
    seconds limit cut harness derived offending* shape"""
SESSION = """run_id trial_id session* part agent* version* project* parent* path* began ended size{}
    outcomes{} policy* differ"""
IMPORTED = "id imported source card{} trials{} by_trial calls{} by_class{}"
REVIEW = "trial_id call_id label note* at"
TAGS = "run_id labels{} note"
NEW_TRIAL: Values = {
    "shard": None,
    "replaced": False,
    "ending": "",
    "outcome": "",
    "reason": "",
    "cause": "",
    "retries": 0,
    "stretched": 1.0,
    "seconds": 0.0,
    "handshake": [],
    "goal": [],
    "goal_turn": None,
    "prompts": {},
    "agents": [],
    "calls": 0,
    "errors": {},
    "executed": 0,
    "crashed": 0,
    "prompt_tokens": 0,
    "agent_calls": {},
    "agent_errors": {},
    "counting": 0,
}


def run_values(run: Run) -> Values:
    return {
        "id": run.id,
        "model": run.model.name,
        "simulated": run.model.simulated,
        "started": run.started,
        "seed": run.seed,
        "trials_planned": run.trials_planned,
        "max_turns": run.max_turns,
        "concurrency": run.concurrency,
        "sandbox": run.sandbox,
        "prefork": run.prefork,
        "protocol": run.protocol,
        "taxonomy": run.taxonomy,
        "complete": run.complete,
        "seconds": run.effort.seconds if run.effort else None,
        "joules": run.effort.joules if run.effort else None,
        "second_reader": dict(run.second_reader),
        "card": asdict(run.model),
        "policies": dict(run.policies),
        "judged": dict(run.judged),
        "options": asdict(run.options) if run.options else {},
        "scenarios": dict(run.scenarios),
        "arm": asdict(run.arm) if run.arm else {},
        "source": asdict(run.source) if run.source else {},
        "per_token": run.per_token,
    }


def imported_values(imported: ImportedCounts) -> Values:
    counts = imported.counts
    return {
        "id": imported.id,
        "imported": imported.imported,
        "source": imported.source,
        "card": asdict(imported.model),
        "trials": [list(trial) for trial in imported.trials],
        "by_trial": counts.by_trial,
        "calls": list(counts.calls),
        "by_class": {name: list(errors) for name, errors in counts.by_class.items()},
    }


class TableWriter:
    """The statements that write a table: columns that are `given` on writing, then those bound.

    `mark` is what a database's driver has in the place of a value. `update` is of the row whose id
    stands behind what is bound.
    """

    def __init__(
        self, table: str, columns: str, mark: str, set_on_insert: Sequence[str] = ()
    ) -> None:
        kinds = {column.rstrip("{}*~"): column for column in columns.split()}
        news = [name for name in kinds if name not in set_on_insert]
        self._taken = itemgetter(*news, news[-1])  # of one column it would give no row
        self._binders = [
            (at, _BINDERS[kinds[name].removeprefix(name)])
            for at, name in enumerate(news)
            if kinds[name] != name
        ]
        quoted = [f'"{name}"' for name in (*set_on_insert, *news)]  # one is called limit
        marks = ", ".join([mark] * len(quoted))
        self.insert = f'INSERT INTO "{table}" ({", ".join(quoted)}) VALUES ({marks})'  # noqa: S608 -- our own columns
        put = ", ".join(f"{name} = {mark}" for name in quoted[len(set_on_insert) :])
        self.update = f'UPDATE "{table}" SET {put} WHERE id = {mark}'  # noqa: S608 -- likewise

    def bind(self, values: Values) -> Bound:
        *row, _ = self._taken(values)
        for at, bind in self._binders:
            row[at] = bind(row[at])
        return tuple(row)


def _json(value: Any) -> str:
    """JSON in a tenth of the time that the standard library takes.

    That one writes what msgspec cannot: lone surrogates, and a NaN, for which msgspec has null.
    """
    if not value:
        return _EMPTY.get(type(value)) or json.dumps(value)
    try:
        text = msgspec.json.encode(value)
    except (ValueError, OverflowError):
        return json.dumps(value)
    return json.dumps(value) if b"null" in text else text.decode()


_EMPTY: dict[type, str] = {dict: "{}", list: "[]"}


def _exact(value: str | None) -> str | None:
    return to_column(value) if value else value


_BINDERS: dict[str, Callable[[Any], Any]] = {"{}": _json, "*": _exact, "~": packed}

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
        named = ("run_id", "number", "scenario", "seed")
        self.trial = TableWriter("trial", f"{TRIAL} {COUNTED}", mark, named)
        self.turn = TableWriter("turn", TURN, mark, ("trial_id",))
        self.call = TableWriter("call", CALL, mark, ("trial_id",))
        self.session = TableWriter("session", SESSION, mark, ("run_id", "trial_id"))

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
            trial=self.trial.bind(NEW_TRIAL | read.ended_values(trial)),
            about=self.session.bind(_about(judged)),
            turns=[self.turn.bind(one) for one in turns],
            calls=self._calls(judged),
        )

    def _calls(self, judged: Judged) -> list[Bound]:
        policy = next(iter(judged.policies.values()), "")
        known = {"agent": "", "policy": policy, "taxonomy": self._taxonomy}
        return [
            self.call.bind(
                read.call_values(0, record, **known)
                | {"derived": derived, "offending": offending, "shape": shape}
            )
            for record, derived, offending, shape in judged.records
        ]


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
    _trials: TableWriter = field(init=False)
    _ends: TableWriter = field(init=False)
    _turns: TableWriter = field(init=False)
    _calls: TableWriter = field(init=False)

    def __post_init__(self) -> None:
        mark = self.connection.mark
        self._trials = TableWriter("trial", TRIAL, mark)
        self._ends = TableWriter("trial", f"{ENDED} {COUNTED}", mark)
        self._turns = TableWriter("turn", TURN, mark)
        self._calls = TableWriter("call", CALL, mark)

    def begin(self, key: TrialKey) -> bool:
        """Claim the trial; return False if another process has claimed it before."""
        values = NEW_TRIAL | {"run_id": self.run_id, "shard": self.shard, **asdict(key)}
        claim = "" if self.shard is None else " ON CONFLICT DO NOTHING"
        begins = f"{self._trials.insert}{claim} RETURNING id"
        made = self.connection.execute(begins, self._trials.bind(values))
        if made:
            self._ids[key] = made[0][0]
        return bool(made)

    def turn(self, key: TrialKey, number: int, turn: Turn, *, agent: str = "") -> None:
        values = read.turn_values(self._ids[key], number, turn, agent=agent)
        self._write_unwritten(key)
        self._unwritten[key] = self._turns.bind(values)
        if self.connection.database != "postgresql":
            self._write_unwritten(key)

    def call(self, key: TrialKey, record: CallRecord, *, agent: str = "") -> None:
        values = read.call_values(
            self._ids[key],
            record,
            agent=agent,
            policy=self.digests[judged_by(key.scenario, agent.rpartition("/")[0])],
            taxonomy=self.taxonomy,
        )
        statement, held = self._calls.insert, self._unwritten.get(key, ())
        if held:
            statement = f"WITH its_turn AS ({self._turns.insert}) {statement}"
        self.connection.execute(statement, held + self._calls.bind(values))
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
        bound = (*self._ends.bind(values), self._ids[key])
        with _through_to_the_disk(self.connection):
            self.connection.execute(f"{self._ends.update} AND NOT replaced", bound)

    def _keep(self, messages: Mapping[str, str]) -> None:
        for digest in messages.keys() - self._messages:
            self.connection.ask(_MESSAGE, run_id=self.run_id, digest=digest, data=messages[digest])
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
    where: Location, another: Callable[[], Connection], run_id: str, how: Hold = Hold.ALONE
) -> Iterator[None]:
    """Hold the run. Raises UsageError while another process holds it other than together.

    A store of one file knows processes, not claims: of two claims that one process has, the end of
    either ends both. PostgreSQL holds it for `another` connection.
    """
    number = int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:8]) >> (64 - _BITS)
    with _lock(where, another, number, how) as held:
        if not held:
            raise UsageError(
                f"run {run_id} is being played by another process; wait until that has ended"
            )
        yield


def _lock(
    where: Location, another: Callable[[], Connection], number: int, how: Hold
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
