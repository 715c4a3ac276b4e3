"""`agenteval ingest --follow`: logs that grow and go, signals, and a clock that jumps."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from disturbed import marked
from faults import movable_clock, step_clock
from postgres import AbsentError
from process_table import processes

sys.path.insert(0, str(Path(__file__).parents[1] / "logs"))
from sample_logs import claude

FOLLOW = (sys.executable, "-m", "agenteval", "ingest", "claude-code", "--follow")
SESSIONS = "SELECT session.session, calls FROM trial JOIN session ON trial_id = trial.id"
CUT_OFF = (
    "agenteval: cut off by {}: what was stored before is intact; the same command starts again\n"
)
TRIES = int(os.environ.get("AGENTEVAL_SIGNALS", "9"))
DAY = 86_400


def rows(query):
    with sqlite3.connect("reports/agenteval.db") as store:
        return store.execute(query).fetchall()


@pytest.mark.slow
def test_a_log_that_is_followed_is_taken_in_as_it_grows(here) -> None:
    lines = claude().splitlines(keepends=True)
    (here / "c1.jsonl").write_text("".join(lines[:3]))
    with following(here, "c1.jsonl") as going:
        told = [sessions_of(going)]
        with (here / "c1.jsonl").open("a") as file:
            file.write("".join(lines[3:]))
        told.append(sessions_of(going))
        going.send_signal(signal.SIGINT)
        going.communicate()
    assert (told, going.returncode) == (["sessions: 1 added", "sessions: 1 grown"], 0)
    assert rows("SELECT calls FROM trial") == [(7,)]


@pytest.mark.slow
def test_a_followed_log_may_be_rotated_replaced_and_cut_and_nothing_is_lost(here) -> None:
    log, lines = here / "c1.jsonl", claude().splitlines(keepends=True)
    log.write_text("".join(lines))
    with following(here, str(log)) as going:
        told = [sessions_of(going)]
        log.rename(here / "c1.jsonl.1")
        gone = going.stderr.readline()
        other = session("c2")
        log.write_text(other)
        told.append(sessions_of(going))
        log.write_text("".join(other.splitlines(keepends=True)[:3]) + '{"type": "assis')
        cut = next(line for line in going.stdout if "half written" in line)
        log.write_text(session("c3"))
        told.append(sessions_of(going))
        going.send_signal(signal.SIGINT)
        going.communicate()
    assert told == ["sessions: 1 added"] * 3
    assert (gone, going.returncode) == (f"{log}: it is gone; waiting for the next one\n", 0)
    assert cut.startswith(f"  {log}: line 4: cut off, or half written")
    assert rows(SESSIONS) == [("c1", 7), ("c2", 7), ("c3", 7)]


def session(name: str) -> str:
    return claude().replace('"c1"', f'"{name}"')


def sessions_of(running: subprocess.Popen[str]) -> str:
    """The next line that says how many sessions were taken in."""
    return next(line.strip() for line in running.stdout if "sessions:" in line)


@contextmanager
def following(folder: Path, *words: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A command in a process group of its own, with Python's usual signals."""

    def unignored() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)

    (folder / "tmp").mkdir(exist_ok=True)
    marks = {"TMPDIR": str(folder / "tmp"), "AGENTEVAL_CHAOS": str(folder)}
    running = subprocess.Popen(
        [*FOLLOW, *words],
        cwd=folder,
        env=os.environ | marks | environment,
        preexec_fn=unignored,  # noqa: PLW1509 -- no thread
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def now() -> float:
    return datetime.now(UTC).timestamp()


def remaining(folder: Path) -> list[object]:
    """Return what a command left: its processes, a moment after its end, and temporary files."""
    until = time.monotonic() + 10
    while marked(folder, {pid: start for pid, _, start in processes()}):
        if time.monotonic() > until:
            return ["a process"]
    return [*(folder / "tmp").iterdir()]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_what_follows_a_log_with_its_own_code(here, number, code) -> None:
    (here / "c1.jsonl").write_text(session("c1"))
    with following(here, "c1.jsonl") as running:
        assert next(line for line in running.stdout if "Rates with" in line)
        running.send_signal(number)
        _, error = running.communicate(timeout=60)
    line = CUT_OFF.format(signal.Signals(number).name) if code else ""
    assert (running.returncode, error, remaining(here)) == (code, line, [])
    assert rows(SESSIONS) == [("c1", 7)]


@pytest.mark.slow
def test_a_signal_at_any_moment_of_following_loses_and_doubles_no_session(here) -> None:
    """Every other goes to the whole group, as a terminal sends it. `AGENTEVAL_SIGNALS` is more."""
    chance, ends = random.Random(TRIES), set()
    for at in range(TRIES):
        number = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[at % 3]
        for name in range(40):
            (here / f"{at}-{name}.jsonl").write_text(session(f"s{at}-{name}"))
        with following(here, ".", "--workers", "2") as running:
            time.sleep(0.8 + chance.uniform(0, 4))
            (os.killpg if at % 2 else os.kill)(running.pid, number)
            _, error = running.communicate(timeout=60)
        said = error.count("\n") - (running.returncode == 0)
        ends.add((running.returncode in {0, 128 + number}, "Traceback" in error, said <= 1))
    whole = [*FOLLOW[:-1], "."]
    subprocess.run(whole, cwd=here, check=True, capture_output=True)
    assert (ends, remaining(here)) == ({(True, False, True)}, [])
    sessions = [(f"s{at}-{name}", 7) for at in range(TRIES) for name in range(40)]
    assert sorted(rows(SESSIONS)) == sorted(sessions)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [(3653 * DAY, 0), (-3600, 0), (-3600, 3653 * DAY)])
def test_a_clock_that_jumps_loses_and_doubles_nothing_of_a_followed_log(here, steps) -> None:
    """The files that grow have the time of day that the machine had then."""
    try:
        clock = movable_clock(here)
    except AbsentError as absent:
        pytest.skip(str(absent))
    lines = claude().splitlines(keepends=True)
    log = here / "logs" / "c1.jsonl"
    log.parent.mkdir()
    log.write_text("".join(lines[:3]))
    with following(here, "logs", **clock) as running:
        taken = [sessions_of(running)]
        for number, (step, text) in enumerate(zip(steps, (lines[3:5], lines[5:]), strict=True)):
            step_clock(clock, step)
            with log.open("a") as file:
                file.write("".join(text))
            other = log.with_name(f"other{number}.jsonl")
            other.write_text(session(f"other{number}").replace("opus", f"haiku{number}"))
            for path in (log, other):
                os.utime(path, (now() + step,) * 2)
            taken += [sessions_of(running), sessions_of(running)]
        running.send_signal(signal.SIGINT)
        _, error = running.communicate(timeout=60)
    expected = ["sessions: 1 added"] * 3 + ["sessions: 1 grown"] * 2
    assert (running.returncode, error, sorted(taken)) == (0, "", expected)
    assert sorted(rows(SESSIONS)) == [("c1", 7), ("other0", 7), ("other1", 7)]
    years = {int(started[:4]) for (started,) in rows("SELECT started FROM run")}
    assert years == {datetime.fromtimestamp(now() + step, UTC).year for step in (0, *steps)}
