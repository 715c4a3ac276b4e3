"""Ctrl-C is answered while a hostile world is judged, and `--resume` ends the run."""

import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from scripted_server import answers, bash, scripted
from test_resume import stored

from agenteval.trial.call import Outcome

SWAP = """
import os, sqlite3
made = sqlite3.connect("data/made.db")
{what}
made.commit()
made.close()
os.replace("data/made.db", "data/tracker.db")
"""
CHAIN = """
made.execute("PRAGMA writable_schema = ON")
of = "SELECT 1 id, 'closed' state, 'fixed' resolution, 'It is done.' note"
for name in [*(f"v{{n}}" for n in range({length})), "tickets"]:
    row = ("view", name, name, 0, f"CREATE VIEW {{name}} AS {{of}}")
    made.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)
    of = f"SELECT * FROM {{name}}"
"""
SLOW = """
made.execute("CREATE TABLE s (a, b)")
made.execute("INSERT INTO s VALUES (?, ?)", ("a" * 1000000, "a" * 500000 + "b"))
made.execute("CREATE VIEW tickets AS SELECT instr(a, b) id, 'closed' state, a note FROM s")
"""
PAGES = """
with open("data/tracker.db", "rb+") as file:
    for page in range(1, 40):
        file.seek(page * 512)
        file.write(os.urandom(300))
import sys
sys.exit()
"""
HANGS = "import time\ndef slug(*_, **__): time.sleep(600)\n"
SLEEPS = """
import os, signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        break
time.sleep(600)
"""
ALTERED = "is not as it was declared|more than 500 tables"
WORLDS = {  # the module, and what is told of the goal that was missed
    "20,000 views in a row": (SWAP.format(what=CHAIN.format(length=20_000)), ALTERED),
    "an instr over megabytes": (SWAP.format(what=SLOW), ALTERED),
    "pages of its own": (SWAP.format(what=PAGES), "malformed|cannot be read"),
    "a module that never answers a test": (HANGS, "the slugs are right"),
    "a command that hears no signal": (SLEEPS, "the slugs are right"),
}
CLOSE = "uv run scripts/tickets.py close --ticket {} --resolution fixed --note 'It is done now.'"
RUN = "uv run scripts/run_tests.py slug"
MOMENTS = (0.0, 1.0)  # seconds after the model had asked for what is hostile
ENDED = 120.0  # seconds, however busy the machine is
OWN = 4.0  # of them not spent in the queue for a processor: a wait of ours takes five and more


class Hostile:
    """Writes the module, runs what imports it or closes the ticket, says that it is done.

    `struck` is set when it asks for the call that is hostile, or whose judgement is. Its last words
    wait until the run was `interrupted` for the last time: else a run that is quick is over before.
    """

    def __init__(self, module: str) -> None:
        self.module, self.struck = module, threading.Event()
        self.interrupted = threading.Event()

    def __call__(self, messages):
        ticket = re.search(r"Ticket (\d+) is yours", str(messages))[1]
        steps = (
            ("write", {"path": "src/slug.py", "content": self.module}),
            bash(CLOSE.format(ticket) if self.module == HANGS else RUN),
        )
        done = answers(messages)
        if done == len(steps) - 1:
            self.struck.set()
        if done < len(steps):
            return steps[done]
        self.interrupted.wait(ENDED)
        return "It is done."


ARM = ("--arm", "strict")  # its write takes `path`


def command(project, *words: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "agenteval", "run", *words, *ARM],
        cwd=project,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )


def interrupted(running: subprocess.Popen) -> float:
    """The seconds from Ctrl-C to its end in which it ran or waited for somebody.

    The kernel counts apart how long it was ready and had no processor: others are at fault there.
    """
    running.send_signal(signal.SIGINT)
    began, before, queued = time.monotonic(), in_queue(running.pid), 0.0
    while running.poll() is None and time.monotonic() < began + ENDED:
        queued = max(queued, in_queue(running.pid) - before)
        time.sleep(0.01)
    return time.monotonic() - began - queued


def in_queue(pid: int) -> float:
    """Seconds; 0 when it has ended."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


@pytest.mark.slow
@pytest.mark.parametrize("how", WORLDS)
def test_ctrl_c_is_answered_and_resume_ends_the_run(how, project) -> None:
    module, told = WORLDS[how]
    model = Hostile(module)
    with scripted(model) as url:
        words = ["-m", "m", "--trials", "1", "coding/slug-function"]
        for moment in MOMENTS:
            model.struck.clear()
            with command(project, "--base-url", url, *words) as running:
                assert model.struck.wait(60), "the world was never spoilt"
                time.sleep(moment)
                own = interrupted(running)
                running.kill()
            assert (running.returncode, own < OWN) == (130, True), own
            words = ["--resume", "last"]
        model.interrupted.set()
        with command(project, "--base-url", url, *words) as again:
            _, complaints = again.communicate(timeout=200)
    run = stored(project)
    assert (again.returncode, run.complete, len(run.trials)) == (0, True, 1), complaints
    (trial,) = run.trials
    assert (trial.outcome, re.search(told, trial.reason) is not None) == (
        Outcome.CLAIMED_DONE,
        True,
    ), trial.reason
