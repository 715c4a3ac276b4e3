"""Broken replies drawn by chance, the whole way; `make fuzz` sends a hundred thousand."""

import pytest
from fuzz_replies import asked, parsed, struck
from reply_path import drawn

from agenteval.trial.call import Outcome


@pytest.mark.slow
def test_no_reply_ends_its_way_with_an_exception() -> None:
    seen = parsed(400, seed=1)
    assert (seen.complaints, seen.turns > 200, seen.refused > 20) == ([], True, True)


async def test_no_reply_ends_a_run(tmp_path) -> None:
    trials = await asked(40, 1, tmp_path)
    drawn(trials)
    played = [one for one in trials if one.outcome is not Outcome.VOID]
    assert (struck(trials), len(trials), len(played) > 5) == ([], 20, True)
