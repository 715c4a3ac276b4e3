"""The resident process of the hook: it has the policies read, and answers the clients of one user.

The first client starts it, `agenteval hook stop` ends it, and so does half an hour without a call.
It keeps the log: each call, its own start and its end. If it was killed, the next one records that.

One thread reads all clients, a fixed number of threads answers them. Each client has one deadline
for its whole request, whatever it sends meanwhile, and all together a bounded number of bytes.
"""

import contextlib
import fcntl
import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from os import getuid
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Final

from agenteval.hook import asking
from agenteval.hook.judging import LOG, Judging, ProductionLog, tell, tell_fault
from agenteval.serving.bounds import Connections, Listener, bounds

# Seconds without a call after which the process ends
IDLE: Final = 1800.0
# Seconds between two looks while all connections wait for their answers
FULL: Final = 0.02
PART: Final = 1 << 16


@dataclass(slots=True, eq=False)
class _Client:
    """A connection, when it came, and what it has sent."""

    talk: socket.socket
    since: float
    received: bytearray = field(default_factory=bytearray)
    is_whole: bool = False
    is_answered: bool = False
    peer: str = ""
    drop: Callable[[], None] = lambda: None

    @property
    def waits_since(self) -> float | None:
        """Implements `bounds.Connection`."""
        return None if self.is_whole else self.since


class _Clients:
    """The clients of one listening socket, until none asks any more or the code has changed."""

    def __init__(
        self,
        listener: Listener,
        judging: Judging,
    ) -> None:
        # Of which the share of one peer is all: they are one user's
        limits = bounds()
        self._bounds = replace(limits, per_peer=limits.connections)
        self._listener = listener
        self._judging = judging
        self._connections: Connections[_Client] = Connections(self._bounds)
        self._selector = selectors.DefaultSelector()
        self._whole: SimpleQueue[_Client] = SimpleQueue()
        self._pool: list[threading.Thread] = []
        self._is_listening = False

    def serve(self) -> str:
        """Answer them; return the reason why there is an end."""
        self._listener.settimeout(0)
        code = _code()
        end = time.monotonic() + IDLE
        while True:
            self._fill_pool()
            # The calls in hand are answered by the old one
            is_new = code != _code()
            if is_new and not len(self._connections):
                return "new code"
            self._listen(accepts=not is_new and not self._is_full())
            if self._look(end):
                end = time.monotonic() + IDLE
            elif time.monotonic() > end:
                return "idle"

    def _fill_pool(self) -> None:
        """Start the threads that answer, and another for one that a defect of ours has ended."""
        self._pool = [thread for thread in self._pool if thread.is_alive()]
        while len(self._pool) < self._bounds.threads:
            thread = threading.Thread(target=self._answer_all, daemon=True)
            self._pool.append(thread)
            thread.start()

    def _is_full(self) -> bool:
        """Return True if no client could make way; a new one then waits in the kernel's queue."""
        clients = list(self._connections)
        are_whole = all(client.is_whole for client in clients)
        return are_whole and len(clients) >= self._bounds.connections

    def _listen(self, *, accepts: bool) -> None:
        if accepts and not self._is_listening:
            self._selector.register(self._listener, selectors.EVENT_READ)
        elif self._is_listening and not accepts:
            self._selector.unregister(self._listener)
        self._is_listening = accepts

    def _look(self, end: float) -> bool:
        """Take, read and cut what is to be; return whether anybody came."""
        came = False
        for key, _ in self._selector.select(self._seconds(end)):
            if key.data is None:
                came = self._take()
            elif key.data in self._connections:  # else it made way in this very round
                self._read(key.data)
        for client in list(self._connections):
            is_late = time.monotonic() > client.since + self._bounds.head
            if client.is_answered or (is_late and not client.is_whole):
                self._drop(client)
        return came

    def _seconds(self, end: float) -> float:
        if not self._is_listening:
            return FULL
        waiting = (client.since for client in self._connections if not client.is_whole)
        first = min(waiting, default=end) + self._bounds.head
        return max(min(end, first) - time.monotonic(), 0.001)

    def _take(self) -> bool:
        try:
            talk, _ = self._listener.accept()
        except OSError:
            return False
        talk.settimeout(0)
        peer = talk.getsockopt(*asking.PEER)
        if int.from_bytes(peer[4:8], sys.byteorder) != getuid():
            talk.close()
            return False
        client = _Client(talk, time.monotonic())
        client.drop = lambda: self._drop(client)
        if not self._connections.admit(client):
            talk.close()
            return False
        self._selector.register(talk, selectors.EVENT_READ, client)
        return True

    def _read(self, client: _Client) -> None:
        try:
            part = client.talk.recv(PART)
        except BlockingIOError:
            return
        except OSError:
            self._drop(client)
            return
        client.received += part
        held = sum(len(other.received) for other in self._connections)
        if len(client.received) > 2 * asking.MOST or held > self._bounds.held_bytes:
            self._drop(client)
        elif not part:
            self._selector.unregister(client.talk)
            client.is_whole = True
            self._whole.put(client)

    def _drop(self, client: _Client) -> None:
        self._connections.leave(client)
        if not client.is_whole:
            self._selector.unregister(client.talk)
        client.talk.close()

    def _answer_all(self) -> None:
        while True:
            client = self._whole.get()
            try:
                self._answer(client)
            except OSError:
                # It has gone, or does not read
                pass
            finally:
                with contextlib.suppress(OSError):
                    # The reading thread closes it
                    client.talk.shutdown(socket.SHUT_RDWR)
                client.received.clear()
                client.is_answered = True

    def _answer(self, client: _Client) -> None:
        question = _question(bytes(client.received))
        if question is None:
            return
        words, payload = question
        variables = dict(word.partition("=")[::2] for word in words[:2])
        answer = self._judging.reply(
            words[2:],
            variables,
            payload,
        )
        # A reason quotes what a model wrote, and that may be no text.
        out = answer.out.encode("utf-8", "backslashreplace")
        err = answer.err.encode("utf-8", "backslashreplace")
        client.talk.settimeout(self._bounds.head)
        client.talk.sendall(
            b"%d\n%d\n%b%b"
            % (
                answer.code,
                len(out),
                out,
                err,
            )
        )


