"""How long a run of up to 10,000,000 calls takes over shards: simulated, beside a closed form.

    python tests/scale_simulation.py             # the table of docs/scale.md, from COSTS
    python tests/scale_simulation.py --measure   # the costs, anew, on this machine (minutes)

A trial waits for its model, needs its shard's core, and then the store, each by so much a call as
was measured. Shards take trials from one queue, as they claim them. What is simulated is that
queue: no model, sandbox or database takes part.
"""

import heapq
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from agenteval.protocols import TrialKey
from agenteval.store.sql import SqlStore
from agenteval.testing import run, trial

CALLS_A_TRIAL = 10
RUN = (
    *("run", "-m", "sim/qwen3.6-35b", "data/pantry-audit", "--concurrency", "8"),
    *("--store", "runs.db", "--trials"),
)
FEW, MANY = 20, 220
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
SHARDS = (1, 8, 64, 512)


@dataclass(frozen=True)
class Costs:
    """Seconds a call: what its model takes, its shard, and the store, for all shards."""

    model: float = 2.0  # assumed: it is the server's, and every server has its own
    core: float = 0.0225  # of processor 22 ms; 0.5 ms to write to PostgreSQL and wait for its disk
    store: float = 1 / 3500
    slots: int = 32  # trials at a time in a shard


COSTS = Costs()


def bounds(calls: int, shards: int, costs: Costs = COSTS) -> dict[str, float]:
    """Seconds, if one part were busy all the time and the others had room."""
    whole = costs.model + costs.core + costs.store
    used = min(shards * costs.slots, -(-calls // CALLS_A_TRIAL))
    return {
        "slots": calls * whole / used,
        "cores": calls * costs.core / shards,
        "store": calls * costs.store,
    }


def closed_form(calls: int, shards: int, costs: Costs = COSTS) -> float:
    return max(bounds(calls, shards, costs).values())


def simulated(
    calls: int, shards: int, costs: Costs = COSTS, *, steps: int = 1, seed: int = 1
) -> float:
    """Seconds until the last trial is over. A trial is played in so many `steps`.

    What its model takes is drawn; core and store serve one after another, whoever comes first.
    """
    chance = random.Random(seed)
    part = CALLS_A_TRIAL / steps
    left = -(-calls // CALLS_A_TRIAL)
    cores, store, over = [0.0] * shards, 0.0, 0.0
    first = min(left, shards * costs.slots)
    left -= first
    # when a step wants its core, or (after its shard) the store; the shard; steps to come
    events = [
        (chance.gammavariate(part, costs.model), slot % shards, steps, False)
        for slot in range(first)
    ]
    heapq.heapify(events)
    while events:
        now, shard, to_come, at_store = events[0]
        if not at_store:
            cores[shard] = max(cores[shard], now) + part * costs.core
            heapq.heapreplace(events, (cores[shard], shard, to_come, True))
            continue
        store = max(store, now) + part * costs.store
        over = max(over, store)
        if to_come == 1:
            if not left:
                heapq.heappop(events)
                continue
            left, to_come = left - 1, steps + 1
        wait = chance.gammavariate(part, costs.model)
        heapq.heapreplace(events, (store + wait, shard, to_come - 1, False))
    return over


def narrow(calls: int, shards: int, costs: Costs = COSTS) -> str:
    """What bounds the run, by the closed form."""
    found = bounds(calls, shards, costs)
    return max(found, key=lambda name: found[name])


def rows(sizes: tuple[int, ...] = SIZES) -> Iterator[str]:
    yield "| calls | shards | narrowest | closed form, s | simulated, s | ratio |"
    yield "|--:|--:|---|--:|--:|--:|"
    for calls in sizes:
        for shards in SHARDS:
            formula, played = closed_form(calls, shards), simulated(calls, shards)
            yield (
                f"| {calls:,} | {shards} | {narrow(calls, shards)} | {formula:,.0f} "
                f"| {played:,.0f} | {played / formula:.2f} |"
            )


PLAY = """
import atexit, os, sys
atexit.register(lambda: print(*os.times()[:4], file=open("used", "w")))
from agenteval.cli.app import main
main()
"""


def core_seconds() -> tuple[float, float, float]:
    """What a call more takes: the evaluator's processor, that of its processes, bytes of store."""
    points = []
    for trials in (FEW, MANY):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            command = [sys.executable, "-c", PLAY, *RUN, str(trials)]
            subprocess.run(command, cwd=folder, check=False, capture_output=True)
            used = [float(word) for word in (folder / "used").read_text().split()]
            file = folder / "runs.db"
            with closing(SqlStore(str(file))) as store, store.connect() as asked:
                calls = asked.exec_driver_sql("SELECT count(*) FROM call").scalar_one()
            points.append((sum(used[:2]), sum(used[2:]), file.stat().st_size, calls))
    (*few, calls), (*many, more) = points
    own, others, size = [(b - a) / (more - calls) for a, b in zip(few, many, strict=True)]
    return own, others, size


def written(url: str, who: str, trials: int) -> None:
    """Trials of ten calls, each in a turn of its own, as a run stores them.

    It says when it is ready, waits for a line to begin by, and says when it has ended.
    """
    value = run(run_id=who)
    made = trial(*["ls"] * CALLS_A_TRIAL)
    with closing(SqlStore(url)) as store:
        store.add(value)
        recorder = store.recorder(value, {made.scenario: "sha256:0"})
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        for number in range(trials):
            recorder.begin(key := TrialKey(made.scenario, number, made.seed))
            for at, call in enumerate(made.calls):
                recorder.turn(key, at, made.turns[0])
                recorder.call(key, replace(call, turn=at))
            recorder.finish(key, made)
        sys.stdout.write(f"{time.monotonic()}\n")


def calls_stored(url: str, writers: int, trials: int = 1000) -> float:
    """Calls a second, of several processes that begin at once, until the last has ended."""
    code = "import sys, scale_simulation as s; s.written(*sys.argv[1:3], int(sys.argv[3]))"
    those = [
        subprocess.Popen(
            [sys.executable, "-c", code, url, f"{writers}-{one}", str(trials)],
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for one in range(writers)
    ]  # fmt: skip
    for one in those:
        one.stdout.readline()
    began = time.monotonic()
    for one in those:
        one.stdin.write("\n")
        one.stdin.flush()
    ended = max(float(one.communicate()[0]) for one in those)
    return writers * trials * CALLS_A_TRIAL / (ended - began)


def measured() -> Iterator[str]:
    from postgres import DURABLE, FAST, serving  # noqa: PLC0415 -- its driver, for this alone

    own, others, size = core_seconds()
    yield f"evaluator: {own * 1000:.1f} ms of processor a call, {size:,.0f} bytes of store a call"
    yield f"worlds, judges and second reader: {others * 1000:.1f} ms of processor a call"
    for name, options in (("each commit on disk", DURABLE), ("fsync off", FAST)):
        with serving(options) as server:
            url = server.url(server.new())
            SqlStore(url).close()
            for writers in (1, 4):
                stored = calls_stored(url, writers)
                yield f"PostgreSQL, {name}, {writers} writers: {stored:,.0f} calls a second"
    yield f"processors: {os.cpu_count()}, load {os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    for line in measured() if "--measure" in sys.argv else rows():
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
