"""Faults of a machine in mid-run: no room, a dead database, a cut network, damage, a wrong clock.

A run is struck while its model is about to answer, ends in one line or not at all, and is gone on
with. Then no answered call is lost or doubled, nothing is left, and all figures are those of a run
that nothing befell.
"""

import os
import resource
import shutil
import signal
import socket
import socketserver
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import chaos_kill
import pytest
from scripted_server import scripted
from test_resume import seen

from agenteval.core.scoring import score
from agenteval.store.sql import SqlStore

AFTER = 3  # answered calls
PAGE = 4096


@dataclass
class Struck(chaos_kill.Model):
    """A model whose answers wait, after some calls, until the fault has come."""

    there: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def __call__(self, messages):
        said = super().__call__(messages)
        if len(self.answered) >= AFTER:
            self.there.set()
            self.over.wait(60)
        return said


@dataclass(frozen=True)
class Fault:
    """What befalls a run. `code` is how the run ends that it befalls."""

    code: int
    url: str  # where the model is
    strike: Callable[[int], object]  # with the number of the process
    store: str = ""  # where that is not the one of a folder
    mend: Callable[[], object] = lambda: None


def figures(store: str) -> list[object]:
    """But how often a request was sent again, which is what a cut network is to be told by."""
    with closing(SqlStore(store)) as opened:
        run = opened.load("last")
    once = [replace(trial, retries=0) for trial in run.trials]
    return [seen(run), score(once), run.complete]


def hours(store: str) -> float:
    """From the first reply of a run to the last one, by the time of day."""
    with closing(SqlStore(store)) as opened:
        ended = [turn.ended for trial in opened.load("last").trials for turn in trial.turns]
    return (max(ended) - min(ended)) / 3600


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> list[object]:
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "tmp").mkdir()
    with scripted(chaos_kill.Model()) as url, chaos_kill.begun(folder, *command(url)) as running:
        assert chaos_kill.ending(running) == 0
    return figures(str(folder / chaos_kill.STORE))


def command(url: str, store: str = "") -> tuple[str, ...]:
    return (*chaos_kill.RUN, "--base-url", url, *(("--store", store) if store else ()))


@contextmanager
def file_limit(_folder: Path, url: str) -> Iterator[Fault]:
    """Its store may not grow from one moment on."""

    def strike(pid: int) -> None:
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (PAGE, hard))

    yield Fault(4, url, strike)


@contextmanager
def full_disk(folder: Path, url: str) -> Iterator[Fault]:
    """Somebody else fills the disk of its store."""
    disk = folder / "disk"
    disk.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk]
    if subprocess.run(mounting, check=False, capture_output=True).returncode:
        pytest.skip("mounts no tmpfs here")
    filler = disk / "filler"

    def strike(_pid: int) -> None:
        with filler.open("wb", buffering=0) as file:
            for size in (1 << 16, PAGE):
                with suppress(OSError):
                    while file.write(b"x" * size) == size:
                        pass

    try:
        yield Fault(4, url, strike, str(disk / "runs.db"), filler.unlink)
    finally:
        subprocess.run(["umount", disk], check=True)


@contextmanager
def dead_database(_folder: Path, url: str, postgres) -> Iterator[Fault]:
    store = postgres.url(postgres.new())
    yield Fault(4, url, lambda _pid: postgres.kill(), store, postgres.start)


@dataclass
class Wire:
    """What carries bytes to a server, and can be cut: at once, or after some bytes of a reply."""

    port: int
    room: int | None = None
    cut: bool = False
    ends: list[socket.socket] = field(default_factory=list)

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
                    self.break_for(1.5)
                    return
                to.sendall(data)
        with suppress(OSError):
            to.shutdown(socket.SHUT_WR)

    def break_for(self, seconds: float) -> None:
        self.cut, self.room = True, None
        for end in self.ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        threading.Timer(seconds, self.whole).start()

    def whole(self) -> None:
        self.cut = False


@contextmanager
def wired(url: str) -> Iterator[tuple[str, Wire]]:
    wire = Wire(int(url.split(":")[2].partition("/")[0]))

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
def cut_before_a_reply(_folder: Path, url: str) -> Iterator[Fault]:
    """Nothing of it has come: it is asked for again, and no trial is void."""
    with wired(url) as (there, wire):
        yield Fault(0, there, lambda _pid: wire.break_for(1.5))


