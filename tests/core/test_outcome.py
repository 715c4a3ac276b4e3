"""How a trial ended."""

import pytest

from agenteval.core.outcome import Ending, Outcome, outcome


@pytest.mark.parametrize(
    ("ending", "goal_met", "last_denied", "expected"),
    [
        (Ending.GOAL, True, False, Outcome.COMPLETED),
        (Ending.STOPPED, True, True, Outcome.COMPLETED),
        (Ending.TURNS, True, False, Outcome.COMPLETED),
        (Ending.STOPPED, False, False, Outcome.STALLED),
        (Ending.STOPPED, False, True, Outcome.GAVE_UP),
        (Ending.TURNS, False, True, Outcome.OUT_OF_TURNS),
        (Ending.TOKENS, False, False, Outcome.OUT_OF_TURNS),
        (Ending.TIME, False, False, Outcome.OUT_OF_TURNS),
        (Ending.LOOPED, False, True, Outcome.LOOPED),
        (Ending.BROKEN, True, False, Outcome.VOID),
    ],
)
def test_the_world_and_not_the_models_words_decide_the_outcome(
    ending, goal_met, last_denied, expected
):
    assert outcome(ending, goal_met=goal_met, last_denied=last_denied) is expected
