"""A real PostgreSQL for tests: its own data, reached through a socket in a folder, gone after them.

It takes what is installed (`apt-get install postgresql`), and needs neither a port nor a service.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg
from process_table import below

USER = "agenteval"
DURABLE = ("listen_addresses=", "max_connections=40")  # as it is installed
FAST = (*DURABLE, "fsync=off", "full_page_writes=off")


class AbsentError(Exception):
    """It is not here, for the reason in the message."""


@dataclass(frozen=True)
class Server:
    """`begin` starts its processes; `those` has the first of them, the last one started last."""

    folder: Path
    begin: Callable[[], subprocess.Popen[bytes]]
    those: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    def asks(self, database: str = "postgres") -> psycopg.Connection:
        return psycopg.connect(
            host=str(self.folder), user=USER, dbname=database, autocommit=True, connect_timeout=5
        )

    def new(self, sql: str = "") -> str:
        """The name of a database of its own, made by this SQL."""
        name = f"runs{next(self._numbers)}"
        with self.asks() as connection:
            connection.execute(f"CREATE DATABASE {name}")
        with self.asks(name) as connection:
            connection.execute(sql)
        return name

    def start(self) -> "Server":
        """Also after `kill`: it brings back what was committed."""
        self.those.append(self.begin())
        return _ready(self)

    def kill(self) -> None:
        """All of its processes at once, as a machine that runs out of memory does."""
        first = self.those[-1]
        for one in (first.pid, *(pid for pid, _, _ in below(first.pid))):
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        first.wait(timeout=30)

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@/{database}?host={self.folder}"


def programs() -> Path:
    """The folder of initdb and postgres. Raises AbsentError."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in folders:
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    raise AbsentError("no PostgreSQL here; `apt-get install postgresql` brings one")


@contextmanager
def serving(settings: Sequence[str] = FAST) -> Iterator[Server]:
    """Raises AbsentError."""
    bin_, owner = programs(), _owner()
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short: the path of a socket has 107 bytes
    if owner:
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    who = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if owner else {}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/", **who}
    made = [bin_ / "initdb", "-D", folder / "data", "-U", USER, "-A", "trust", "-E", "UTF8",
            "--no-sync", "--locale=C"]  # fmt: skip
    try:
        subprocess.run(made, check=True, timeout=60, **quiet)
        options = [
            part for one in (*settings, f"unix_socket_directories={folder}") for part in ("-c", one)
        ]
        command = [bin_ / "postgres", "-D", folder / "data", *options]
        server = Server(folder, lambda: subprocess.Popen(command, **quiet))
        try:
            yield server.start()
        finally:
            for running in server.those:
                running.send_signal(signal.SIGQUIT)  # at once: the data is thrown away
                running.wait(timeout=30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _owner() -> pwd.struct_passwd | None:
    """Whom it runs as where we are root: PostgreSQL refuses to."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise AbsentError("PostgreSQL does not run as root, and there is nobody else")


def _ready(server: Server) -> Server:
    until = time.monotonic() + 30
    while True:
        try:
            server.asks().close()
        except psycopg.OperationalError:
            if time.monotonic() > until or server.those[-1].poll() is not None:
                raise
            time.sleep(0.05)
        else:
            return server
