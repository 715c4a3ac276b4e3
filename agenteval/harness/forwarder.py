"""The keeper of a program in its sandbox: starts it, and passes on what it alone asks its model.

This text is run by the world's own Python, which has nothing of ours: `python3 -c TEXT SOCKET`.
On SOCKET it reads one order, and says what happens: a JSON object a line. Each connection that the
program makes to its port becomes one more to SOCKET. Commands that the model starts share the
port; who made a connection is seen by whose descriptor it is, and anybody but the program itself
is refused and told of.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
TAIL = 4096  # characters of the last words on standard error
LONGEST = 4 << 20  # bytes of a line; a longer one is told in pieces
GRACE = 3.0  # seconds between asking the program to end and making it
REFUSAL = b"HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
NOT_DUMPABLE = 4


def begin(target: Any, *arguments: Any) -> threading.Thread:
    thread = threading.Thread(
        target=target,
        args=arguments,
        daemon=True,
    )
    thread.start()
    return thread


class _Peer:
    """Our side of the first connection; several threads speak."""

    def __init__(self, peer: socket.socket) -> None:
        self.peer = peer
        self.lock = threading.Lock()
        self.orders = peer.makefile("rb")

    def say(self, **news: Any) -> None:
        line = json.dumps(news, ensure_ascii=False).encode() + b"\n"
        with self.lock:
            try:
                self.peer.sendall(line)
            except OSError:
                # The evaluator is gone, and nobody else would end the program.
                os._exit(1)


def _inode_of(port: int, own: int) -> str:
    """Return the number of the socket whose near end is `port`, and whose far end is our own."""
    near, far = f"0100007F:{port:04X}", f"0100007F:{own:04X}"
    with open("/proc/net/tcp") as table:
        for line in table:
            words = line.split()
            if words[1] == near and words[2] == far:
                return words[9]
    return ""


def holds(pid: int, inode: str) -> bool:
    target = f"socket:[{inode}]"
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                if os.readlink(f"/proc/{pid}/fd/{fd}") == target:
                    return True
            except OSError:
                continue
    except OSError:
        pass
    return False


def command_of(inode: str) -> str:
    """Return the words of whichever process holds this socket, as far as can be seen."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if holds(int(pid), inode):
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read(400).replace(b"\0", b" ")
            return words.decode(errors="replace").strip()
    return "a process that was gone at once"


def _splice(source: socket.socket, sink: socket.socket) -> None:
    try:
        while part := source.recv(1 << 16):
            sink.sendall(part)
    except OSError:
        pass
    try:
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def carry(near: socket.socket, path: str) -> None:
    with near, socket.socket(socket.AF_UNIX) as far:
        try:
            far.connect(path)
        except OSError:
            return
        upward = begin(_splice, near, far)
        _splice(far, near)
        upward.join(1)


def refuse(near: socket.socket) -> None:
    """Answer 403 to a process that may not ask.

    The request is read first: a connection closed over unread bytes shows no answer.
    """
    near.settimeout(1)
    with near:
        try:
            near.recv(1 << 16)
            near.sendall(REFUSAL)
        except OSError:
            pass


def admit(
    server: socket.socket,
    child: subprocess.Popen[bytes],
    path: str,
    reports: _Peer,
) -> None:
    own = server.getsockname()[1]
    while True:
        near, (_, port) = server.accept()
        inode = _inode_of(port, own)
        if inode and holds(child.pid, inode):
            begin(carry, near, path)
        else:
            reports.say(refused=command_of(inode))
            begin(refuse, near)


def listen(stream: Any, reports: _Peer) -> None:
    """Pass on each line that the program prints."""
    while line := stream.readline(LONGEST):
        text = line.decode(errors="replace")
        reports.say(line=text.rstrip("\n"))


def _keep_tail(stream: Any, tail: list[bytes]) -> None:
    while part := stream.read1(1 << 16):
        tail[0] = (tail[0] + part)[-TAIL:]


def obey(reports: _Peer, child: subprocess.Popen[bytes]) -> None:
    """Pass on what the program is to read; whatever else comes, or the end, ends it."""
    while (line := reports.orders.readline()).startswith(b"{"):
        _write_stdin(child, json.loads(line)["stdin"])
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
            child.wait(GRACE)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def _write_stdin(child: subprocess.Popen[bytes], text: str | None) -> None:
    """Write that for the program to read; with None, nothing more will come."""
    try:
        if child.stdin and text is None:
            child.stdin.close()
        elif child.stdin and text:
            child.stdin.write(text.encode())
            child.stdin.flush()
    except (BrokenPipeError, ValueError):
        # It has ended, or was told that nothing comes.
        pass


def furnish(order: dict[str, Any]) -> None:
    for path, text in order["files"].items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def start(order: dict[str, Any]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        order["argv"],
        env=order["env"],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
    )


def main(path: str) -> None:
    # No command may read or steer us.
    ctypes.CDLL(None).prctl(NOT_DUMPABLE, 0, 0, 0, 0)
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(path)
    reports = _Peer(peer)
    order = json.loads(reports.orders.readline())
    furnish(order)
    server = socket.create_server(("127.0.0.1", order["port"]), backlog=64)
    try:
        child = start(order)
    except OSError as error:
        reports.say(
            ended=127,
            said=f"{order['argv'][0]}: {error.strerror}",
            cpu=0.0,
        )
        return
    begin(admit, server, child, path, reports)
    begin(obey, reports, child)
    follow(child, order, reports)


def follow(child: subprocess.Popen[bytes], order: dict[str, Any], reports: _Peer) -> None:
    """Wait until the program has ended; then say how."""
    tail = [b""]
    begin(_keep_tail, child.stderr, tail)
    printed = begin(listen, child.stdout, reports)
    _write_stdin(child, order["stdin"])
    if not order["open"]:
        _write_stdin(child, None)
    code = child.wait()
    printed.join(GRACE)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = tail[0].decode(errors="replace")
    reports.say(
        ended=code,
        said=said,
        cpu=used.ru_utime + used.ru_stime,
    )


if __name__ == "__main__":
    main(sys.argv[1])
