"""Peers that hold connections of `agenteval view`: an ordinary visitor is answered meanwhile."""

import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from stored import stored
from two_runs import FIRST

FILES = 256  # descriptors that the viewer may have
MOST = FILES // 2  # of which it uses no more, whoever comes
PROMPT = 3.0  # seconds; an idle machine answers in a tenth of one


@dataclass(frozen=True, slots=True)
class Viewer:
    """A running `agenteval view`."""

    pid: int
    port: int
    token: str
    log: Path

    @property
    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    @property
    def peak_mb(self) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) >> 10

    def connect(self, sent: bytes = b"") -> socket.socket:
        peer = socket.create_connection(("127.0.0.1", self.port), PROMPT)
        with suppress(ConnectionError):
            peer.sendall(sent)
        return peer

    def visit(self) -> bytes:
        """The begin of an answer, or what an ordinary visitor met instead, who tries twice."""
        first = self._ask()
        return self._ask() if first.startswith(b"ConnectionResetError") else first

    def _ask(self) -> bytes:
        head = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nConnection: close\r\n\r\n"
        try:
            with self.connect(head.encode()) as peer:
                return peer.recv(12)
        except OSError as error:
            return repr(error).encode()


@pytest.fixture(scope="module")
def viewer(tmp_path_factory) -> Iterator[Viewer]:
    folder = tmp_path_factory.mktemp("held")
    store = stored(str(folder / "runs.db"), replace(FIRST, complete=False, trials_planned=9))
    words = ["sh", "-c", f'ulimit -n {FILES}; exec "$@"', "sh", sys.executable, "-m"]
    words += ["agenteval", "view", "--port", "0", "--store", store]
    with (folder / "err").open("wb") as log, subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=log, text=True,
    ) as process:  # fmt: skip
        address = process.stdout.readline()
        port = int(address.partition("127.0.0.1:")[2].partition("/")[0])
        token = address.partition("token=")[2].strip()
        yield Viewer(process.pid, port, token, folder / "err")
        process.send_signal(signal.SIGTERM)


HOST = b"Host: 127.0.0.1:PORT\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST
PLAYS = {
    "say nothing": b"",
    "half a head": b"GET / HTTP/1.1\r\nHost: ",
    "half a form": b"POST /review HTTP/1.1\r\n" + HOST + b"Content-Length: 900\r\n\r\nlabel=",
    "a body that nobody asked for": GET + b"Content-Length: 900000\r\n\r\nx",
    "events of a run under way": b"GET /events?run=first HTTP/1.1\r\n" + HOST + b"\r\n",
    "read no answer": (GET + b"\r\n") * 5,
    "read no asset": (b"GET /static/htmx.min.js HTTP/1.1\r\n" + HOST + b"\r\n") * 20,
    "idle after an answer": GET + b"\r\n",
    "a head of 70 KB": GET + b"X: " + b"a" * 70_000,
    "10,000 headers": GET + b"".join(b"a%d: b\r\n" % number for number in range(10_000)),
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
}


def play(viewer: Viewer, sent: bytes, times: int) -> tuple[set[bytes], float]:
    """What visitors met while so many connections were held, and the longest time one took."""
    held, met, longest = [], set(), 0.0
    sent = sent.replace(b"PORT", b"%d" % viewer.port)
    for number in range(times):
        held.append(viewer.connect(sent))
        if number % 40 == 39:
            began = time.monotonic()
            met.add(viewer.visit())
            longest = max(longest, time.monotonic() - began)
    for peer in held:
        peer.close()
    return met, longest


@pytest.mark.parametrize("sent", PLAYS.values(), ids=PLAYS)
def test_whatever_120_peers_hold_a_visitor_is_answered(sent, viewer) -> None:
    met, longest = play(viewer, sent, 120)
    assert (met, longest < PROMPT, viewer.descriptors < MOST) == ({b"HTTP/1.1 200"}, True, True)
    assert (viewer.peak_mb < 200, viewer.log.stat().st_size < 4096) == (True, True)


def test_peers_that_reset_their_connections_leave_nothing(viewer) -> None:
    for _ in range(200):
        peer = viewer.connect(b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % viewer.port)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        peer.close()
    assert (viewer.visit(), viewer.log.stat().st_size < 4096) == (b"HTTP/1.1 200", True)


def test_a_visitor_who_leaves_in_the_middle_of_a_form_is_no_fault(viewer) -> None:
    host = f"127.0.0.1:{viewer.port}"
    head = f"POST /review HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n"
    cookie = f"Cookie: agenteval-{viewer.port}={viewer.token}\r\nContent-Length: 9\r\n\r\na"
    viewer.connect(f"{head}{cookie}".encode()).close()
    assert (viewer.visit(), "Traceback" in viewer.log.read_text()) == (b"HTTP/1.1 200", False)


def test_of_many_streams_of_events_the_newest_go_on(viewer) -> None:
    ask = b"GET /events?run=first HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % viewer.port
    peers = [viewer.connect(ask) for _ in range(20)]
    time.sleep(3)
    ended = []
    for number, peer in enumerate(peers):
        peer.settimeout(0)
        parts = b""
        with suppress(BlockingIOError, ConnectionError):
            while part := peer.recv(1 << 16):
                parts += part
        ended += [number] if b"0\r\n\r\n" in parts else []
        peer.close()
    assert ended == list(range(12))  # 8 is the share of 256 descriptors


@pytest.mark.slow
def test_1015_half_requests_lock_nobody_out_and_are_closed(viewer) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    try:
        peers = [viewer.connect(b"GET / HTTP/1.1\r\nHost: ") for _ in range(1015)]
        began = time.monotonic()
        met = viewer.visit()
        took = time.monotonic() - began
        time.sleep(7)
        left = viewer.descriptors
        for peer in peers:
            peer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (met, took < PROMPT, left < 20, viewer.log.stat().st_size < 4096) == (
        *(b"HTTP/1.1 200", True, True, True),
    )
