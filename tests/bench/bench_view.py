"""How long the pages of `agenteval view` take over a store of a million calls: `make bench-view`.

The store is made by copying played trials in SQL: fifty runs of 1,000 trials of 20 calls. Pages
are asked for over HTTP, as a browser does; printed is what the server's process took of CPU for
each, and the time by the clock: the mean of five, each of other runs, so that nothing is kept from
the one before. A store that is there can be named.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import closing
from itertools import product
from pathlib import Path
from random import Random

from stored import stored

from agenteval.testing import denied, run, trial
from agenteval.trial.call import Ending, Outcome
from agenteval.trial.trial import Trial

CLASSES = ("bare-binary", "pipe-to-filter", "shell-chain", "wrong-option", "unknown-script")
RUNS, TRIALS, CALLS = 50, 1000, 20
WORLDS, BLOCKS = 40, 6  # trials that are played once, and how often each is played otherwise


def made(path: Path, *, runs: int = RUNS, trials: int = TRIALS) -> Path:
    """A store of so many runs that differ: each trial is a copy of one of six of its world.

    Trials have 2 to 38 calls, 20 in the mean. One in eight is an error, more in some trials; of
    two runs in a row the second errs more often.
    """
    chance = Random(1)
    each = product(range(1, BLOCKS + 1), range(WORLDS))
    seeds = [_played(number, place, chance) for number, place in each]
    stored(str(path), run(*seeds, run_id="seed", trials_planned=trials))
    with closing(sqlite3.connect(path)) as store, store:
        store.execute("PRAGMA synchronous=OFF")
        for at in range(runs):
            _copy(store, at, trials, chance)
    return path


def _played(number: int, place: int, chance: Random) -> Trial:
    """A trial of a world that has as many calls in any run, give or take two."""
    calls = 4 + 32 * place // (WORLDS - 1) + chance.randint(-2, 2)
    often = 0.05 + 0.02 * number
    share = chance.betavariate(10 * often, 10 * (1 - often))
    ended = chance.choices(list(_ENDED), _ENDED.values())[0]
    return trial(
        *(
            denied(f"ls -la /{place}/{at} | head", chance.choice(CLASSES))
            if chance.random() < share
            else f"uv run notes.py show {place} --limit {at} {'x' * 150}"
            for at in range(calls)
        ),
        scenario=f"area{place % 8}/scenario-{place:02d}",
        number=number,
        seed=place,
        outcome=ended,
        ending=Ending.STOPPED,
        handshake=[("close", ended is Outcome.COMPLETED)] if place % 4 == 0 else (),
    )


_ENDED = {Outcome.COMPLETED: 0.8, Outcome.CLAIMED_DONE: 0.1, Outcome.STALLED: 0.1}


def _copy(store: sqlite3.Connection, at: int, trials: int, chance: Random) -> None:
    """Rows of the seed again, under the id of a run of its own: for each lap one of its blocks."""
    columns = {
        table: [row[1] for row in store.execute(f'PRAGMA table_info("{table}")')]
        for table in ("run", "trial", "turn", "call")
    }
    own = f"202611{at // 24 % 28 + 1:02d}-{at % 24:02d}0000-model-{at % 5}"
    values = [{"id": f"'{own}'", "model": f"'model-{at % 5}'"}.get(c, c) for c in columns["run"]]
    store.execute(f"INSERT INTO run SELECT {', '.join(values)} FROM run WHERE id = 'seed'")
    (last,) = store.execute("SELECT max(id) FROM trial").fetchone()
    for lap in range(trials // WORLDS):
        first = WORLDS * (chance.randrange(BLOCKS - 2) + 2 * (at % 2))
        base, block = last + lap * WORLDS - first, f"> {first} AND {{}} <= {first + WORLDS}"
        put = {"id": f"id + {base}", "run_id": f"'{own}'", "number": f"{lap + 1}"}
        _again(store, "trial", columns, put, f"id {block.format('id')}")
        for table in ("turn", "call"):
            put = {"id": "NULL", "trial_id": f"trial_id + {base}"}
            where = f"trial_id {block.format('trial_id')} ORDER BY id"
            _again(store, table, columns, put, where)


def _again(
    store: sqlite3.Connection,
    table: str,
    columns: dict[str, list[str]],
    put: dict[str, str],
    where: str,
) -> None:
    values = ", ".join(put.get(name, f'"{name}"') for name in columns[table])
    store.execute(f'INSERT INTO "{table}" SELECT {values} FROM "{table}" WHERE {where}')


PAGES = {
    "the list of runs": "/",
    "a run": "/run?id={run}",
    "denied calls by class, all runs": "/calls?denied=1",
    "a class, all runs": "/calls?failure_class=pipe-to-filter",
    "a run's calls of a class": "/calls?run={run}&failure_class=pipe-to-filter&counted=1",
    "a run's calls by scenario": "/calls?run={run}&by=scenario",
    "calls in the middle": "/calls?denied=1&after={trial}.{call}",
    "text that nowhere stands": "/calls?text=nowhere",
    "trials": "/trials?run={run}&outcome=stalled",
    "a transcript": "/trial?run={run}&scenario=area1/scenario-01&number=1",
    "a call": "/call?id={call}",
    "two runs compared": "/compare?a={run}&b={other}",
    "side by side": "/side?a={run}&b={other}&scenario=area1/scenario-01&number=1",
}


def spent(process: int) -> float:
    """CPU seconds of a process, user and system."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


ASKED = 5  # times, of other runs each time


def measured(store: Path) -> None:
    command = [sys.executable, "-m", "agenteval", "view", "--port", "0", "--store", str(store)]
    first_ones = "SELECT id FROM run WHERE id != 'seed' ORDER BY id LIMIT 2 * ?"
    with closing(sqlite3.connect(store)) as asked:
        runs = [run for (run,) in asked.execute(first_ones, [ASKED + 1])]
        middle = "SELECT id, trial_id FROM call WHERE id > (SELECT max(id) FROM call) / 2 LIMIT 1"
        [(call, trial)] = asked.execute(middle)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            base = server.stdout.readline().split()[1].partition("/?")[0]
            for name, address in PAGES.items():
                first, *others = (
                    base
                    + address.format(
                        run=runs[2 * at], other=runs[2 * at + 1], call=call, trial=trial
                    )
                    for at in range(ASKED + 1)
                )
                urllib.request.urlopen(first).read()
                cpu, clock = spent(server.pid), time.perf_counter()
                for shown in others:
                    urllib.request.urlopen(shown).read()
                took = (spent(server.pid) - cpu) / ASKED, (time.perf_counter() - clock) / ASKED
                told = f"{name:34}{1000 * took[0]:6.0f} ms CPU {1000 * took[1]:6.0f} ms\n"
                sys.stdout.write(told)
        finally:
            server.kill()  # it only reads, and would report the signal on the benchmark's output


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else made(Path(folder) / "many.db")
        measured(path)
