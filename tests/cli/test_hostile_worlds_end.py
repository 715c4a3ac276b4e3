"""Ctrl-C is answered while a hostile world is judged, and `--resume` ends the run."""

import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest
from scripted_server import answers, bash, scripted
from test_resume import stored

from agenteval.core.outcome import Outcome

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
ALTERED = "is not as it was declared|more than 500 tables"
WORLDS = {  # the module, and what is told of the goal that was missed
    "5,000 views in a row": (SWAP.format(what=CHAIN.format(length=5_000)), ALTERED),
    "an instr over megabytes": (SWAP.format(what=SLOW), ALTERED),
    "pages of its own": (SWAP.format(what=PAGES), "malformed|cannot be read"),
    "a module that never answers a test": (HANGS, "the slugs are right"),
}
CLOSE = "uv run scripts/tickets.py close --ticket {} --resolution fixed --note 'It is done now.'"
ANSWERED = 30.0  # seconds on a busy machine; a judge in our own process took minutes


class Hostile:
    """Writes the module, runs what imports it, closes the ticket, says that it is done.

    `struck` is set when the model was asked to go on after its last call but one, and `judged` how
    often it was asked after its last. Its last words wait until the run was `interrupted`: else a
    run that is quick is over before.
    """

    def __init__(self, module: str) -> None:
        self.module, self.struck, self.judged = module, threading.Event(), 0
        self.interrupted = threading.Event()

    def __call__(self, messages):
        ticket = re.search(r"Ticket (\d+) is yours", str(messages))[1]
        steps = (
            ("write", {"path": "src/slug.py", "content": self.module}),
            *([bash("uv run scripts/run_tests.py slug")] * (self.module != HANGS)),
            bash(CLOSE.format(ticket)),
        )
        done = answers(messages)
        if done == len(steps) - 1:
            self.struck.set()
        self.judged += done == len(steps)
        if done < len(steps):
            return steps[done]
        self.interrupted.wait(60)
        return "It is done."


ARM = ("--arm", "strict")  # its write takes `path`


def command(project, *words: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "agenteval", "run", *words, *ARM],
        cwd=project,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("how", WORLDS)
def test_ctrl_c_is_answered_and_resume_ends_the_run(how, project) -> None:
    module, told = WORLDS[how]
    model = Hostile(module)
    with scripted(model) as url:
        target = ("--base-url", url, "-m", "m", "--trials", "1", "coding/slug-function")
        with command(project, *target) as running:
            assert model.struck.wait(60), "the world was never spoilt"
            time.sleep(0.5)  # then the last call has run, and a test that hangs is under way
            asked = model.judged
            running.send_signal(signal.SIGINT)
            began = time.monotonic()
            with suppress(subprocess.TimeoutExpired):
                running.communicate(timeout=ANSWERED)
            took = time.monotonic() - began
            running.kill()
            model.interrupted.set()
        with command(project, "--resume", "last", "--base-url", url) as again:
            _, complaints = again.communicate(timeout=200)
    run = stored(project)
    if how.endswith("a test"):
        assert asked == 0, "it was interrupted too late"
    assert (running.returncode, took < ANSWERED) == (130, True)
    assert (again.returncode, run.complete, len(run.trials)) == (0, True, 1), complaints
    (trial,) = run.trials
    assert (trial.outcome, re.search(told, trial.reason) is not None) == (
        Outcome.CLAIMED_DONE,
        True,
    ), trial.reason
