"""Logs read and judged: the filter of sessions, the results, and the workers that share the work.

Workers are forked, so that they begin with everything that is loaded. Results come in the order of
the files. Workers end with this process: they ignore Ctrl-C, and stop when nothing takes results.
"""

import gc
import itertools
import os
import signal
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from pickle import dumps, loads
from typing import NamedTuple

from agenteval.dialects.registry import dialects
from agenteval.errors import UsageError
from agenteval.logs.formats import FORMATS
from agenteval.logs.packed import UNREADABLE
from agenteval.logs.trials import LogJudge, differs
from agenteval.policy.policy import Policy
from agenteval.store.summaries import moment
from agenteval.store.write import Entry, Judged, LoggedRecord, SessionTables
from agenteval.trial.redaction import Redactor
from agenteval.trial.session import LONGEST_NAME, Session, Skipped


@dataclass(frozen=True, slots=True)
class Wanted:
    """A filter of the sessions to import: by the time of their end or beginning, and by names."""

    since: str | None = None
    until: str | None = None
    model: str | None = None
    agent: str | None = None
    project: str | None = None

    def check(self) -> None:
        """Raises UsageError for a day that is none."""
        for option, given in (("--since", self.since), ("--until", self.until)):
            if given is not None:
                moment(option, given)

    def fits(self, session: Session) -> bool:
        ended = session.ended or 0
        began = session.began or 0
        return (
            (self.since is None or ended >= moment("--since", self.since).timestamp())
            and (self.until is None or began < moment("--until", self.until).timestamp())
            and (self.model or "") in session.model
            and (self.agent or "") in session.agent
            and (self.project or "") in session.project
        )


EVERYTHING = Wanted()

# Calls of which list and record differ
SHOWN = 10


@dataclass(frozen=True, slots=True)
class Counted:
    """A session that was read and judged: the entry to store, and the counts to report."""

    entry: Entry
    recorded: Counter[str]
    derived: Counter[str]
    # What kind of place its list is from
    policy: str
    differ: Sequence[str]
    differing: Counter[str]


@dataclass(frozen=True, slots=True)
class Taken:
    """The result of one run: its calls by their record, and how many of them its list denies."""

    run: str
    model: str
    format: str
    # Added, grown, unchanged
    sessions: Counter[str] = field(default_factory=Counter)
    recorded: Counter[str] = field(default_factory=Counter)
    derived: Counter[str] = field(default_factory=Counter)
    # Where the lists of sessions are from
    policies: Counter[str] = field(default_factory=Counter)
    # As many as are shown
    differ: list[str] = field(default_factory=list)
    # By what was recorded
    differing: Counter[str] = field(default_factory=Counter)

    def add(self, how: str, session: Counted) -> None:
        self.sessions[how] += 1
        if how == "unchanged":
            return
        self.recorded.update(session.recorded)
        self.derived.update(session.derived)
        self.policies[session.policy] += 1
        self.differing.update(session.differing)
        self.differ.extend(session.differ[: SHOWN - len(self.differ)])


# Skipped parts: a file of garbage has millions
NAMED = 1_000


@dataclass(slots=True)
class Intake:
    """All that one command took in."""

    runs: dict[str, Taken] = field(default_factory=dict)
    # Files that there are
    file_count: int = 0
    # That were come to
    files: int = 0
    # Files
    unchanged: int = 0
    # Sessions that were not wanted
    left_out: int = 0
    # Sessions in which the model said nothing
    empty: int = 0
    # As many as are named
    skipped: list[Skipped] = field(default_factory=list)
    # All that were skipped
    skips: int = 0
    redacted: Sequence[str] = ()
    # Worker processes that died
    lost_workers: int = 0
    # The first file in which there was no session
    bare: str = ""

    def skip(self, skipped: Skipped) -> None:
        self.skips += 1
        if self.skips <= NAMED:
            self.skipped.append(skipped)

    @property
    def has_news(self) -> bool:
        return any(
            taken.sessions["added"] or taken.sessions["grown"] for taken in self.runs.values()
        )


EMPTY = "empty"
LEFT_OUT = "left out"
Item = Counted | Skipped | str
# Of one thing in a file: several where a session changed its model
Found = list[Item]


class Unread(NamedTuple):
    """The reason why a file could not be read, or not to its end."""

    skipped: Skipped


class _Unit(NamedTuple):
    """A file, or every `shares`-th of the things in it, from the one numbered `share` on."""

    format: str
    path: Path
    share: int = 0
    shares: int = 1


# What an odd value does where nobody foresaw it: it is not read, and everything else is.
_ODD = (ValueError, RecursionError, MemoryError)
# Things in a file by which its format is told
_FIRST = 20
# Bytes of a file that each format may read for that
_SMALL = 1 << 24


