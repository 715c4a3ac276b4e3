"""SIGINT, SIGTERM and SIGHUP at any moment: one line, a code of their own, nothing left or lost."""

import os
import pty
import random
import re
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from disturbed import marked
from process_table import processes
from stored import stored as keep
from test_resume import STORE, asked, seen, stored

from agenteval.testing import run, trial
from agenteval.trial.tally import score

TRIES = int(os.environ.get("AGENTEVAL_SIGNALS", "20"))
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
RUN = ("run", "-m", "sim/qwen3.6-35b", "--trials", "3", "--seed", "5", "data/pantry-audit")
PROGRAM = (sys.executable, "-m", "agenteval")
SCRIPT = (str(Path(sys.executable).with_name("agenteval")),)
LAST = re.compile(r"(Cut off: |agenteval: (cut off|ended) by ).*\n\Z")


@contextmanager
def begun(
    folder: Path, *words: str, program=PROGRAM, ignored=frozenset()
) -> Iterator[subprocess.Popen[str]]:
    """A command that starts as a terminal starts it, from the moment that it answers signals."""

    def own() -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

    (folder / "tmp").mkdir(exist_ok=True)
    environment = {"TMPDIR": str(folder / "tmp"), "AGENTEVAL_CHAOS": str(folder)}
    running = subprocess.Popen(
        [*program, *words],
        cwd=folder,
        env=os.environ | environment,
        preexec_fn=own,  # noqa: PLW1509 -- no thread
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while running.poll() is None and not answers(running.pid):
            pass
        yield running
    finally:
        running.kill()
        running.communicate()


def answers(pid: int) -> bool:
    """Whether it has a handler of SIGTERM: before, it is Python that starts."""
    with suppress(OSError):
        caught = re.search(
            r"^SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE
        )
        return bool(caught and int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False


def left(folder: Path) -> list[object]:
    """Processes, and temporary files, of what ran in this folder, a moment after its end."""
    until, remaining = time.monotonic() + 10, {0}
    while remaining and time.monotonic() < until:
        remaining = marked(folder, {one: start for one, _, start in processes()})
    return [*remaining, *(one.name for one in (folder / "tmp").iterdir())]


def told(running: subprocess.Popen[str], number: int | None) -> tuple[object, ...]:
    """What is wrong with how it ended; nothing where it came to its end before the signal."""
    out, err = running.communicate(timeout=120)
    wrong = [err] if "Traceback" in err or "ignored" in err else []
    if running.returncode:
        is_done = bool(out) and not err  # the signal came while it ended: only the code is left
        wrong += [] if is_done or LAST.search(err) else [f"no line: {err}"]
        wrong += [] if running.returncode == 128 + (number or 0) else [running.returncode]
    return tuple(wrong)


@pytest.mark.parametrize("program", [PROGRAM, SCRIPT], ids=["-m", "script"])
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_the_program_is_imported_is_one_line(tmp_path, number, program) -> None:
    keep(str(tmp_path / STORE), run(trial("ls"), run_id="r"))
    ends = []
    for wait in (0, 0.01, 0.03, 0.06, 0.1, 0.15):
        with begun(tmp_path, "show", "r", program=program) as running:
            time.sleep(wait)
            running.send_signal(number)
            ends.append(told(running, number))
    assert (ends, left(tmp_path)) == ([()] * 6, [])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_run_cut_off_at_random_moments_ends_as_if_nothing_had_been(cli, tmp_path) -> None:
    """`AGENTEVAL_SIGNALS=200` cuts as many off; every third is cut off twice."""
    chance, ends, figures = random.Random(TRIES), Counter(), set()
    for at in range(TRIES):
        (folder := tmp_path / str(at)).mkdir()
        number = SIGNALS[at % 3]
        with begun(folder, *RUN) as running:
            for _ in range(1 + (at % 9 < 3)):
                time.sleep(chance.uniform(0, 2))
                running.send_signal(number)
            ends[told(running, number)] += 1
        words = ("run", "--resume", "last") if asked(folder, "SELECT count(*) FROM run") else RUN
        subprocess.run([*PROGRAM, *words], cwd=folder, check=True, capture_output=True)
        whole = stored(folder)
        figures.add(repr((seen(whole), score(whole.trials), whole.complete)))
        ends[tuple(left(folder))] += 1
    assert (ends, len(figures)) == ({(): 2 * TRIES}, 1)


@pytest.mark.slow
def test_what_is_ignored_at_the_start_stays_ignored(tmp_path) -> None:
    with begun(tmp_path, *RUN, ignored={signal.SIGHUP, signal.SIGINT}) as running:  # nohup, `&`
        for number in (signal.SIGHUP, signal.SIGINT) * 4:
            running.send_signal(number)
            time.sleep(0.2)
        running.communicate(timeout=120)
    assert (running.returncode, len(stored(tmp_path).trials)) == (0, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ignores", "code"), [(False, 129), (True, 0)], ids=["at a shell", "disowned"]
)
def test_a_terminal_that_hangs_up_loses_nothing_that_was_played(tmp_path, ignores, code) -> None:
    child, terminal = pty.fork()
    if not child:
        os.chdir(tmp_path)
        signal.signal(signal.SIGHUP, signal.SIG_IGN if ignores else signal.SIG_DFL)
        os.execv(PROGRAM[0], [*PROGRAM, *RUN])
    ready = select.poll()
    ready.register(terminal, select.POLLIN)
    while not asked(tmp_path, "SELECT count(*) FROM call"):
        if ready.poll(20):  # ms; select() takes no descriptor beyond 1,023
            os.read(terminal, 1 << 16)
    os.close(terminal)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    reports = [*(tmp_path / "reports").glob("*.html")]
    whole = asked(tmp_path, "SELECT count(*) FROM run WHERE complete")
    assert (ended, whole, len(reports)) == (code, ignores, 1)


def test_an_interrupt_that_python_wraps_is_told_as_one(cli, monkeypatch) -> None:
    class Struck:
        def __set_name__(self, _owner: type, _name: str) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(
        "agenteval.workflows.runs.chosen", lambda *_: type("T", (), {"a": Struck()})
    )
    said = cli("show", "last")
    assert (said.code, bool(LAST.search(said.err)), said.err.count("\n")) == (130, True, 1)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_viewer_ends_with_the_code_of_its_signal(tmp_path, number) -> None:
    keep(str(tmp_path / STORE), run(trial("ls"), run_id="r"))
    with begun(tmp_path, "view", "--port", "0") as running:
        address = running.stdout.readline().removeprefix("Open ").split()[0]
        assert urlopen(address, timeout=20).status == 200
        running.send_signal(number)
        assert told(running, number) == ()
    assert (running.returncode, left(tmp_path)) == (128 + number, [])