def _question(received: bytes) -> tuple[list[str], bytes] | None:
    """Return the words and the payload of a client; None if it does not follow the protocol."""
    length, _, rest = received.partition(b"\n")
    if not length.isdigit() or len(length) > 9 or len(rest) < int(length):
        return None
    head = rest[: int(length)].decode("utf-8", "surrogateescape")
    return head.split("\0"), rest[int(length) :]


def _code() -> float:
    """Return the time when the code that runs here was written; 0 if the file is gone."""
    try:
        return Path(asking.__file__).stat().st_mtime
    except OSError:
        return 0.0


PID: Final = "pid"


class _EndedError(Exception):
    """The signal that ends it came."""


def main(folder: str) -> int:
    """Listen until nobody asks any more. Another one that is there already stays."""
    try:
        asking.check_folder(folder)
    except asking.NoAnswerError as error:
        tell(str(error))
        return 1
    os.chdir(folder)
    # What a harness left open: whoever waits for its end would wait
    os.closerange(3, 1 << 10)
    os.umask(0o077)
    lock = os.open(
        "lock",
        os.O_RDWR | os.O_CREAT,
        0o600,
    )
    if not _take_lock(lock):
        return 0
    judging = Judging(Path(folder))
    log = ProductionLog(Path(folder, LOG))
    signal.signal(signal.SIGTERM, _ended)
    _begin(log)
    why = "idle"
    try:
        with Listener(
            socket.AF_UNIX,
            socket.SOCK_STREAM,
            tell=tell,
        ) as listener:
            Path("socket").unlink(missing_ok=True)
            listener.bind("socket")
            listener.listen(128)
            why = _Clients(listener, judging).serve()
    except _EndedError:
        why = "SIGTERM"
    finally:
        Path("socket").unlink(missing_ok=True)
        log.write({"event": "stop", "pid": os.getpid(), "why": why})
        Path(PID).unlink(missing_ok=True)
    return 0


def _take_lock(lock: int) -> bool:
    """Take the lock and return True if it is ours now. `is_held` may have had it for a moment."""
    for _ in range(20):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.01)
    return False


def is_held(folder: Path) -> bool:
    """Return True if a resident process runs there."""
    with (folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _ended(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise _EndedError


def _begin(log: ProductionLog) -> None:
    killed_pid = _leftover_process()
    if killed_pid:
        log.write({"event": "stop", "pid": killed_pid, "why": "killed"})
    try:
        Path(PID).write_text(f"{os.getpid()}\n", encoding="utf-8")
    except OSError:  # as on a full disk
        tell_fault()
    log.write({"event": "start", "pid": os.getpid()})


def _leftover_process() -> int:
    """Return the process before this one if its number still stands there, else 0.

    One that ends in order takes its number away.
    """
    try:
        return int(Path(PID).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # what holds no number is of no process
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