@dataclass(slots=True)
class Reading:
    """Reads and judges files. Each thing in a file gives a list of results, in its order."""

    allowlist: Policy | None
    filters: Wanted
    redactor: Redactor | None
    tables: SessionTables
    _judges: dict[str, LogJudge] = field(default_factory=dict)

    def of(self, unit: _Unit) -> Iterator[Found | Unread]:
        try:
            items = FORMATS[unit.format].read(unit.path)
            for item in islice(items, unit.share, None, unit.shares):
                yield [item] if isinstance(item, Skipped) else self._judged(unit, item)
        except (*UNREADABLE, *_ODD) as error:
            yield Unread(
                Skipped(
                    str(unit.path),
                    "the file",
                    _why(error),
                )
            )

    def _judged(self, unit: _Unit, session: Session) -> Found:
        """Return the results of a session; one that cannot be read stops no other."""
        try:
            return [*self._session(unit.format, session)]
        except _ODD as error:
            place = f"session {session.id[:LONGEST_NAME]}"
            return [
                Skipped(
                    str(unit.path),
                    place,
                    _why(error),
                )
            ]

    def remembers(self, format_name: str) -> bool:
        """Return True if rules that one session of the format quoted can judge a later one."""
        dialect = dialects().get(format_name)
        return self.allowlist is None and dialect is not None and dialect.quoted is not None

    def _session(
        self,
        format_name: str,
        session: Session,
    ) -> Iterator[Item]:
        if not session.turns:
            yield EMPTY
            return
        judge = LogJudge(format_name, self.allowlist, self.redactor)
        judge = self._judges.setdefault(format_name, judge)
        for own in session.plain().by_model():
            if self.filters.fits(own):
                yield self._counted(judge.judged(own))
            else:
                yield LEFT_OUT

    def _counted(self, judged: Judged) -> Counted:
        records = judged.records
        differing = [logged for logged in records if differs(logged)]
        return Counted(
            entry=self.tables.entry(judged),
            recorded=judged.session.outcomes,
            derived=Counter(logged.derived for logged in records if logged.derived),
            policy=judged.policy.partition(":")[0],
            differ=list(map(_difference, differing[:SHOWN])),
            differing=Counter(logged.record.harness for logged in differing),
        )


def _difference(logged: LoggedRecord) -> str:
    call = logged.record.call
    text = call.command or f"{call.name} {call.raw}"
    return f"{logged.record.harness}, but {logged.derived}: {text}"


def reads_as(path: Path) -> list[str]:
    """Return the formats in which the beginning of a file reads without a fault, calls included.

    A large file has none: some formats hold a document until they know that it is not theirs.
    """
    formats = []
    for log in FORMATS.values():
        try:
            is_small = path.stat().st_size < _SMALL
            first = list(islice(log.read(path), _FIRST)) if is_small else []
        except (*UNREADABLE, *_ODD):
            continue
        sessions = [item for item in first if not isinstance(item, Skipped)]
        has_calls = any(session.calls for session in sessions)
        if has_calls and len(sessions) == len(first):
            formats.append(log.name)
    return formats


