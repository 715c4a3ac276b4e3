"""Kill a process of a run at a random moment: nothing is left, no answered call is lost."""

import os
import random
import subprocess

import chaos_kill
import pytest

ROUNDS = int(os.environ.get("AGENTEVAL_CHAOS_ROUNDS", "6"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_whoever_is_killed_nothing_is_left_and_no_answered_call_is_lost() -> None:
    chance, backends = random.Random(ROUNDS), chaos_kill.working()
    rounds = [chaos_kill.played(*one, chance) for one in chaos_kill.planned(ROUNDS, backends)]
    assert [one.faults for one in rounds] == [[]] * ROUNDS
    # On a slow machine a moment may come before there is anybody to kill, or after all have ended.
    assert [one.killed for one in rounds].count("") < ROUNDS


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
