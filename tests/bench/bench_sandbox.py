"""What a sandbox costs beside a plain subprocess: per call, per start, in memory, in bulk."""

import asyncio
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

from rich.console import Console
from rich.table import Table

from agenteval.play.tools import Database
from agenteval.protocols import Sandbox, SandboxBackend
from agenteval.sandbox.backends import AUTOMATIC, BACKENDS
from agenteval.sandbox.launch import interpreter
from agenteval.sandbox.maker import declared
from agenteval.sandbox.probe import probe
from agenteval.trial.trial import Limits, Question, Schema


def world_of(*statements: str) -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        return connection.serialize()


TRUE = ["/bin/true"]
SCRIPT = ["python3", "scripts/show.py", "one", "two"]
UV = ["uv", "run", *SCRIPT[1:]]
SLOW = world_of(
    "CREATE TABLE s (a, b)",
    """INSERT INTO s VALUES (
        printf('%.*c', 1000000, 'a'), printf('%.*c', 500000, 'a') || 'b')""",
    "CREATE VIEW t AS SELECT a AS x FROM s WHERE instr(a, b) = 0",
)
HONEST = world_of("CREATE TABLE t (x)", "INSERT INTO t VALUES (1), (2)")
FILES = {
    "scripts/show.py": b"import json, sys\nprint(json.dumps(sys.argv[1:]))\n",
    "world.db": HONEST,
}
CALLS, SCRIPTS, STARTS, HELD, ROUNDS = 200, 100, 50, 20, 5
PER_TRIAL, IN_FLIGHT, CHUNK = 10, 4, 10
BESIDE_ROUNDS, BESIDE_TURNS = 4, 30
BULK_SECONDS = (
    100.0  # no further chunk is begun after that: the table says how many trials it is of
)

Row = dict[str, float]


class Plain:
    """No isolation and no limits: the subprocess that everything is compared with."""

    name = "plain"

    @asynccontextmanager
    async def open(self, files, _limits):
        with tempfile.TemporaryDirectory() as folder:
            for path, content in files.items():
                Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
                Path(folder, path).write_bytes(content)
            Path(folder, "python3").symlink_to(interpreter().executable)
            yield PlainWorld(folder)


