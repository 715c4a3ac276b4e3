"""How long `agenteval gate` takes on two runs of 2,000 calls each, start-up included.

python tests/bench/bench_gate.py
"""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from agenteval.protocols import TrialKey
from agenteval.store.sql import SqlStore
from agenteval.testing import card, denied, run, trial

TRIALS, CALLS, TIMES = 250, 8, 7
REPLY = "a reply of a common length, of which a gate must read nothing. " * 40


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "runs.db"
        _fill(store)
        command = [sys.executable, "-m", "agenteval", "gate", "--baseline", "one",
                   "--candidate", "two", "--store", str(store)]  # fmt: skip
        walls, cpus = [], []
        for _ in range(TIMES):
            before, start = os.times(), time.perf_counter()
            subprocess.run(command, check=False, stdout=subprocess.DEVNULL, cwd=folder)
            walls.append(time.perf_counter() - start)
            after = os.times()
            cpus.append(
                after.children_user
                + after.children_system
                - before.children_user
                - before.children_system
            )
    sys.stdout.write(
        f"agenteval gate, {TRIALS * CALLS:,} calls a run, median of {TIMES}: "
        f"{median(walls):.2f} s, of which {median(cpus):.2f} s on a processor; "
        f"best {min(walls):.2f} s\n"
    )


def _fill(path: Path) -> None:
    """Two runs, written as a run writes them."""
    store = SqlStore(str(path))
    first, rest = denied("ls | head"), ["uv run notes.py list"] * (CALLS - 1)
    for name in ("one", "two"):
        trials = [
            trial(first if at % 3 else rest[0], *rest, number=at) for at in range(1, TRIALS + 1)
        ]
        made = run(*trials, run_id=name, model=card(name))
        store.add(made)
        recorder = store.recorder(made, {"notes": "abc"})
        for played in trials:
            key = TrialKey(played.scenario, played.number, played.seed)
            recorder.begin(key)
            for number, turn in enumerate(played.turns):
                recorder.turn(key, number, replace(turn, raw=REPLY))
            for call in played.calls:
                recorder.call(key, replace(call, reply=REPLY))
            recorder.finish(key, played)
    store.close()


if __name__ == "__main__":
    main()
