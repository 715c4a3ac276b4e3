"""Worker processes that read and judge logs for one that writes; results come in order.

They are forked, so that they begin with everything that is loaded. They end with this process:
they ignore Ctrl-C, and stop when nothing takes their results.
"""

import gc
import os
import signal
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle, islice
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from pickle import dumps, loads

from agenteval.errors import UsageError
from agenteval.workflows.log_results import Counted, Found, Reading, Unit, Unread

WORTH = 1 << 24  # bytes of logs from which on workers are worth their start
SPLIT = 1 << 25  # bytes of a file of which each worker judges a share
HELD = 1 << 26  # bytes that wait to be written
AT_ONCE = 500  # calls, or things in a file, that are handed over together, about
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

    number: int
    unit: Unit
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

    Of a format that remembers what was read before, one worker reads all files.
    """

    def __init__(
        self, reading: Reading, files: Sequence[tuple[str, Path, int]], count: int
    ) -> None:
        """`files` are each a format's name, a path and a size."""
        self.lost_workers = 0  # workers that died
        self._reading, self._files, self._held = reading, list[list[_Stream]](), 0
        self._first, self._any = deque[_Stream](), deque[_Stream]()  # for the first worker alone
        number = 0
        for name, path, size in files:
            remembers = reading.remembers(name)
            shares = max(1, count) if size >= SPLIT and not remembers else 1
            units = [Unit(name, path, share, shares) for share in range(shares)]
            self._files.append([_Stream(number + at, unit) for at, unit in enumerate(units)])
            (self._first if remembers else self._any).extend(self._files[-1])
            number += shares
        self._workers: list[_Worker] = []
        for _ in range(count):
            self._fork()

    def of(self, file: int) -> Iterator[Found | Unread]:
        """Yield the results of the file of this number.

        Files must be requested in order, each once.
        """
        streams = self._files[file]
        shares = [self._things(stream) for stream in streams]
        for share in cycle(shares):
            if (found := next(share, None)) is None:
                break
            yield found
        for stream in streams:  # of a file that grows, one share may have more than another
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
        process = forking.Process(
            target=_work, args=(self._reading, worker_end, inherited), daemon=True
        )
        process.start()
        worker_end.close()  # else nobody would see that it died
        self._workers.append(_Worker(process, own_end))

    def _things(self, stream: _Stream) -> Iterator[Found | Unread]:
        while True:
            self._receive(stream, 0)
            self._assign_units(stream)
            if stream.waiting:
                content = stream.waiting.popleft()
                self._held -= len(content)
                for found in loads(content):  # noqa: S301 -- what a fork of this process wrote
                    stream.taken_count += 1
                    yield found
            elif stream.ended:
                return
            elif stream.worker is None:  # there is none, or it died
                stream.ended = True
                yield from islice(self._reading.of(stream.unit), stream.taken_count, None)
                return
            else:
                self._receive(stream, None)

    def _assign_units(self, current: _Stream) -> None:
        for worker in self._workers:
            if not worker.alive or worker.stream is not None:
                continue
            stream = self._next_for(worker)
            if stream is not None and (stream is current or self._held < HELD):
                self._queue_of(stream).popleft()
                worker.stream, stream.worker = stream, worker
                try:
                    worker.pipe.send(stream.unit)
                except OSError:
                    self._bury(worker)

    def _next_for(self, worker: _Worker) -> _Stream | None:
        queues = [self._any, self._first] if worker is self._workers[0] else [self._any]
        for queue in queues:
            while queue and queue[0].ended:
                queue.popleft()
        return min((queue[0] for queue in queues if queue), key=_number, default=None)

    def _queue_of(self, stream: _Stream) -> deque[_Stream]:
        return self._any if self._any and self._any[0] is stream else self._first

    def _receive(self, current: _Stream, timeout: float | None) -> None:
        """Take what workers found; from those ahead no more than is to be held."""
        busy = [
            worker
            for worker in self._workers
            if worker.alive
            and (stream := worker.stream) is not None
            and (stream is current or stream.unwanted or self._held < HELD)
        ]
        ready = set(wait([worker.pipe for worker in busy], timeout)) if busy else ()
        for worker in busy:
            if worker.pipe not in ready:
                continue
            try:
                self._take(worker, worker.pipe.recv_bytes())
            except (EOFError, OSError):
                self._bury(worker)

    def _take(self, worker: _Worker, content: bytes) -> None:
        stream = worker.stream
        if stream is None:
            return
        if content == _END:
            stream.ended, worker.stream = True, None
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


def _work(reading: Reading, pipe: Connection, inherited: Sequence[Connection]) -> None:
    """Run a worker. A mistake of the user's ends it: reading the file here then reports it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for connection in inherited:
        connection.close()
    gc.freeze()  # what was there before is never looked through
    with suppress(EOFError, OSError, UsageError):  # nobody takes it any more
        while True:
            _send(reading, pipe.recv(), pipe)


def _send(reading: Reading, unit: Unit, pipe: Connection) -> None:
    batch: list[Found | Unread] = []
    size = 0
    for found in reading.of(unit):
        batch.append(found)
        size += 1 + sum(len(one.entry.calls) for one in found if isinstance(one, Counted))
        if size >= AT_ONCE:
            pipe.send_bytes(dumps(batch))
            batch, size = [], 0
    if batch:
        pipe.send_bytes(dumps(batch))
    pipe.send_bytes(_END)