class PlainWorld:
    def __init__(self, folder: str) -> None:
        self.folder = folder

    async def run(self, argv: Sequence[str]) -> None:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=self.folder,
            env={"PATH": f"{self.folder}:/usr/bin:/bin"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        await process.communicate()


Backend = SandboxBackend | Plain
World = Sandbox | PlainWorld


async def per_call(worlds: Mapping[str, World], argv: Sequence[str], count: int) -> Row:
    """Milliseconds, the median; in turns, so that a busy machine slows all alike."""
    spent = {name: [] for name in worlds}
    for _ in range(count):
        for name, world in worlds.items():
            started = time.perf_counter()
            await world.run(argv)
            spent[name].append(time.perf_counter() - started)
    return {name: statistics.median(times) * 1000 for name, times in spent.items()}


async def per_question(worlds: Mapping[str, World], *, changed: bool) -> Row:
    """Milliseconds of CPU, here and inside, to judge a world after a turn; the median of rounds.

    `changed`: the turn wrote to its database. Four questions at once, as a scenario with two goals
    and two steps of a handshake has them.
    """
    asked = [Question("SELECT count(*) FROM t WHERE x > 0")] * 4
    known = declared(FILES["world.db"])
    databases = {name: Database(world, "world.db", known) for name, world in worlds.items()}
    for database in databases.values():
        await database.ask(asked)
    spent = {name: [] for name in worlds}
    for _ in range(ROUNDS):
        for name, database in databases.items():
            before = spent_cpu()
            for _ in range(CALLS // ROUNDS):
                database.stamp = "" if changed else database.stamp
                await database.ask(asked)
            spent[name].append((spent_cpu() - before) / (CALLS // ROUNDS))
    return {name: statistics.median(times) * 1000 for name, times in spent.items()}


async def beside_hostile(backend: Backend) -> tuple[float, float]:
    """How long a turn of seven trials takes beside a hostile eighth, of what it takes without.

    A turn is a script call and a question. The eighth has an honest world, then one whose question
    costs all that it may: in turns. Of the median turn, and of the longest of ten.
    """
    spent: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(BESIDE_ROUNDS):
        for hostile in spent:
            spent[hostile] += await eight(backend, hostile=hostile)
    calm, beside = (sorted(times) for times in spent.values())
    tenth = beside[len(beside) * 9 // 10] / calm[len(calm) * 9 // 10]
    return statistics.median(beside) / statistics.median(calm), tenth


async def eight(backend: Backend, *, hostile: bool) -> list[float]:
    spent: list[float] = []
    async with AsyncExitStack() as stack:
        worlds = [await stack.enter_async_context(backend.open(FILES, Limits())) for _ in range(8)]
        if hostile:
            await worlds[0].write("world.db", SLOW)
        async with asyncio.TaskGroup() as group:
            eighth = group.create_task(turns(worlds[0], declared(SLOW if hostile else HONEST), []))
            async with asyncio.TaskGroup() as others:
                for world in worlds[1:]:
                    others.create_task(turns(world, declared(HONEST), spent, BESIDE_TURNS))
            eighth.cancel()
    return spent


async def turns(
    world: Sandbox, schema: Schema, spent: list[float], count: int | None = None
) -> None:
    """Without a count, until it is cancelled."""
    while count is None or len(spent) < 7 * count:
        started = time.perf_counter()
        await world.run(SCRIPT)
        await world.ask("world.db", [Question("SELECT count(*) FROM t")], schema)
        spent.append(time.perf_counter() - started)
        if count is None:
            spent.clear()


def spent_cpu() -> float:
    """Seconds of this process and of all below it, those that have ended included."""
    parents, spent = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        parents[pid], spent[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    family = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    return sum(spent[pid] for pid in family) / os.sysconf("SC_CLK_TCK")


async def per_start(backends: Mapping[str, Backend]) -> Row:
    """Milliseconds until a sandbox with its files stands, the median."""
    spent = {name: [] for name in backends}
    for _ in range(STARTS):
        for name, backend in backends.items():
            started = time.perf_counter()
            async with backend.open(FILES, Limits()):
                spent[name].append(time.perf_counter() - started)
    return {name: statistics.median(times) * 1000 for name, times in spent.items()}


async def memory(backend: Backend) -> float:
    """MiB that one more idle trial takes, shared pages divided among those who share them."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(backend.open(FILES, Limits()))
        before = held_by_children()
        for _ in range(HELD):
            await stack.enter_async_context(backend.open(FILES, Limits()))
        return (held_by_children() - before) / HELD / 1024


def held_by_children() -> int:
    """KiB of all processes below this one."""
    parents, held = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            lines = (path / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        pid = int(path.name)
        parents[pid] = int(fields[1])
        held[pid] = sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    family = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    return sum(held[pid] for pid in family - {os.getpid()})


async def bulk(backends: Mapping[str, Backend], trials: int) -> tuple[int, Row]:
    """Seconds for that many trials of some script calls each, a few in flight; in turns as well.

    Fewer on a slow machine, and as many for each backend: how many comes first.
    """
    spent = dict.fromkeys(backends, 0.0)
    done = 0
    while done < trials and sum(spent.values()) < BULK_SECONDS:
        for name, backend in backends.items():
            started = time.perf_counter()
            gate = asyncio.Semaphore(IN_FLIGHT)
            async with asyncio.TaskGroup() as group:
                for _ in range(CHUNK):
                    group.create_task(trial(backend, gate))
            spent[name] += time.perf_counter() - started
        done += CHUNK
    return done, spent


async def trial(backend: Backend, gate: asyncio.Semaphore) -> None:
    async with gate, backend.open(FILES, Limits()) as sandbox:
        for _ in range(PER_TRIAL):
            await sandbox.run(SCRIPT)


async def measure(backends: Mapping[str, Backend], trials: int) -> dict[str, Row]:
    async with AsyncExitStack() as stack:
        worlds = {
            name: await stack.enter_async_context(backend.open(FILES, Limits()))
            for name, backend in backends.items()
        }
        isolated = {name: world for name, world in worlds.items() if name != Plain.name}
        table = {
            "/bin/true ms": await per_call(worlds, TRUE, CALLS),
            "script ms": await per_call(worlds, SCRIPT, SCRIPTS),
            "uv run ms": await per_call(isolated, UV, SCRIPTS),
            "judge changed, CPU ms": await per_question(isolated, changed=True),
            "judge unchanged, CPU ms": await per_question(isolated, changed=False),
        }
    sandboxes = {name: backend for name, backend in backends.items() if name != Plain.name}
    for name, backend in sandboxes.items():
        middle, tenth = await beside_hostile(backend)
        table.setdefault("beside hostile, of calm", {})[name] = middle
        table.setdefault("longest tenth, of calm", {})[name] = tenth
    table["start ms"] = await per_start(sandboxes)
    table["MiB a trial"] = {name: await memory(backend) for name, backend in sandboxes.items()}
    done, spent = await bulk(backends, trials)
    return table | {f"{done} x {PER_TRIAL} s": spent}


async def main(trials: int) -> None:
    backends: dict[str, Backend] = {Plain.name: Plain()}
    for name in AUTOMATIC:
        if (await probe(BACKENDS[name]())).works:
            backends[name] = BACKENDS[name]()
            backends[f"{name}, pre-forked"] = BACKENDS[name](prefork=True)
    columns = await measure(backends, trials)
    call, *_, whole = columns.values()
    table = Table("", *columns, "call / plain", f"{list(columns)[-1]} / plain")
    for name in backends:
        cells = [f"{column[name]:.2f}" if name in column else "-" for column in columns.values()]
        ratios = [f"{column[name] / column[Plain.name]:.2f}" for column in (call, whole)]
        table.add_row(name, *cells, *ratios)
    Console(width=140).print(table)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
