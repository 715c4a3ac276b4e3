"""The process that stays: it has the policies read, and answers the clients of one user.

The first client starts it, `agenteval hook stop` ends it, and so does half an hour without a call.
It keeps the log: each call, when it started and when it ended; of one that was killed the next
one tells.
"""

import contextlib
import fcntl
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Final

from agenteval.hook import asking
from agenteval.hook.judging import Judging
from agenteval.hook.production_log import LOG, ProductionLog, tell_fault

IDLE: Final = 1800.0  # seconds without a call after which it ends
SLOW: Final = 5.0  # seconds that a client may take to say what it asks
PID: Final = "pid"


class _EndedError(Exception):
    """The signal that ends it came."""


def main(folder: str) -> int:
    """Listen until nobody asks any more. Another one that is there already stays."""
    os.chdir(folder)
    os.closerange(3, 1 << 10)  # what a harness left open: whoever waits for its end would wait
    os.umask(0o077)
    lock = os.open("lock", os.O_RDWR | os.O_CREAT, 0o600)
    if not _taken(lock):
        return 0
    judging, log = Judging(Path(folder)), ProductionLog(Path(folder, LOG))
    signal.signal(signal.SIGTERM, _ended)
    _begin(log)
    why = "idle"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            Path("socket").unlink(missing_ok=True)
            listening.bind("socket")
            listening.listen(128)
            listening.settimeout(IDLE)
            why = _serve(listening, judging)
    except _EndedError:
        why = "SIGTERM"
    finally:
        Path("socket").unlink(missing_ok=True)
        log.write({"event": "stop", "pid": os.getpid(), "why": why})
        Path(PID).unlink(missing_ok=True)
    return 0


def _taken(lock: int) -> bool:
    """Whether the lock is ours now: `is_held` may have had it for a moment."""
    for _ in range(20):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.01)
    return False


def is_held(folder: Path) -> bool:
    """Whether a resident process runs there."""
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
    if left := _left():
        log.write({"event": "stop", "pid": left, "why": "killed"})
    try:
        Path(PID).write_text(f"{os.getpid()}\n", encoding="utf-8")
    except OSError:  # as on a full disk
        tell_fault()
    log.write({"event": "start", "pid": os.getpid()})


def _left() -> int:
    """The process before this one that did not take its number away, as who ends in order does."""
    try:
        return int(Path(PID).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # what holds no number is of no process
        return 0


def _serve(listening: socket.socket, judging: Judging) -> str:
    """Why it ends."""
    code = _code()
    while True:
        try:
            talk, _ = listening.accept()
        except TimeoutError:
            return "idle"
        threading.Thread(target=_answer, args=(talk, judging), daemon=True).start()
        if code != _code():
            time.sleep(0.2)  # the call in hand is answered by the old one
            return "new code"


def _code() -> float:
    """When the code that runs here was written; 0 where it is gone."""
    try:
        return Path(asking.__file__).stat().st_mtime
    except OSError:
        return 0.0


def _answer(talk: socket.socket, judging: Judging) -> None:
    with talk, contextlib.suppress(OSError):
        talk.settimeout(SLOW)
        peer = talk.getsockopt(*asking.PEER)
        if int.from_bytes(peer[4:8], sys.byteorder) != os.getuid():
            return
        asked = _read(talk)
        if asked is None:
            return
        words, payload = asked
        variables = dict(word.partition("=")[::2] for word in words[:2])
        answer = judging.reply(words[2:], variables, payload)
        # A reason quotes what a model wrote, and that may be no text.
        out = answer.out.encode("utf-8", "backslashreplace")
        err = answer.err.encode("utf-8", "backslashreplace")
        talk.sendall(b"%d\n%d\n%b%b" % (answer.code, len(out), out, err))


def _read(talk: socket.socket) -> tuple[list[str], bytes] | None:
    """The words and the payload of a client; None from one that speaks otherwise."""
    told = bytearray()
    while part := talk.recv(1 << 16):
        told += part
        if len(told) > 2 * asking.MOST:
            return None
    length, _, rest = bytes(told).partition(b"\n")
    if not length.isdigit() or len(rest) < int(length):
        return None
    head = rest[: int(length)].decode("utf-8", "surrogateescape")
    return head.split("\0"), rest[int(length) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
