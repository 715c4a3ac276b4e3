"""The resident process of the hook: it has the policies read, and answers the clients of one user.

The first client starts it, `agenteval hook stop` ends it, and so does half an hour without a call.
It keeps the log: each call, its own start and its end. If it was killed, the next one records that.
"""

import contextlib
import fcntl
import os
import signal
import socket
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Final

from agenteval.hook import asking
from agenteval.hook.clients import Clients
from agenteval.hook.judging import Judging
from agenteval.hook.production_log import LOG, ProductionLog, tell, tell_fault
from agenteval.serving.bounds import Listener

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
    os.closerange(3, 1 << 10)  # what a harness left open: whoever waits for its end would wait
    os.umask(0o077)
    lock = os.open("lock", os.O_RDWR | os.O_CREAT, 0o600)
    if not _take_lock(lock):
        return 0
    judging, log = Judging(Path(folder)), ProductionLog(Path(folder, LOG))
    signal.signal(signal.SIGTERM, _ended)
    _begin(log)
    why = "idle"
    try:
        with Listener(socket.AF_UNIX, socket.SOCK_STREAM, tell=tell) as listener:
            Path("socket").unlink(missing_ok=True)
            listener.bind("socket")
            listener.listen(128)
            why = Clients(listener, judging).serve()
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
    if left := _leftover_process():
        log.write({"event": "stop", "pid": left, "why": "killed"})
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