def _why(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or "no memory for it"


# Bytes of logs from which on workers are worth their start
WORTH = 1 << 24
# Bytes of a file of which each worker judges a share
SPLIT = 1 << 25
# Bytes that wait to be written
HELD = 1 << 26
# Calls, or things in a file, that are handed over together, about
AT_ONCE = 500
MOST = 8
_END = b""


def workers_for(size: int, requested: int | None = None) -> int:
    """Return the number of processes to read logs of `size` bytes; 0 where none is worth it.

    It is 0 on other systems than Linux: macOS cannot be asked for the cores, and a forked process
    must not use there what the system has loaded.
    """
    if sys.platform != "linux":
        return 0
    if requested is not None:
        return requested
    cores = len(os.sched_getaffinity(0))
    return min(cores, MOST) if size >= WORTH and cores > 1 else 0


@dataclass(slots=True)
class _Stream:
    """The results of one unit: messages that wait, and the number of things taken from it."""

    unit: _Unit
    number: int
    # One worker reads all of them, in their order
    is_first: bool
    worker: "_Worker | None" = None
    waiting: deque[bytes] = field(default_factory=deque)
    taken_count: int = 0
    ended: bool = False
    unwanted: bool = False


@dataclass(slots=True)
class _Worker:
    process: ForkProcess
    pipe: Connection
    stream: _Stream | None = None
    alive: bool = True


class Workers:
    """`count` processes; with none of them everything is read here. To be closed.

    Of a format that remembers what was read before, the first worker reads all files.
    """

    def __init__(
        self, reading: Reading, files: Sequence[tuple[str, Path, int]], count: int
    ) -> None:
        """`files` are each a format's name, a path and a size."""
        # Workers that died
        self.lost_workers = 0
        self._reading = reading
        self._files = list[list[_Stream]]()
        # Bytes that wait
        self._held = 0
        # Units that no worker has yet, by whether the first one alone may take them
        self._queues = {True: deque[_Stream](), False: deque[_Stream]()}
        numbers = itertools.count()
        for name, path, size in files:
            is_first = reading.remembers(name)
            shares = max(1, count) if size >= SPLIT and not is_first else 1
            units = [_Unit(name, path, share, shares) for share in range(shares)]
            self._files.append(
                [
                    _Stream(
                        unit,
                        next(numbers),
                        is_first,
                    )
                    for unit in units
                ]
            )
            self._queues[is_first].extend(self._files[-1])
        self._workers: list[_Worker] = []
        for _ in range(count):
            self._fork()

    def of(self, file: int) -> Iterator[Found | Unread]:
        """Yield the results of the file of this number.

        Files must be requested in order, each once.
        """
        streams = self._files[file]
        shares = [self._things(stream) for stream in streams]
        for share in itertools.cycle(shares):
            results = next(share, None)
            if results is None:
                break
            yield results
        # Of a file that grows, one share may have more than another
        for stream in streams:
            stream.unwanted = stream.ended = True
            self._held -= sum(map(len, stream.waiting))
            stream.waiting.clear()

    def close(self) -> None:
        for worker in self._workers:
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()

    def _fork(self) -> None:
        forking = get_context("fork")
        own_end, worker_end = forking.Pipe()
        inherited = [own_end, *(worker.pipe for worker in self._workers)]
        arguments = (self._reading, worker_end, inherited)
        process = forking.Process(target=_work, args=arguments, daemon=True)
        process.start()
        # Else nobody would see that it died
        worker_end.close()
        self._workers.append(_Worker(process, own_end))

    def _things(self, stream: _Stream) -> Iterator[Found | Unread]:
        while True:
            self._receive(stream, 0)
            self._assign_units(stream)
            if stream.waiting:
                content = stream.waiting.popleft()
                self._held -= len(content)
                for results in loads(content):  # noqa: S301 -- what a fork of this process wrote
                    stream.taken_count += 1
                    yield results
            elif stream.ended:
                return
            elif stream.worker is None:  # there is none, or it died
                stream.ended = True
                yield from islice(
                    self._reading.of(stream.unit),
                    stream.taken_count,
                    None,
                )
                return
            else:
                self._receive(stream, None)

    def _assign_units(self, current: _Stream) -> None:
        for worker in self._workers:
            if not worker.alive or worker.stream is not None:
                continue
            stream = self._next_for(worker)
            if stream is not None and (stream is current or self._held < HELD):
                self._queues[stream.is_first].popleft()
                worker.stream, stream.worker = stream, worker
                try:
                    worker.pipe.send(stream.unit)
                except OSError:
                    self._bury(worker)

    def _next_for(self, worker: _Worker) -> _Stream | None:
        heads = []
        for is_first, queue in self._queues.items():
            while queue and queue[0].ended:
                queue.popleft()
            if queue and (not is_first or worker is self._workers[0]):
                heads.append(queue[0])
        return min(heads, key=_number, default=None)

    def _receive(self, current: _Stream, timeout: float | None) -> None:
        """Take what workers found; from those ahead no more than is to be held."""
        busy = [worker for worker in self._workers if self._may_receive(worker, current)]
        ready = set(wait([worker.pipe for worker in busy], timeout)) if busy else ()
        for worker in busy:
            if worker.pipe in ready:
                try:
                    self._take(worker, worker.pipe.recv_bytes())
                except (EOFError, OSError):
                    self._bury(worker)

    def _may_receive(self, worker: _Worker, current: _Stream) -> bool:
        stream = worker.stream
        if not worker.alive or stream is None:
            return False
        return stream is current or stream.unwanted or self._held < HELD

    def _take(self, worker: _Worker, content: bytes) -> None:
        stream = worker.stream
        if stream is None:
            return
        if content == _END:
            stream.ended = True
            worker.stream = None
        elif not stream.unwanted:
            stream.waiting.append(content)
            self._held += len(content)

    def _bury(self, worker: _Worker) -> None:
        """Mark a worker as dead. The rest of its file is read here, when its turn comes."""
        self.lost_workers += 1
        worker.alive = False
        if worker.stream is not None:
            worker.stream.worker = None


def _number(stream: _Stream) -> int:
    return stream.number


def _work(
    reading: Reading,
    pipe: Connection,
    inherited: Sequence[Connection],
) -> None:
    """Run a worker. A mistake of the user's ends it: reading the file here then reports it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for connection in inherited:
        connection.close()
    # What was there before is never looked through
    gc.freeze()
    # Nobody takes it any more
    with suppress(EOFError, OSError, UsageError):
        while True:
            _send(reading, pipe.recv(), pipe)


def _send(reading: Reading, unit: _Unit, pipe: Connection) -> None:
    batch: list[Found | Unread] = []
    size = 0
    for results in reading.of(unit):
        batch.append(results)
        size += 1 + sum(len(item.entry.calls) for item in results if isinstance(item, Counted))
        if size >= AT_ONCE:
            pipe.send_bytes(dumps(batch))
            batch = []
            size = 0
    if batch:
        pipe.send_bytes(dumps(batch))
    pipe.send_bytes(_END)
