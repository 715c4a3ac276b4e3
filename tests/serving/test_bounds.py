"""The bounds of a server: who makes way, what a log keeps of what repeats, no descriptor left."""

import resource
import subprocess
import sys
from dataclasses import dataclass, field

import pytest

from agenteval.serving.bounds import Bounds, Connections, Repeats, _bounds_under
from agenteval.serving.http import _peer_of


@dataclass(eq=False)
class Visitor:
    """A connection that notes whether it was dropped."""

    peer: str
    waits_since: float | None = None
    dropped: list[bool] = field(default_factory=list)

    def drop(self) -> None:
        self.dropped.append(True)


@pytest.mark.parametrize(
    ("descriptors", "connections", "per_peer", "streams"),
    [
        (16, 4, 2, 2),
        (64, 16, 8, 2),
        (256, 64, 32, 8),
        (1024, 128, 64, 16),
        (1 << 20, 128, 64, 16),
        (resource.RLIM_INFINITY, 128, 64, 16),
    ],
)
def test_a_quarter_of_the_descriptors_are_for_connections(
    descriptors, connections, per_peer, streams
) -> None:
    found = _bounds_under(descriptors)
    assert (found.connections, found.per_peer, found.streams) == (connections, per_peer, streams)


@pytest.mark.parametrize(
    ("others", "newcomer", "dropped", "admitted"),
    [
        ([("a", 1.0)], "a", [], True),
        ([("a", 2.0), ("a", 1.0)], "a", [1], True),  # of its own peer, the one that waits longest
        ([("a", None), ("a", None)], "a", [], False),  # a server works for both
        ([("a", None), ("a", 9.0)], "a", [1], True),
        ([("a", 2.0), ("a", 1.0), ("b", 0.0)], "c", [1], True),  # of the peer that has most
        ([("a", None), ("a", None), ("b", 0.0)], "c", [2], True),
        ([("a", None), ("a", None), ("b", None)], "c", [], False),
    ],
)
def test_a_new_connection_takes_the_place_of_one_that_waits(
    others, newcomer, dropped, admitted
) -> None:
    connections = Connections(Bounds(connections=3, per_peer=2))
    visitors = [Visitor(peer, since) for peer, since in others]
    assert all(connections.admit(one) for one in visitors)
    is_admitted = connections.admit(Visitor(newcomer))
    gone = [number for number, one in enumerate(visitors) if one.dropped]
    assert (gone, is_admitted) == (dropped, admitted)


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (("127.0.0.1", 1), "127.0.0.1"),
        (("::ffff:10.0.0.7", 1, 0, 0), "10.0.0.7"),
        (("2001:db8:1:2:3:4:5:6", 1, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 1, 0, 2), "fe80::/64"),
        ("", ""),
        (None, ""),
    ],
)
def test_a_network_of_ipv6_is_one_peer(address, peer) -> None:
    assert _peer_of(address) == peer


def test_what_repeats_is_written_once_a_minute_with_its_count() -> None:
    now = [0.0]
    repeats = Repeats(lambda: now[0])
    lines = []
    for second in range(130):
        now[0] = float(second)
        lines += [repeats.line("it failed"), repeats.line(f"other {second}", "other")]
    assert [line for line in lines if line] == [
        "it failed",
        "other 0",
        "it failed (59 more since the last line)",
        "other 60 (59 more since the last line)",
        "it failed (59 more since the last line)",
        "other 120 (59 more since the last line)",
    ]


def test_ten_thousand_kinds_of_lines_are_a_hundred_lines() -> None:
    repeats = Repeats(lambda: 1.0)
    lines = [repeats.line(f"fault {number}") for number in range(10_000)]
    assert len([line for line in lines if line]) <= 100


WITHOUT_DESCRIPTORS = """
import os, resource, socket
from agenteval.serving.bounds import Listener
lines = []
listener = Listener.of(socket.create_server(("127.0.0.1", 0)), lines.append)
listener.settimeout(0)
peers = [socket.create_connection(listener.getsockname()) for _ in range(3)]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
for _ in peers:
    try:
        listener.accept()
    except BlockingIOError:
        pass
ends = [peer.recv(1) for peer in peers]
os.close(held.pop())
again = socket.socket()
again.connect(listener.getsockname())
os.close(held.pop())
print(ends, len(lines), lines[0], type(listener.accept()[0]).__name__)
"""


def test_without_a_descriptor_each_peer_is_turned_away_and_later_ones_are_taken() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_DESCRIPTORS], capture_output=True,
                          text=True, timeout=60, check=False)  # fmt: skip
    line = "a connection was turned away: Too many open files"
    assert (done.stdout, done.stderr) == (f"[b'', b'', b''] 3 {line} socket\n", "")
