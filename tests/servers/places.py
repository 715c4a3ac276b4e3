"""Where the real servers of the tests lie on this machine, outside of the repository."""

import os
import shutil
import socket
import subprocess
import sys
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


SECONDS = 600  # for each command of an installation


def program(name: str, command: str) -> Path:
    """A program of the environment of this name. Raises AbsentError."""
    found = cache() / name / "bin" / command
    if not found.is_file():
        raise AbsentError(f"no {command} in the cache; `make servers` gets it")
    return found


def installed(name: str, command: str, *required: str) -> Path:
    """As `program`, got from the package index, into an environment of its own, where it is absent.

    Raises AbsentError where it cannot be had.
    """
    home = cache() / name
    if not (home / "bin" / command).is_file():
        try:
            install(home, *required)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            shutil.rmtree(home, ignore_errors=True)
            said = (error.stderr or b"").decode(errors="replace").strip().splitlines()
            last = (said or ["no reason given"])[-1]
            raise AbsentError(f"{' '.join(required)} cannot be installed: {last}") from error
    return program(name, command)


def install(home: Path, *required: str) -> None:
    """Raises CalledProcessError, TimeoutExpired."""
    python = str(home / "bin" / "python")
    uv("venv", "--quiet", "--python", sys.executable, str(home))
    options = [
        part
        for option, key in (("--default-index", "index-url"), ("--find-links", "find-links"))
        for found in _pip_setting(key)
        for part in (option, found)
    ]
    uv("pip", "install", "--quiet", *options, "--python", python, *required)


def uv(*command: str) -> None:
    """Raises CalledProcessError, TimeoutExpired."""
    program = str(Path(sys.executable).parent / "uv")
    subprocess.run([program, *command], capture_output=True, timeout=SECONDS, check=True)


def _pip_setting(key: str) -> list[str]:
    """What pip is set to, which uv does not read."""
    command = [sys.executable, "-m", "pip", "config", "get", f"global.{key}"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()


@contextmanager
def running(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    ready: str,
    log: Path,
    wait: float,
) -> Iterator[None]:
    """The server of this command, from when `ready` answers; it is gone afterwards."""
    with log.open("wb") as out:
        server = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=out, stderr=out
        )
    try:
        _await(server, ready, log, wait)
        yield
        if server.poll() is not None:  # what was refused after that says nothing of us
            raise RuntimeError(_told(server, log, "ended by itself"))
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
    raise RuntimeError(_told(server, log, "is not ready"))


def _told(server: subprocess.Popen[bytes], log: Path, what: str) -> str:
    last = log.read_text(errors="replace")[-2000:]
    return f"{server.args!r} {what}, exit code {server.poll()}: {last}"
