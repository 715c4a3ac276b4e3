"""What follows a denial."""

import pytest

from agenteval.core.recovery import Recovery, recoveries, trial_recovery
from agenteval.testing import denied, says, tool, trial

LIST = "uv run notes.py list"


@pytest.mark.parametrize(
    ("following", "expected"),
    [
        ("uv run db_query.py", Recovery.PIVOT),
        ("uv run notes.py list --limit 5", Recovery.REPAIR),
        (denied(f"{LIST} | head", "pipe-to-filter"), Recovery.RETRY_IDENTICAL),
        (denied(f"{LIST} | tail", "pipe-to-filter"), Recovery.RETRY_SAME_CLASS),
        (denied(f"{LIST} 2>&1", "stderr-redirect"), Recovery.RETRY_OTHER_CLASS),
        (says("May I use head? "), Recovery.ASK),
        (says("I cannot do this."), Recovery.GIVE_UP),
        (says(""), Recovery.GIVE_UP),
    ],
)
def test_the_next_turn_says_what_followed_a_denial(following, expected):
    first = denied(f"{LIST} | head", "pipe-to-filter")
    assert recoveries(trial(first, following, says("Done.")))[0] is expected


def test_a_second_try_at_a_denied_command_is_a_retry():
    ended = trial(denied("ls"), denied("ls -la"), LIST)
    assert recoveries(ended) == [Recovery.RETRY_SAME_CLASS, Recovery.PIVOT]


def test_a_denial_in_the_last_turn_is_followed_by_none():
    assert recoveries(trial(LIST, denied("ls"))) == [Recovery.NONE]


def test_calls_of_the_same_turn_are_no_reaction_to_each_other():
    ended = trial((denied("ls"), LIST), says("Done."))
    assert recoveries(ended) == [Recovery.GIVE_UP]


def test_each_of_two_denials_side_by_side_has_its_own_successor():
    ended = trial(
        (
            denied(f"{LIST} | head", "pipe-to-filter"),
            denied("uv run db.py 2>&1", "stderr-redirect"),
        ),
        (denied("uv run db.py 2>/dev/null", "stderr-redirect"), LIST),
        says("Done."),
    )
    assert recoveries(ended)[:2] == [Recovery.REPAIR, Recovery.RETRY_SAME_CLASS]


def test_text_right_after_a_denial_counts_even_when_calls_come_later():
    assert recoveries(trial(denied("ls"), says("Hm."), LIST)) == [Recovery.GIVE_UP]


def test_the_way_back_is_counted_in_turns_and_calls_to_the_first_allowed_call():
    ended = trial(denied("ls"), (denied("ls -a"), denied("ls -b")), (denied("ls -c"), LIST))
    back = [(one.turns, one.calls) for one in trial_recovery(ended).aftermaths]
    assert back == [(2, 4), (1, 2), (1, 2), (None, None)]


def test_only_allowed_answers_are_recoveries():
    assert {kind for kind in Recovery if kind.recovered} == {Recovery.PIVOT, Recovery.REPAIR}


def test_runs_burned_turns_and_hazards_are_counted_over_the_trial():
    ended = trial(
        LIST,
        denied("ls"),
        (denied("ls -a"), denied("ls -b")),
        (LIST, denied("ls -c")),
        says("Let me see."),
        LIST,
    )
    counted = trial_recovery(ended)
    assert counted.longest_run == 3
    assert counted.turns_burned == (2, 6)
    assert counted.after_allowed == (1, 1)
    assert counted.after_denied == (3, 5)


def test_a_trial_without_calls_has_nothing_to_recover_from():
    counted = trial_recovery(trial(says("No.")))
    assert (counted.aftermaths, counted.longest_run) == ((), 0)
    assert (counted.after_denied, counted.after_allowed) == ((0, 0), (0, 0))


def test_a_call_of_another_tool_is_a_pivot_or_a_repair_too():
    made_up = tool("emit_guidance", failure_class="hallucinated-tool", text="x")
    assert recoveries(trial(made_up, "uv run emit_guidance.py x")) == [Recovery.REPAIR]
    assert recoveries(trial(made_up, tool("read", path="notes.md"))) == [Recovery.PIVOT]
