"""`agenteval compare` of two stored runs of 100,000 calls each: how long it takes, in what memory.

The runs are drawn, and written straight into the tables: as big as real ones, transcripts and all.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sqlalchemy import insert
from sqlalchemy.orm import Session

from agenteval.store.mapping import call_row, turn_row
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
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "runs.db"))
        store = SqlStore(path)
        sizes = [write(store, name, rate, wanted.calls) for name, rate in (("a", 0.12), ("b", 0.1))]
        store.close()
        sys.stdout.write(
            f"{sizes[0]} and {sizes[1]} calls, {Path(path).stat().st_size / 1e6:.0f} MB stored"
        )
        seconds, megabytes, said = compared(path)
    sys.stdout.write(
        f"compare: {seconds:.2f} s (at most {SECONDS}), {megabytes:.0f} MB (at most {MEGABYTES})"
    )
    sys.stdout.write(f"  {said}")
    sys.exit(seconds > SECONDS or megabytes > MEGABYTES)


def compared(path: str) -> tuple[float, float, str]:
    command = [sys.executable, "-m", "agenteval", "compare", "a", "b", "--store", path, "--json"]
    began = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return seconds, peak, json.loads(done.stdout)["sentences"][0]


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
            turn_row(identity, at, turn).model_dump(exclude={"id"}) | {"raw": REPLY}
            for at, turn in enumerate(made.turns)
        ]
        call_rows += [
            call_row(identity, one, policy="p", taxonomy="1").model_dump(exclude={"id"})
            | {"reply": REPLY, "output": REPLY}
            for one in made.calls
        ]
    with Session(store._engine) as session:
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
