"""What follows a denial."""

from dataclasses import replace

import pytest

from agenteval.testing import denied, says, tool, trial
from agenteval.trial.call import Ending
from agenteval.trial.recovery import NO_DENIALS, Recovery, asks, recoveries, trial_recovery

LIST = "uv run notes.py list"


def test_a_denied_intent_is_followed_to_its_end_through_further_denials():
    ended = trial(denied("ls"), (denied("ls -a"), LIST), denied("ls -b"), tool("list", path="."))
    found = [(one.recovery, one.turns, one.calls) for one in trial_recovery(ended).aftermaths]
    assert found == [
        (Recovery.ESCALATED, 3, 4),
        (Recovery.ESCALATED, 2, 2),
        (Recovery.ADDRESSED, 1, 1),
    ]


def test_other_work_is_a_way_on_from_the_denial_that_it_followed_alone():
    ended = trial(denied("ls"), denied("ls"), LIST, says("Done."))
    found = [(one.recovery, one.turns) for one in trial_recovery(ended).aftermaths]
    assert found == [(Recovery.REPEATED, None), (Recovery.SIDESTEPPED, 1)]


def test_other_work_until_the_denied_intent_is_allowed_is_a_way_on_at_once():
    ended = trial(denied("ls"), LIST, tool("list", path="."))
    found = [(one.recovery, one.turns) for one in trial_recovery(ended).aftermaths]
    assert found == [(Recovery.ADDRESSED, 1)]


def test_other_work_after_the_denied_intent_was_allowed_takes_no_time_from_it():
    ended = trial(denied("ls"), tool("list", path="."), LIST)
    found = [(one.recovery, one.turns) for one in trial_recovery(ended).aftermaths]
    assert found == [(Recovery.ADDRESSED, 1)]


def test_a_call_that_answers_one_denial_is_other_work_for_no_other():
    ended = trial((denied("ls"), denied("pwd")), LIST, "pwd", tool("list", path="."), says("."))
    found = [(one.recovery, one.turns) for one in trial_recovery(ended).aftermaths]
    assert sorted(found) == [(Recovery.ADDRESSED, 1), (Recovery.ADDRESSED, 2)]


def test_other_work_of_the_turn_that_answered_a_denial_is_free_for_another():
    ended = trial((denied("ls"), denied("pwd")), (tool("list", path="."), LIST), says("Done."))
    assert recoveries(ended) == [Recovery.ADDRESSED, Recovery.SIDESTEPPED]


@pytest.mark.parametrize("ending", [one for one in Ending if one is not Ending.GOAL])
def test_a_denial_that_was_left_is_abandoned_however_the_trial_ended_after_another_turn(ending):
    ended = replace(trial(denied("ls"), says("Done.")), ending=ending)
    assert recoveries(ended) == [Recovery.ABANDONED]


def test_what_was_done_before_a_denial_says_nothing_of_what_came_between_its_tries():
    ended = trial(LIST, denied("ls"), denied("ls"), LIST, says("Done."))
    found = [(one.recovery, one.turns) for one in trial_recovery(ended).aftermaths]
    assert found == [(Recovery.REPEATED, None), (Recovery.SIDESTEPPED, 1)]


def test_of_two_denials_a_call_answers_the_one_that_it_is_most_like():
    ended = trial((denied("cat a.md"), denied("head -5 a.md")), "head -3 a.md", says("Done."))
    assert recoveries(ended) == [Recovery.ABANDONED, Recovery.ADDRESSED]


def test_of_two_denials_that_it_is_as_much_like_a_call_answers_the_older_one():
    ended = trial((denied("ls -b"), denied("ls -c")), denied("ls -a"), tool("list", path="."))
    assert recoveries(ended) == [Recovery.ESCALATED, Recovery.ADDRESSED, Recovery.ABANDONED]


@pytest.mark.parametrize(
    ("refused", "then"), [("test", "npm test"), ("show a", "uv run notes.py show a")]
)
def test_a_command_that_is_a_sub_command_is_found_where_it_belongs(refused, then):
    assert recoveries(trial(denied(refused), then, says("Done."))) == [Recovery.ADDRESSED]


def test_a_denial_is_told_with_the_turns_that_were_taken_after_it():
    ended = trial(LIST, denied("ls"), LIST, says("Shall I?"), denied("ls"))
    assert [one.played for one in trial_recovery(ended).aftermaths] == [3, 0]


@pytest.mark.parametrize(
    ("then", "kind"),
    [(LIST, Recovery.SIDESTEPPED), (tool("list", path="."), Recovery.ADDRESSED)],
)
def test_a_denial_without_a_chance_is_not_answerable(then, kind):
    found = trial_recovery(trial(denied("ls"), then, denied("pwd")))
    assert [one.recovery for one in found.aftermaths] == [kind, Recovery.NO_CHANCE]
    assert found.answerable == found.aftermaths[:1]


def test_of_more_open_denials_than_anybody_goes_back_to_the_last_fifty_are_looked_at():
    made = tuple(denied(f"uv run x{number:02}.py") for number in range(51))
    found = recoveries(trial(made, "uv run x00.py", "uv run x01.py", says("Done.")))
    assert found[1] is Recovery.ADDRESSED
    assert Recovery.ADDRESSED not in (found[0], *found[2:])


def test_a_denial_that_was_answered_is_not_among_those():
    made = tuple(denied(f"uv run x{number:02}.py") for number in range(51))
    found = recoveries(trial(made, "uv run x50.py", "uv run x00.py", says("Done.")))
    assert (found[0], found[-1]) == (Recovery.ADDRESSED, Recovery.ADDRESSED)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("May I use head?", True),
        ("May I use head? ", True),
        ("Which one?**", True),
        ("\u53ef\u4ee5\u5417\uff1f", True),
        ("Please confirm the deletion.", True),
        ("Let me know how you\u2019d like to proceed.", True),
        ("What now? I stop.", False),
        ("Let me know if you need anything else.", False),
        ("**Which?** *(a)*", False),
        ("Which? (1)", False),
        ("Which ... ?!", True),
        ("?", True),
        ("I cannot do this.", False),
        ("", False),
    ],
)
def test_words_ask_that_end_with_a_question_or_ask_for_an_answer(text, expected):
    assert asks(text) is expected


@pytest.mark.timeout(60)
def test_a_question_is_looked_for_once():
    """Behind each mark to the end of all of them it took minutes."""
    assert not asks("?" * 300_000 + "x")
    assert asks("?!" * 300_000)


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
    assert counted.longest_run == 2
    assert counted.turns_burned == (2, 6)
    assert counted.after_allowed == (1, 1)
    assert counted.after_denied == (3, 5)


def test_a_trial_without_calls_has_nothing_to_recover_from():
    counted = trial_recovery(trial(says("No.")))
    assert (counted.aftermaths, counted.longest_run) == ((), 0)
    assert (counted.after_denied, counted.after_allowed) == ((0, 0), (0, 0))
    assert trial_recovery(trial()) == NO_DENIALS
