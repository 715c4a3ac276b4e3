"""Kill a process of a run at a random moment: nothing is left, no answered call is lost."""

import os
import random
import sqlite3
import subprocess
from contextlib import closing

import chaos_kill
import pytest
from scripted_server import scripted

ROUNDS = int(os.environ.get("AGENTEVAL_CHAOS_ROUNDS", "6"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_whoever_is_killed_nothing_is_left_and_no_answered_call_is_lost() -> None:
    chance, backends = random.Random(ROUNDS), chaos_kill.working()
    rounds = [chaos_kill.played(*one, chance) for one in chaos_kill.planned(ROUNDS, backends)]
    assert [one.faults for one in rounds] == [[]] * ROUNDS
    # On a slow machine a moment may come before there is anybody to kill, or after all have ended.
    assert [one.killed for one in rounds].count("") < ROUNDS


class AtOnce(random.Random):
    """The moment is when the first call was asked for."""

    def uniform(self, a: float, b: float) -> float:
        del a, b
        return 0.0


@pytest.mark.slow
def test_a_run_whose_evaluator_is_killed_ends_with_the_figures_of_an_undisturbed_one() -> None:
    seen = chaos_kill.played(chaos_kill.working()[0], "evaluator", AtOnce())
    assert (seen.faults, seen.killed) == ([], "evaluator")


@pytest.mark.slow
def test_other_figures_and_a_damaged_store_would_be_seen(tmp_path) -> None:
    backend, store = chaos_kill.working()[0], tmp_path / "runs.db"
    with scripted(chaos_kill.Model()) as url:
        words = (*chaos_kill.RUN, "--base-url", url, "--sandbox", backend, "--store", str(store))
        (tmp_path / "tmp").mkdir()
        with chaos_kill.begun(tmp_path, *words) as running:
            chaos_kill.ending(running)
    assert [*chaos_kill.wrong(store, backend)] == []
    with closing(sqlite3.connect(store)) as database, database:
        database.execute("DELETE FROM trial WHERE number = 1")
    *damage, other = chaos_kill.wrong(store, backend)
    assert (len(damage) > 0, "other figures" in other) == (True, True), damage


def test_a_process_a_mount_and_a_call_that_are_left_or_lost_would_be_seen(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(chaos_kill, "LEFT_AFTER", 0.2)
    mark = os.environ | {"AGENTEVAL_CHAOS": str(tmp_path)}
    with subprocess.Popen(["sleep", "60"], env=mark) as orphan:
        left = chaos_kill.remaining(tmp_path)
        orphan.kill()
    assert left == {orphan.pid}
    seen = chaos_kill.Seen(
        ("folder x",),
        frozenset(("call-1",)),
        "runner",
        ended=False,
        doubled=frozenset(("call-2",)),
        told="no run",
    )
    ended = "the run did not end: no run"
    assert seen.faults == ["folder x", "lost call-1", "doubled call-2", ended]
