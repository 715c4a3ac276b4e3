"""How a trial ended."""

import pytest

from agenteval.testing import denied, says, trial
from agenteval.trial.call import Ending, Outcome, outcome
from agenteval.trial.trial import last_denied

DONE, RESULT = True, False  # what the last words claim


@pytest.mark.parametrize(
    ("ending", "goal_met", "last_denied", "claimed", "expected"),
    [
        (Ending.GOAL, True, False, RESULT, Outcome.COMPLETED),
        (Ending.STOPPED, True, True, RESULT, Outcome.COMPLETED),
        (Ending.TURNS, True, False, RESULT, Outcome.COMPLETED),
        (Ending.STOPPED, False, False, RESULT, Outcome.STALLED),
        (Ending.STOPPED, False, True, RESULT, Outcome.GAVE_UP),
        (Ending.STOPPED, False, False, DONE, Outcome.CLAIMED_DONE),
        (Ending.STOPPED, False, True, DONE, Outcome.CLAIMED_DONE),
        (Ending.TURNS, False, True, DONE, Outcome.OUT_OF_TURNS),
        (Ending.TOKENS, False, False, DONE, Outcome.OUT_OF_TURNS),
        (Ending.TIME, False, False, RESULT, Outcome.TIMED_OUT),
        (Ending.TIME, True, False, RESULT, Outcome.COMPLETED),
        (Ending.LOOPED, False, True, DONE, Outcome.LOOPED),
        (Ending.CONTEXT, False, True, DONE, Outcome.OUT_OF_CONTEXT),
        (Ending.CONTEXT, True, False, DONE, Outcome.COMPLETED),
        (Ending.BROKEN, True, False, DONE, Outcome.VOID),
    ],
)
def test_the_world_decides_and_words_only_tell_a_claim_from_a_stall(
    ending, goal_met, last_denied, claimed, expected
):
    found = outcome(ending, goal_met=goal_met, last_denied=last_denied, claimed=claimed)
    assert found is expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("ls", denied("ls")), True),
        ((("ls", denied("ls")),), True),
        (((denied("ls"), "ls"),), True),
        ((denied("ls"), "ls"), False),
        ((("ls", denied("ls")), says("No.")), True),
        ((says("No."),), False),
    ],
)
def test_a_call_of_the_last_turn_that_made_any_was_denied_in_whatever_place(parts, expected):
    assert last_denied(trial(*parts).calls) is expected
