"""An HTTP server of ours, within its bounds: uvicorn, with a deadline for each connection.

uvicorn itself knows one deadline, for the time between two requests.
"""

import asyncio
import ipaddress
import logging
import math
import socket
from enum import Enum, auto
from functools import partial
from typing import Any, Final, cast

import anyio.to_thread
import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from agenteval.serving.bounds import Bounds, Connections, Listener, Repeats

# Seconds for a peer to read an answer given before its request was whole
LINGER: Final = 2.0


class _Phase(Enum):
    """The part of a request that a connection is in; each has its own deadline."""

    HEAD = auto()
    BODY = auto()
    ANSWER = auto()
    IDLE = auto()
    ENDING = auto()


class _BoundedProtocol(H11Protocol):
    """One connection, which is cut at the deadline of each phase."""

    def __init__(self, connections: "Connections[_BoundedProtocol]", **given: Any) -> None:
        super().__init__(**given)
        self._connections = connections
        self._bounds = connections.bounds
        self._phase: tuple[_Phase, object] | None = None
        self._since, self._begin = 0.0, self.loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._ends = False
        self.peer = ""

    @property
    def waits_since(self) -> float | None:
        """Implements `bounds.Connection`; a stream of events and an unread answer wait too."""
        is_ours = self._phase is not None and self._phase[0] is _Phase.ANSWER
        return None if is_ours and not self.cycle.response_started else self._since

    def drop(self) -> None:
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.peer = _peer_of(transport.get_extra_info("peername"))
        self._enter_phase()
        if not self._connections.admit(self):
            self.drop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.leave(self)
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed h11 in pieces: it limits the bytes of a head only if they arrive in parts."""
        for start in range(0, len(data), self._bounds.head_bytes):
            if self._ends or self.transport.is_closing():
                return
            super().data_received(data[start : start + self._bounds.head_bytes])
        self._enter_phase()

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(msg)
        else:  # an answer is under way: a second one cannot be sent
            self.transport.abort()

    def on_response_complete(self) -> None:
        cycle = self.cycle
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if cycle is self.cycle and self.conn.their_state is h11.SEND_BODY:
            self._end()
        elif cycle is self.cycle and self.loop.time() - self._begin > self._bounds.lifetime:
            self.shutdown()
        self._enter_phase()

    def _end(self) -> None:
        """Read no more of a request that is answered; closed at once, its peer saw no answer."""
        self._ends = True
        self.transport.write_eof()

    def _enter_phase(self) -> None:
        phase = (self._phase_now(), self.cycle)
        if phase != self._phase:
            self._phase, self._since = phase, self.loop.time()
            self._set_deadline(self._seconds(phase[0]))

    def _phase_now(self) -> _Phase:
        if self._ends:
            return _Phase.ENDING
        if self.cycle is not None and not self.cycle.response_complete:
            is_whole = self.conn.their_state is not h11.SEND_BODY
            return _Phase.ANSWER if is_whole else _Phase.BODY
        has_begun = self.cycle is None or self.conn.trailing_data[0]
        return _Phase.HEAD if has_begun else _Phase.IDLE

    def _seconds(self, phase: _Phase) -> float:
        match phase:
            case _Phase.HEAD:
                return self._bounds.head
            case _Phase.BODY:
                return self._bounds.body
            case _Phase.ANSWER:
                return self._bounds.answer
            case _Phase.IDLE:
                return self._bounds.idle
            case _Phase.ENDING:
                return LINGER

    def _set_deadline(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(
            seconds,
            self._expire,
        )

    def _expire(self) -> None:
        """Cut the connection; whoever still reads a long answer has the time of an answer."""
        answered = self._since + self._bounds.answer - self.loop.time()
        if self._sends_the_rest() and answered > 0 and not self._ends:
            self._set_deadline(answered)
        else:
            self.transport.abort()

    def _sends_the_rest(self) -> bool:
        """Return True if the answer is whole, and its peer has not read it all."""
        is_complete = self.cycle is not None and self.cycle.response_complete
        return is_complete and self.transport.get_write_buffer_size() > 0


def _peer_of(address: object) -> str:
    """The peer that a connection counts for: an address, or the network of one of IPv6."""
    host = address[0] if isinstance(address, tuple) and address else ""
    try:
        parsed = ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        # A socket of this machine has no address
        return ""
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(
        ipaddress.ip_network(
            (parsed, 64),
            strict=False,
        )
    )


def server(app: ASGIApp, limits: Bounds) -> uvicorn.Server:
    """A server of this application, for `serve`."""
    config = uvicorn.Config(
        app,
        http=cast("type[H11Protocol]", partial(_BoundedProtocol, Connections(limits))),
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        # Are taken before the first is counted
        backlog=max(2, limits.connections // 8),
        h11_max_incomplete_event_size=limits.head_bytes,
        # Ours is set beside it
        timeout_keep_alive=math.ceil(limits.idle),
        # A stream of events would be waited for
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)


async def serve(
    serves: uvicorn.Server,
    listening: socket.socket,
    limits: Bounds,
) -> None:
    """Serve on this socket, which is taken over, until the server is to exit."""
    repeats = Repeats()
    log = logging.getLogger("uvicorn.error")
    sparse = _Sparse(repeats)
    log.addFilter(sparse)
    asyncio.get_running_loop().set_exception_handler(partial(_tell_fault, log))
    anyio.to_thread.current_default_thread_limiter().total_tokens = limits.threads
    try:
        with _Deep.of(listening, log.warning) as listener:
            await serves.serve(sockets=[listener])
    finally:
        log.removeFilter(sparse)


class _Deep(Listener):
    """A listener whose queue is longer than what asyncio takes out of it at a time."""

    def listen(self, backlog: int = 0, /) -> None:
        super().listen(max(backlog, 1024))


class _Sparse(logging.Filter):
    """Lets one record of each kind through a minute: peers decide how often it comes."""

    def __init__(self, repeats: Repeats) -> None:
        super().__init__()
        self._repeats = repeats

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        kind = type(record.exc_info[1]).__name__ if record.exc_info else ""
        record.msg = self._repeats.line(
            text,
            kind and f"{kind} {record.msg}",
        )
        record.args = ()
        return bool(record.msg)


def _tell_fault(
    log: logging.Logger, loop: asyncio.AbstractEventLoop, context: dict[str, Any]
) -> None:
    """Log a fault as the loop does, but through a log that omits repeats."""
    del loop
    fault = context.get("exception")
    log.error(
        str(context.get("message")),
        exc_info=fault if fault is not None else False,
    )
