"""How long the pages of `agenteval view` take over a store of a million calls: `make bench-view`.

The store is made by copying one played run in SQL: fifty runs of 1,000 trials of 20 calls, or one
run of a million. Pages are asked for over HTTP, as a browser does; printed is what the server's
process took of CPU for each, and the time by the clock.
"""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from stored import stored

from agenteval.core.outcome import Ending, Outcome
from agenteval.testing import denied, run, trial

CLASSES = ("bare-binary", "pipe-to-filter", "shell-chain", "wrong-option", "unknown-script")
RUNS, TRIALS, CALLS = 50, 1000, 20


def made(path: Path, *, runs: int = RUNS, trials: int = TRIALS) -> Path:
    """A store of so many runs alike; every trial is a copy of one of forty."""
    seeds = [
        trial(
            *(
                denied(f"ls -la /{place}/{at} | head", CLASSES[(at + place) % 5])
                if (at + place) % 8 == 0
                else f"uv run notes.py show {place} --limit {at} {'x' * 150}"
                for at in range(CALLS)
            ),
            scenario=f"area{place % 8}/scenario-{place:02d}",
            outcome=Outcome.STALLED if place % 10 == 9 else Outcome.COMPLETED,
            ending=Ending.STOPPED,
        )
        for place in range(40)
    ]
    stored(str(path), run(*seeds, run_id="seed", trials_planned=trials))
    with closing(sqlite3.connect(path)) as store, store:
        store.execute("PRAGMA synchronous=OFF")
        for at in range(runs):
            _copy(store, at, trials)
    return path


def _copy(store: sqlite3.Connection, at: int, trials: int) -> None:
    """All of the seed's rows again, under the id of a run of its own."""
    columns = {
        table: [row[1] for row in store.execute(f'PRAGMA table_info("{table}")')]
        for table in ("run", "trial", "turn", "call")
    }
    own = f"202611{at // 24 % 28 + 1:02d}-{at % 24:02d}0000-model-{at % 5}"
    values = [{"id": f"'{own}'", "model": f"'model-{at % 5}'"}.get(c, c) for c in columns["run"]]
    store.execute(f"INSERT INTO run SELECT {', '.join(values)} FROM run WHERE id = 'seed'")
    (last,) = store.execute("SELECT max(id) FROM trial").fetchone()
    for again in range(trials // 40):
        base = last + again * 40
        put = {"id": f"id + {base}", "run_id": f"'{own}'", "number": f"{again + 1}"}
        _again(store, "trial", columns, put, "id <= 40")
        for table in ("turn", "call"):
            put = {"id": "NULL", "trial_id": f"trial_id + {base}"}
            _again(store, table, columns, put, f"id <= {40 * CALLS} ORDER BY id")


def _again(
    store: sqlite3.Connection,
    table: str,
    columns: dict[str, list[str]],
    put: dict[str, str],
    where: str,
) -> None:
    values = ", ".join(put.get(name, f'"{name}"') for name in columns[table])
    store.execute(f'INSERT INTO "{table}" SELECT {values} FROM "{table}" WHERE {where}')


if __name__ == "__main__":
    made(Path(sys.argv[1]), runs=int(sys.argv[2]), trials=int(sys.argv[3]))
