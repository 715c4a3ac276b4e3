"""The bounds of a server of ours: its connections, deadlines and sizes, and which peer goes first.

The viewer, the resident process of the hook and the simulated server share them. Standard library
only: the hook's process starts with it.
"""

import errno
import os
import resource
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

MOST_CONNECTIONS: Final = 128
FEWEST_CONNECTIONS: Final = 4
MINUTE: Final = 60.0
_EXHAUSTED: Final = {
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOBUFS,
    errno.ENOMEM,
}
# Seconds, where not even the spare descriptor is left: accept would spin
_PAUSE: Final = 0.05


@dataclass(frozen=True, slots=True)
class Bounds:
    """Counts, seconds and bytes. No deadline is set anew by what a peer sends."""

    connections: int = MOST_CONNECTIONS
    per_peer: int = MOST_CONNECTIONS // 2
    # Of events, which hold a connection
    streams: int = MOST_CONNECTIONS // 8
    threads: int = 8
    # From the first byte of a request, or the begin of the connection
    head: float = 5.0
    body: float = 10.0
    # Between two requests
    idle: float = 10.0
    # Until the peer has read its answer
    answer: float = 60.0
    # Of one stream of events, within its answer; a browser asks again
    stream: float = 50.0
    # Of a connection; an answer under way is still given
    lifetime: float = 300.0
    head_bytes: int = 16 << 10
    # Of all requests that are not whole yet
    held_bytes: int = 64 << 20


def bounds() -> Bounds:
    """The bounds of this process: a quarter of its descriptors at most are for connections."""
    return _bounds_under(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _bounds_under(descriptors: int) -> Bounds:
    """The bounds under a limit of open files; RLIM_INFINITY is negative."""
    share = descriptors // 4 if descriptors >= 0 else MOST_CONNECTIONS
    connections = max(FEWEST_CONNECTIONS, min(MOST_CONNECTIONS, share))
    return Bounds(
        connections,
        connections // 2,
        streams=max(2, connections // 8),
    )


class Repeats:
    """Lines of a log, of which each kind comes once a minute, with how many were left out."""

    MOST_KINDS: Final = 64

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next: dict[str, float] = {}
        self._omitted: Counter[str] = Counter()

    def line(
        self,
        text: str,
        kind: str = "",
    ) -> str:
        """Return the line as it is to be written; "" where it is left out."""
        kind = kind or text
        now = self._clock()
        if kind not in self._next and len(self._next) >= self.MOST_KINDS:
            self._next = {known: end for known, end in self._next.items() if end > now}
            kind = kind if len(self._next) < self.MOST_KINDS else ""
        if now < self._next.get(kind, now):
            self._omitted[kind] += 1
            return ""
        self._next[kind] = now + MINUTE
        omitted = self._omitted.pop(kind, 0)
        return f"{text} ({omitted} more since the last line)" if omitted else text


class Connection(Protocol):
    """A connection as its server counts it."""

    @property
    def peer(self) -> str: ...

    @property
    def waits_since(self) -> float | None:
        """The time since when it waits for its peer; None while the server works for it."""

    @property
    def drop(self) -> Callable[[], None]:
        """Close it now."""


C = TypeVar("C", bound=Connection)


@dataclass(slots=True)
class Connections(Generic[C]):
    """The open connections. A new one takes the place of the one that waits longest."""

    bounds: Bounds
    _open: dict[C, None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[C]:
        return iter(self._open)

    def __contains__(self, connection: object) -> bool:
        return connection in self._open

    def admit(self, connection: C) -> bool:
        """Count a new connection; return False if no other can make way for it."""
        peers = Counter(other.peer for other in self._open)
        if peers[connection.peer] >= self.bounds.per_peer:
            if not self._drop_from(connection.peer):
                return False
        elif len(self._open) >= self.bounds.connections:
            order = [peer for peer, _ in peers.most_common()]
            if not any(self._drop_from(peer) for peer in order):
                return False
        self._open[connection] = None
        return True

    def leave(self, connection: C) -> None:
        self._open.pop(connection, None)

    def _drop_from(self, peer: str) -> bool:
        waiting: list[tuple[float, C]] = []
        for other in self._open:
            since = other.waits_since
            if other.peer == peer and since is not None:
                waiting.append((since, other))
        if not waiting:
            return False
        _, oldest = min(waiting, key=lambda pair: pair[0])
        self.leave(oldest)
        oldest.drop()
        return True


class Listener(socket.socket):
    """A listening socket that goes on where the process has no descriptor left.

    A spare one is given up to take the next connection and close it, so that its peer hears the
    end of it and `accept` does not spin.
    """

    def __init__(
        self, *words: Any, tell: Callable[[str], None] = lambda _: None, **more: Any
    ) -> None:
        super().__init__(*words, **more)
        self._tell = tell
        self._spare: int | None = os.open(
            "/dev/null",
            os.O_RDONLY | os.O_CLOEXEC,
        )

    @classmethod
    def of(
        cls,
        listening: socket.socket,
        tell: Callable[[str], None],
    ) -> "Listener":
        """Take over a socket that listens already."""
        return cls(fileno=listening.detach(), tell=tell)

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection.

        Raises BlockingIOError if there is none, or the next one was turned away.
        """
        try:
            return super().accept()
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            self._turn_away()
            self._tell(f"a connection was turned away: {os.strerror(error.errno or 0)}")
            raise BlockingIOError from error

    def _turn_away(self) -> None:
        if self._spare is None:
            time.sleep(_PAUSE)
        else:
            os.close(self._spare)
            self._spare = None
            with suppress(OSError):
                super().accept()[0].close()
        with suppress(OSError):
            self._spare = os.open(
                "/dev/null",
                os.O_RDONLY | os.O_CLOEXEC,
            )

    def close(self) -> None:
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        super().close()
