"""`agenteval ingest` with worker processes: the same store, whatever becomes of them."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from agenteval.config.allowlists import load_any
from agenteval.config.trust import roots
from agenteval.logs import workers as log_workers
from agenteval.logs.ingest import take_in
from agenteval.logs.workers import EVERYTHING, Reading
from agenteval.store.sql import SqlStore

sys.path.insert(0, str(Path(__file__).parents[1] / "logs"))
from sample_logs import claude, export

TABLES = {
    "session": "session, part, path, size, outcomes, policy, differ",
    "trial": "id, scenario, number, seed, calls, errors, recovery",
    "turn": "trial_id, number, text, calls, ended",
    "call": "trial_id, turn, position, raw, harness, derived, offending, failure_class",
}


@pytest.fixture
def logs(tmp_path):
    """Six sessions, one of them twice, with lines that are none."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(6):
        text = claude().replace('"c1"', json.dumps(f"s{number % 5}"))
        (folder / f"s{number}.jsonl").write_text("{\n" * number + text)
    return folder


def stored(store):
    with closing(sqlite3.connect(store)) as there:
        return {
            table: there.execute(f'SELECT {columns} FROM "{table}" ORDER BY id').fetchall()
            for table, columns in TABLES.items()
        }


def told(intake):
    runs = [
        (one.model, one.sessions, one.recorded, one.derived, one.differ)
        for one in intake.runs.values()
    ]
    return runs, intake.files, intake.skips, intake.skipped


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("allowlist", [None, "demo"])
def test_workers_make_the_store_that_one_process_makes(tmp_path, logs, workers, allowlist) -> None:
    alone = take_in("claude-code", [str(logs)], str(tmp_path / "a.db"), workers=0)
    here = take_in(
        "claude-code", [str(logs)], str(tmp_path / "0.db"), allowlist=allowlist, workers=0
    )
    there = take_in(
        "claude-code", [str(logs)], str(tmp_path / "n.db"), allowlist=allowlist, workers=workers
    )
    assert alone.files == 6
    assert (told(there), there.lost_workers) == (told(here), 0)
    assert stored(tmp_path / "n.db") == stored(tmp_path / "0.db")


def test_postgresql_gets_what_sqlite_gets_also_of_a_session_that_grew(
    tmp_path, logs, postgres
) -> None:
    url = postgres.url(postgres.new())
    loaded = []
    odd = claude().replace('"ls"', '"ls \\u0000 \\ud83d 100%s"')
    for text in (claude()[: claude().index("t5")], odd):
        (logs / "s9.jsonl").write_text(text.replace('"c1"', '"s9"'))
        for store in (url, str(tmp_path / "0.db")):
            run = next(iter(take_in("claude-code", [str(logs)], store, workers=2).runs))
            with closing(SqlStore(store)) as there:
                loaded.append(there.load(run))
    first, first_here, grown, grown_here = (replace(one, id="", started="") for one in loaded)
    assert (first, grown) == (first_here, grown_here)
    assert len(grown.trials) == 6
    assert sum(len(one.calls) for one in grown.trials) > sum(len(t.calls) for t in first.trials)


def test_a_large_file_is_judged_in_shares(tmp_path, monkeypatch) -> None:
    file = tmp_path / "all.jsonl"
    file.write_text("".join(claude().replace('"c1"', json.dumps(f"s{n}")) for n in range(7)))
    monkeypatch.setattr(log_workers, "SPLIT", 1_000)
    for workers in (0, 3):
        take_in("claude-code", [str(file)], str(tmp_path / f"{workers}.db"), workers=workers)
    assert stored(tmp_path / "3.db") == stored(tmp_path / "0.db")


@pytest.mark.parametrize("after", [0, 1, 3])
def test_what_a_dead_worker_had_is_read_again(tmp_path, logs, after) -> None:
    store = SqlStore(str(tmp_path / "forms.db"))
    reading = Reading(
        load_any("demo", roots=roots()), EVERYTHING, None, store.log_writer("").tables
    )
    files = [("claude-code", path, 1) for path in sorted(logs.iterdir())]
    with closing(log_workers.Workers(reading, files, 0)) as alone:
        whole = [list(alone.of(number)) for number in range(len(files))]
    found = []
    with closing(log_workers.Workers(reading, files, 2)) as workers:
        for number in range(len(files)):
            if number == after:
                for worker in workers._workers:
                    os.kill(worker.process.pid, signal.SIGKILL)
            found.append(list(workers.of(number)))
        lost = workers.lost_workers
    store.close()
    assert found == whole
    assert lost == 2 if after == 0 else lost <= 2  # later they may have ended by themselves


def test_rules_that_an_earlier_session_quoted_are_known_to_the_later(tmp_path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(4):
        text = export() if number == 0 else export().replace("specified a rule", "spoken")
        (folder / f"export{number}.json").write_text(text.replace("ses_1", f"ses_{number}"))
    results = [
        told(take_in("opencode", [str(folder)], str(tmp_path / f"{n}.db"), workers=n))
        for n in (0, 3)
    ]
    assert results[0] == results[1]


@pytest.mark.slow
def test_ctrl_c_leaves_no_worker_and_a_store_that_goes_on(tmp_path, logs) -> None:
    text = claude()
    for number in range(60):
        name = json.dumps(f"long{number}")
        (logs / f"long{number}.jsonl").write_text(text.replace('"c1"', name) + "{\n" * 3_000)
    command = [sys.executable, "-m", "agenteval", "ingest", "claude-code", "logs", "--json"]
    process = subprocess.Popen(
        [*command, "--workers", "2"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None and not (workers := children.read_text().split()):
        pass
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=20)
    while any(Path("/proc", pid).exists() for pid in workers):  # a test that hangs fails
        time.sleep(0.01)
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    assert json.loads(ended.stdout)["workers_lost"] == 0
    with closing(sqlite3.connect(tmp_path / "reports/agenteval.db")) as there:
        counted = there.execute("SELECT sum(trials_planned) FROM run").fetchone()
        assert counted == there.execute("SELECT count(*) FROM trial").fetchone() == (65,)
