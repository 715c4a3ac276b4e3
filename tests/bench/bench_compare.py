"""`agenteval compare` of two stored runs of 100,000 calls each: how long it takes, in what memory.

The runs are drawn, and written straight into the tables: as big as real ones, transcripts and all.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sqlalchemy import insert
from sqlalchemy.orm import Session

from agenteval.store.mapping import call_values, turn_values
from agenteval.store.rows import CallRow, TrialRow, TurnRow
from agenteval.store.sql import SqlStore
from agenteval.testing import card, denied, run, says, trial

SECONDS, MEGABYTES = 5.0, 500
CLASSES = (
    "pipe-to-filter", "shell-chain", "stderr-redirect", "heredoc", "wrapper-prefix", "bare-binary",
    "inline-code", "hallucinated-script", "unlisted-script", "hallucinated-flag", "blocked-path",
    "other-shell",
)  # fmt: skip
REPLY = "line of output\n" * 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--write", help="only write the runs into this file")
    wanted = parser.parse_args()
    if wanted.write:
        store = SqlStore(wanted.write)
        for name, rate in (("a", 0.12), ("b", 0.1)):
            sys.stdout.write(f"{write(store, name, rate, wanted.calls)} calls written\n")
        store.close()
        return
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "runs.db"))
        # Elsewhere: a process starts with the memory of the one that starts it on its account.
        own = [sys.executable, __file__, "--write", path, "--calls", str(wanted.calls)]
        subprocess.run(own, check=True)
        seconds, megabytes, said = compared(path)
    sys.stdout.write(
        f"compare: {seconds:.2f} s (at most {SECONDS}), {megabytes:.0f} MB (at most {MEGABYTES})\n"
    )
    sys.stdout.write(f"  {said}\n")
    sys.exit(seconds > SECONDS or megabytes > MEGABYTES)


def compared(path: str) -> tuple[float, float, str]:
    command = [sys.executable, "-m", "agenteval", "compare", "a", "b", "--store", path, "--json"]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    printed = process.stdout.read()
    _, process.returncode, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    return seconds, usage.ru_maxrss / 1024, json.loads(printed)["sentences"][0]


def write(store: SqlStore, name: str, rate: float, calls: int) -> int:
    """A run of about so many calls in trials of one to twenty; returns how many it made."""
    rng = np.random.default_rng(len(name) + int(1000 * rate))
    value = run(model=card(name), run_id=name)
    store.add(value)
    worlds = np.random.default_rng(1).integers(1, 21, size=calls // 10)
    trials, turn_rows, call_rows = [], [], []
    for number, size in enumerate(worlds.tolist(), 1):
        errors = rng.random(size) < rng.beta(rate * 9, (1 - rate) * 9)
        kinds = rng.choice(CLASSES, size=size)
        made = trial(
            *(
                denied(f"uv run scripts/a{at}.py | head", str(kind))
                if error
                else f"uv run scripts/a{at}.py --limit {at}"
                for at, (error, kind) in enumerate(zip(errors, kinds, strict=True))
            ),
            says("Here is the result."),
            number=number,
            scenario=f"s{number % 3}",
            handshake=[("one", bool(rng.random() < 0.8)), ("two", bool(rng.random() < 0.6))],
        )
        identity = len(trials) + 1 + (1_000_000 if name == "b" else 0)
        trials.append(trial_row(identity, name, made))
        turn_rows += [
            turn_values(identity, at, turn, agent="") | {"raw": REPLY}
            for at, turn in enumerate(made.turns)
        ]
        call_rows += [
            call_values(identity, one, agent="", policy="p", taxonomy="1")
            | {"reply": REPLY, "output": REPLY, "seconds": 0.1}
            for one in made.calls
        ]
    with Session(store.engine) as session:
        for table, rows in ((TrialRow, trials), (TurnRow, turn_rows), (CallRow, call_rows)):
            session.execute(insert(table), rows)
        session.commit()
    return len(call_rows)


def trial_row(identity: int, run_id: str, made) -> dict[str, object]:
    return {
        "id": identity,
        "run_id": run_id,
        "scenario": made.scenario,
        "number": made.number,
        "seed": made.seed,
        "ending": made.ending,
        "outcome": made.outcome,
        "reason": "",
        "seconds": made.seconds,
        "handshake": [{"name": step.name, "reached": step.reached} for step in made.handshake],
    }


if __name__ == "__main__":
    main()
