"""What can befall a run: a process killed, no room, damage, a cut network, a wrong clock.

Each is a context, of a run's folder and its model's URL, that gives the fault.
"""

import os
import resource
import shutil
import signal
import socket
import socketserver
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

import postgres
import ray_place
from disturbed import STORE, Fault
from postgres import AbsentError
from process_table import below, is_first

PAGE = 4096
BREAK = 1.5  # seconds in which a network or a server is away
DAY = 86_400
DAMAGED = "the file is damaged"
KILLED = -signal.SIGKILL


class Machines:
    """The database and the cluster of a campaign, each started when a fault first asks for it."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    @cached_property
    def postgres(self) -> postgres.Server:
        """Raises AbsentError."""
        return self._stack.enter_context(postgres.serving())

    @cached_property
    def ray(self) -> ray_place.Cluster:
        """Raises AbsentError."""
        if not (ray_place.PLACE / "bin/ray").exists():
            raise AbsentError("Ray is not there: `make ray` gets it")
        return self._stack.enter_context(ray_place.cluster())


Maker = Callable[[Path, str, Machines], AbstractContextManager[Fault]]


def evaluator(pid: int) -> list[int]:
    return [pid]


def launcher(pid: int) -> list[int]:
    """The child that has children."""
    family = below(pid)
    parents = {parent for _, parent, _ in family}
    return [one for one, parent, _ in family if parent == pid and one in parents]


def second_reader(pid: int) -> list[int]:
    """The children that have none."""
    family = below(pid)
    parents = {parent for _, parent, _ in family}
    return [one for one, parent, _ in family if parent == pid and one not in parents]


def runner(pid: int) -> list[int]:
    return [one for one, _, _ in below(pid) if is_first(one)]


@contextmanager
def killed(
    who: Callable[[int], list[int]], codes: tuple[int, ...], _folder: Path, url: str, _: Machines
) -> Iterator[Fault]:
    """One of the processes that are it at that moment, by SIGKILL."""

    def strike(pid: int) -> bool:
        those = who(pid)
        for one in those[-1:]:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
                return True
        return False

    yield Fault(url, codes, strike)


RELAY = """
import socket, socketserver, sys, threading
def pump(source, to):
    try:
        while data := source.recv(1 << 16):
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)
    except OSError:
        pass
