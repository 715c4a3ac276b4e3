"""As `test_resume`, with the runs in a real PostgreSQL."""

import os
import signal
import time
from contextlib import closing

import pytest
from test_resume import ARGUMENTS, CALLS, begun, seen

from agenteval.store.sql import SqlStore
from agenteval.trial.run import Run


def stored(url: str) -> Run:
    with closing(SqlStore(url)) as store:
        return store.load("last")


@pytest.mark.slow
def test_a_killed_run_is_free_again_and_ends_as_if_nothing_had_been_its_voids_too(
    cli, project, postgres
) -> None:
    database = postgres.new()
    store = ("--store", postgres.url(database))
    cli(*ARGUMENTS)
    with closing(SqlStore("reports/agenteval.db")) as other:
        unbroken = seen(other.load("last"))
    with closing(SqlStore(store[1])), postgres.asks(database) as asking:

        def calls() -> int:
            return asking.execute(CALLS).fetchone()[0]

        def killed(*arguments: str) -> None:
            """When it has made five calls."""
            least = calls() + 5
            with begun(project, *arguments, *store) as running:
                while calls() < least and running.poll() is None:
                    time.sleep(0.01)
                os.kill(running.pid, signal.SIGSTOP)  # it still holds its run
                refused.append(cli("run", "--resume", "last", *store))
                os.kill(running.pid, signal.SIGKILL)
                running.wait()

        refused = []
        killed(*ARGUMENTS)
        said = cli("run", "--resume", "last", *store)
        resumed = stored(store[1])
        asking.execute("UPDATE trial SET outcome = 'void', cause = 'crashed' WHERE number > 1")
        killed("run", "--resume", "last", "--retry-void")
        again = cli("run", "--resume", "last", *store)
    observed = (said.code, seen(resumed), again.code, seen(stored(store[1])))
    assert observed == (0, unbroken, 0, unbroken)
    assert [(one.code, "is being played by another process" in one.err) for one in refused] == [
        (2, True),
        (2, True),
    ]
