"""Benchmarks in small: one that does not run is noticed before its figures are wanted.

What the others measure with is played by test_budgets.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench_view import made
from machine import Watch

BENCH = Path(__file__).parent


def measured(name: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, str(BENCH / f"bench_{name}.py"), *words],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(BENCH.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode in {0, 1}, done.stderr) == (True, "")  # 1: slower than is wanted
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words", "told"),
    [
        ("reading", ("2000",), "| `gate` | 2,000 |"),
        ("hook", ("8",), "ms"),
        ("ingest", ("--calls", "2000", "--different", "500"), "calls"),
    ],
    ids=["reading", "hook", "ingest"],
)
def test_a_benchmark_measures(name: str, words: tuple[str, ...], told: str) -> None:
    assert told in measured(name, *words)


@pytest.mark.slow
def test_the_benchmark_of_pages_asks_for_each_page_of_a_store(tmp_path: Path) -> None:
    store = made(tmp_path / "few.db", runs=12, trials=40)
    assert "two runs compared" in measured("view", str(store))


WORKS = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"


def test_work_of_processes_that_are_not_reaped_is_other_work() -> None:
    watch = Watch()
    working = subprocess.Popen(
        [sys.executable, "-c", WORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    working.stdout.readline()
    before = watch.others()
    working.communicate(b"\n")
    processors = (time.monotonic() - watch.since) * (os.cpu_count() or 1)
    assert (before - watch.others()) * processors > 0.2
