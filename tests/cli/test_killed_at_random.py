"""Kill -9 at random moments, again and again: of a sweep, with sub-agents, and of retried voids.

`AGENTEVAL_KILLS=20` kills as often.
"""

import os
import random
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from test_resume import BEGUN, STORE, begun, seen, waited

from agenteval.store.sql import SqlStore
from agenteval.trial.run import Run
from agenteval.trial.tally import score

KILLS = int(os.environ.get("AGENTEVAL_KILLS", "3"))
SWEEP = (
    *("run", "-m", "sim/qwen3.6-35b", "--trials", "2", "--seed", "5", "--concurrency", "1,4"),
    *("ralf/two-stages", "data/pantry-audit"),
)
VOIDS = """UPDATE trial SET outcome = 'void', ending = 'broken', cause = 'crashed'
    WHERE outcome <> '' AND NOT replaced AND number = 2"""


def runs(project: Path) -> dict[int, Run]:
    """All that are stored, by their level of concurrency."""
    if not (project / STORE).exists():
        return {}
    with closing(SqlStore(str(project / STORE))) as store:
        return {one.concurrency: store.load(one.id) for one in store.runs()}


def counted(run: Run) -> list[object]:
    """All that the statistics come from, the sub-agents' part too, and what is made of it."""
    agents = [
        (part.label, part.parent, part.ending, call.call.raw, call.verdict, call.reply)
        for trial in run.trials
        for part in trial.agents
        for call in part.calls
    ]
    return [seen(run), agents, score(run.trials), run.complete]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> tuple[dict[int, Run], float]:
    """Both runs of the sweep, and how long it took."""
    folder = tmp_path_factory.mktemp("unbroken")
    began = time.monotonic()
    with begun(folder, *SWEEP) as running:
        assert running.wait() == 0
    return runs(folder), time.monotonic() - began


def killed(project: Path, seconds: float, *arguments: str) -> None:
    """So many seconds after its start; a new run, after it is stored."""
    with begun(project, *arguments) as running:
        waited(project, BEGUN, 1, running)
        try:
            running.wait(seconds)
        except subprocess.TimeoutExpired:
            os.kill(running.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_runs_killed_at_random_moments_end_as_if_nothing_had_been(cli, project, unbroken) -> None:
    chance, (whole, seconds) = random.Random(KILLS), unbroken
    killed(project, chance.uniform(0, seconds), *SWEEP)
    for kill in range(1, KILLS):
        for run in runs(project).values():
            if kill % 3 == 2:
                with closing(sqlite3.connect(project / STORE)) as database, database:
                    database.execute(VOIDS)
            again = ("run", "--resume", run.id, *["--retry-void"] * (kill % 3 == 2))
            killed(project, chance.uniform(0.2, seconds), *again)
    ended = [cli("run", "--resume", run.id, "--retry-void").code for run in runs(project).values()]
    found = {level: counted(run) for level, run in runs(project).items()}
    assert (set(ended), found) == ({0}, {level: counted(whole[level]) for level in found})