@contextmanager
def cut_within_a_reply(_folder: Path, url: str) -> Iterator[Fault]:
    """It is not asked for again: trials are void, and more of them than a run may have."""
    with wired(url) as (there, wire):
        yield Fault(5, there, lambda _pid: setattr(wire, "room", 200))


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long step(void) {
    const char *file = getenv("STEPPED_BY");
    return file && !access(file, F_OK) ? atol(getenv("STEP")) : 0;
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


@contextmanager
def clock(folder: Path, url: str, monkeypatch, seconds: int) -> Iterator[Fault]:
    """The time of day is another one, for the process and for SQLite in it."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler here, to stand between a process and its clock")
    source, library, mark = folder / "clock.c", folder / "clock.so", folder / "stepped"
    source.write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    for name, value in (("LD_PRELOAD", library), ("STEPPED_BY", mark), ("STEP", seconds)):
        monkeypatch.setenv(name, str(value))
    yield Fault(0, url, lambda _pid: mark.touch())


FAULTS = {
    "a limit of files": file_limit,
    "a full disk": full_disk,
    "a dead database": dead_database,
    "a network cut before a reply": cut_before_a_reply,
    "a network cut within a reply": cut_within_a_reply,
    "a clock a day ahead": clock,
    "a clock a day back": clock,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_run_that_a_fault_befalls_ends_as_if_nothing_had_been(
    name, tmp_path, undisturbed, request, monkeypatch
) -> None:
    more = {}
    if name == "a dead database":
        more = {"postgres": request.getfixturevalue("postgres")}
    if FAULTS[name] is clock:
        more = {"monkeypatch": monkeypatch, "seconds": 86_400 * (1 if "ahead" in name else -1)}
    (tmp_path / "tmp").mkdir()
    model = Struck()
    with scripted(model) as url, FAULTS[name](tmp_path, url, **more) as fault:
        code = struck(tmp_path, model, fault)
        said = (tmp_path / "told").read_text()
        fault.mend()
        words = ("--store", fault.store) if fault.store else ()
        ended = code == 0 or chaos_kill.resumed(tmp_path, fault.url, *words)
        where = fault.store or str(tmp_path / chaos_kill.STORE)
        found, apart = figures(where), hours(where)
        faults = chaos_kill.looked(tmp_path, model, name, ended=ended, store=where).faults
    assert (code, "Traceback" in said, ended) == (fault.code, False, True)
    assert code != 4 or "What was stored before is intact" in said.strip().splitlines()[-1]
    assert (FAULTS[name] is clock) == (apart > 23)
    assert (found, [one for one in faults if str(tmp_path / "disk") not in one]) == (
        undisturbed,
        [],
    )


def struck(folder: Path, model: Struck, fault: Fault) -> int | None:
    with chaos_kill.begun(folder, *command(fault.url, fault.store)) as running:
        assert model.there.wait(60)
        time.sleep(0.1)  # its other trial waits, too
        fault.strike(running.pid)
        model.over.set()
        return chaos_kill.ending(running)


def damage(store: Path, page: int) -> None:
    """As a disk does that gives back something else than was written."""
    with store.open("r+b") as file:
        file.seek(page * PAGE)
        file.write(b"\xa5" * PAGE)


def settled(store: Path) -> int:
    """All is in its one file now; how many pages that has."""
    with closing(sqlite3.connect(store)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return store.stat().st_size // PAGE


@pytest.mark.slow
def test_a_run_whose_last_page_is_damaged_goes_on_unharmed_or_says_so(
    tmp_path, undisturbed
) -> None:
    (tmp_path / "tmp").mkdir()
    model, store, copy = Struck(), tmp_path / chaos_kill.STORE, tmp_path / "copy"
    with scripted(model) as url:
        struck(tmp_path, model, Fault(0, url, lambda pid: os.kill(pid, signal.SIGKILL)))
        last = settled(store) - 1
        shutil.copy(store, copy)
        damage(store, last)
        again = chaos_kill.resumed(tmp_path, url)
        said = (tmp_path / "told").read_text().strip()
        if not again:
            shutil.copy(copy, store)
            again = chaos_kill.resumed(tmp_path, url)
            assert "the file is damaged" in said.splitlines()[-1]
    assert ("Traceback" in said, figures(str(store))) == (False, undisturbed)
    assert chaos_kill.looked(tmp_path, model, "page", ended=again).faults == []


@pytest.mark.slow
def test_whichever_page_is_damaged_it_is_said_in_one_line_or_touches_nothing_that_is_shown(
    cli, project
) -> None:
    cli("run", "-m", "sim/qwen3.5-27b", "--trials", "1", "--max-turns", "3", "media/rendered-plot")
    store = project / chaos_kill.STORE
    pages, whole = settled(store), cli("show", "last", "--json").out
    sound, other = store.read_bytes(), []
    for page in range(1, pages):  # without the first it is no database
        store.write_bytes(sound)
        damage(store, page)
        said = cli("show", "last", "--json")
        if (said.code, said.out) != (0, whole) and not is_told(said):
            other.append((page, said))
        checked = cli("store", "check")
        if checked.code and not (checked.code == 4 and "damaged" in checked.err):
            other.append((page, checked))
    assert other == []


def is_told(said) -> bool:
    return said.code == 4 and said.err.count("\n") == 1 and "the file is damaged" in said.err
