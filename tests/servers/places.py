"""Where the real servers of the tests lie on this machine, outside of the repository."""

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError


class AbsentError(Exception):
    """A server that is not on this machine, or cannot be got: the reason, and what would help."""


def cache() -> Path:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("AGENTEVAL_SERVERS") or home / "agenteval" / "servers")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(
    command: Sequence[str], environment: Mapping[str, str], *, ready: str, log: Path, wait: float
) -> Iterator[None]:
    """The server of this command, from when `ready` answers; it is gone afterwards."""
    with log.open("wb") as out:
        server = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=out, stderr=out
        )
    try:
        _await(server, ready, log, wait)
        yield
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _await(server: subprocess.Popen[bytes], ready: str, log: Path, wait: float) -> None:
    end = time.monotonic() + wait
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(ready, timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.05)
    told = log.read_text(errors="replace")[-2000:]
    raise RuntimeError(f"{server.args!r} is not ready, exit code {server.poll()}: {told}")