class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        with socket.create_connection(("127.0.0.1", int(sys.argv[2]))) as far:
            back = threading.Thread(target=pump, args=(far, self.request))
            back.start()
            pump(self.request, far)
            back.join()
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@contextmanager
def dead_server(_folder: Path, url: str, _: Machines) -> Iterator[Fault]:
    """The process that has the model's port is killed, and started again a moment later."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    there: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        there.append(subprocess.Popen([sys.executable, "-c", RELAY, str(port), port_of(url)]))
        listening(port)

    again = threading.Timer(BREAK, start)

    def strike(_pid: int) -> bool:
        there[-1].kill()
        there[-1].wait()
        again.start()
        return True

    try:
        start()
        yield Fault(f"http://127.0.0.1:{port}/v1", (0, 5), strike, again.join)
    finally:
        again.cancel()
        for one in there:
            one.kill()
            one.wait()


def port_of(url: str) -> str:
    return url.split(":")[2].partition("/")[0]


def listening(port: int) -> None:
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return


@contextmanager
def dead_database(_folder: Path, url: str, machines: Machines) -> Iterator[Fault]:
    server = machines.postgres
    alive = [True]

    def strike(_pid: int) -> bool:
        server.kill()
        alive.clear()
        return True

    def mend() -> None:
        if not alive:
            alive.append(True)
            server.start()

    try:
        yield Fault(url, (4,), strike, mend, store=server.url(server.new()))
    finally:
        mend()


@contextmanager
def dead_shard(_folder: Path, url: str, _: Machines) -> Iterator[Fault]:
    """Of two processes that play one run, the other one ends it."""

    def strike(pid: int) -> bool:
        os.kill(pid, signal.SIGKILL)
        return True

    yield Fault(url, (KILLED,), strike, words=shard(1), beside=shard(2))


def shard(number: int) -> tuple[str, ...]:
    return ("--shard", f"{number}/2", "--lease", "2")


@contextmanager
def dead_node(_folder: Path, url: str, machines: Machines) -> Iterator[Fault]:
    """Of a Ray cluster, with all that runs there."""
    ray = machines.ray

    def strike(_pid: int) -> bool:
        ray_place.kill_all([one.pid for one in ray.nodes if one.poll() is None][-1])
        return True

    words = ("--executor", "ray", "--lease", "3")
    program = (str(ray_place.PLACE / "bin/python"), "-m", "agenteval")
    try:
        yield Fault(url, (0,), strike, words=words, program=program, environment=ray.environment)
    finally:
        ray.node()


@contextmanager
def file_limit(_folder: Path, url: str, _: Machines) -> Iterator[Fault]:
    """Its store may not grow from one moment on."""

    def strike(pid: int) -> bool:
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (PAGE, hard))
        return True

    yield Fault(url, (4,), strike)


@contextmanager
def full_disk(_folder: Path, url: str, _: Machines) -> Iterator[Fault]:
    """Somebody else fills the disk of its store."""
    disk = Path(tempfile.mkdtemp(prefix="disk-"))
    mounting = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk]
    if subprocess.run(mounting, check=False, capture_output=True).returncode:
        disk.rmdir()
        raise AbsentError("mounts no tmpfs here")
    filler = disk / "filler"

    def strike(_pid: int) -> bool:
        with filler.open("wb", buffering=0) as file:
            for size in (1 << 16, PAGE):
                with suppress(OSError):
                    while file.write(b"x" * size) == size:
                        pass
        return True

    try:
        free = partial(filler.unlink, missing_ok=True)
        yield Fault(url, (4,), strike, free, store=f"{disk}/runs.db")
    finally:
        subprocess.run(["umount", disk], check=True)
        disk.rmdir()


@dataclass
class Wire:
    """What carries bytes to a server, and can be cut: at once, or after some bytes of a reply."""

    port: int
    room: int | None = None
    cut: bool = False
    ends: list[socket.socket] = field(default_factory=list)
    breaks: list[threading.Timer] = field(default_factory=list)

    def carry(self, near: socket.socket) -> None:
        if self.cut:
            return
        with socket.create_connection(("127.0.0.1", self.port)) as far:
            self.ends += [near, far]
            back = threading.Thread(target=self.pump, args=(far, near), kwargs={"replies": True})
            back.start()
            self.pump(near, far)
            back.join()

    def pump(self, source: socket.socket, to: socket.socket, *, replies: bool = False) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if replies and self.room is not None:
                    to.sendall(data[: self.room])
                    self.break_for(BREAK)
                    return
                to.sendall(data)
        with suppress(OSError):
            to.shutdown(socket.SHUT_WR)

    def break_for(self, seconds: float) -> bool:
        self.cut, self.room = True, None
        for end in self.ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self.breaks.append(threading.Timer(seconds, self.whole))
        self.breaks[-1].start()
        return True

    def break_within(self, room: int) -> bool:
        self.room = room
        return True

    def whole(self) -> None:
        self.cut = False

    def mend(self) -> None:
        """Until it is whole."""
        for one in self.breaks:
            one.join()


@contextmanager
def wired(url: str) -> Iterator[tuple[str, Wire]]:
    wire = Wire(int(port_of(url)))

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            wire.carry(self.request)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1", wire
        finally:
            wire.break_for(0)
            server.shutdown()


@contextmanager
def cut_before_a_reply(_folder: Path, url: str, _: Machines) -> Iterator[Fault]:
    """Where nothing of a reply has come, it is asked for again; else its trial is void."""
    with wired(url) as (there, wire):
        yield Fault(there, (0, 5), lambda _pid: wire.break_for(BREAK), wire.mend)


@contextmanager
def cut_within_a_reply(_folder: Path, url: str, _: Machines) -> Iterator[Fault]:
    """It is not asked for again: trials are void, and more of them than a run may have."""
    with wired(url) as (there, wire):
        yield Fault(there, (5,), lambda _pid: wire.break_within(200), wire.mend)


@contextmanager
def damaged_page(folder: Path, url: str, _: Machines) -> Iterator[Fault]:
    """The evaluator is killed, and the disk gives back another last page than was written.

    Where the run does not go on with that, the store comes back from a copy.
    """
    store, copy = folder / STORE, folder / "copy"

    def strike(pid: int) -> bool:
        os.kill(pid, signal.SIGKILL)
        return True

    def mend() -> None:
        if copy.exists():
            shutil.copy(copy, store)
        elif store.exists():
            last = settled(store) - 1
            shutil.copy(store, copy)
            damage(store, last)

    yield Fault(url, (KILLED,), strike, mend, tries=2, says=DAMAGED, damages=True)


def damage(store: Path, page: int) -> None:
    with store.open("r+b") as file:
        file.seek(page * PAGE)
        file.write(b"\xa5" * PAGE)


def settled(store: Path) -> int:
    """All is in its one file now; how many pages that has."""
    with closing(sqlite3.connect(store)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return store.stat().st_size // PAGE


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long step(void) {
    char text[32] = "";
    int file = open(getenv("STEPPED_BY"), O_RDONLY);
    if (file < 0) return 0;
    if (read(file, text, sizeof text - 1) < 0) text[0] = 0;
    close(file);
    return atol(text);
}
int clock_gettime(clockid_t which, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(which, now);
    if (!failed && which == CLOCK_REALTIME) now->tv_sec += step();
    return failed;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int (*real)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
    int failed = real(now, zone);
    if (!failed) now->tv_sec += step();
    return failed;
}
"""


def movable_clock(folder: Path) -> dict[str, str]:
    """Return the environment of a process whose clock `step_clock` moves. Raises AbsentError."""
    if not shutil.which("cc"):
        raise AbsentError("no C compiler here, to stand between a process and its clock")
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "STEPPED_BY": str(folder / "stepped")}


def step_clock(environment: dict[str, str], seconds: int) -> None:
    """Set the clock of the processes with this environment so far from the machine's."""
    mark = Path(environment["STEPPED_BY"])
    mark.with_suffix(".new").write_text(str(seconds))
    mark.with_suffix(".new").rename(mark)


@contextmanager
def stepped_clock(seconds: int, folder: Path, url: str, _: Machines) -> Iterator[Fault]:
    """The time of day is another one, for the process and for SQLite in it."""
    steps = movable_clock(folder)

    def strike(_pid: int) -> bool:
        step_clock(steps, seconds)
        return True

    yield Fault(url, (0,), strike, environment=steps)


FAULTS: dict[str, Maker] = {
    "evaluator": partial(killed, evaluator, (KILLED,)),
    "launcher": partial(killed, launcher, (5,)),
    "runner": partial(killed, runner, (5,)),
    "second reader": partial(killed, second_reader, (0,)),
    "server": dead_server,
    "database": dead_database,
    "shard": dead_shard,
    "Ray node": dead_node,
    "file limit": file_limit,
    "full disk": full_disk,
    "network cut before a reply": cut_before_a_reply,
    "network cut within a reply": cut_within_a_reply,
    "last page damaged": damaged_page,
    "clock ten years ahead": partial(stepped_clock, 3653 * DAY),
    "clock an hour back": partial(stepped_clock, -3600),
}
