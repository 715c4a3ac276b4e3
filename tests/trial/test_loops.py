"""What is a loop, and what only looks like one."""

from dataclasses import replace

import pytest

from agenteval.testing import trial
from agenteval.trial.recovery import RUNAWAY, _Cycle, looped, repeated
from agenteval.trial.trial import CallRecord

LINE = "| the boiler of the cellar is still waiting for its part | 3 | open |\n"


def made(letters: str, *, answers: str = "") -> list[CallRecord]:
    """One call for each letter, answered by the letter at its place in `answers`."""
    records = trial(*letters).calls
    replies = answers or "." * len(letters)
    return [replace(record, reply=reply) for record, reply in zip(records, replies, strict=True)]


def cycle(letters: str, times: int) -> _Cycle:
    return _Cycle(tuple(f'bash {{"command": "{letter}"}}' for letter in letters), times)


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        ("aaaaa", cycle("a", 5)),
        ("baaaaa", cycle("a", 5)),
        ("abababab", cycle("ab", 4)),
        ("cabababab", cycle("ab", 4)),
        ("abcabcabcabc", cycle("abc", 4)),
        ("abcdabcdabcdabcd", cycle("abcd", 4)),
        ("aabaabaabaab", cycle("aab", 4)),
        ("aaaa", None),
        ("aaaab", None),
        ("bababa", None),
        ("ababababc", None),
        ("abcdeabcdeabcdeabcde", None),
        ("abacadaeaf", None),
        ("", None),
    ],
)
def test_a_round_of_calls_that_comes_again_and_again_is_a_loop(commands, found) -> None:
    assert looped(made(commands)) == found


@pytest.mark.parametrize(
    ("commands", "answers", "looping"),
    [
        ("sssssss", "1234567", False),  # each look hears something new
        ("swswswswsw", "1.2.3.4.5.", False),
        ("sssssssss", "123455555", True),
        ("123456789", ".........", False),  # page after page
    ],
)
def test_a_poll_that_hears_something_new_is_no_loop(commands, answers, *, looping) -> None:
    assert (looped(made(commands, answers=answers)) is not None) is looping


def test_a_cycle_says_what_came_again_and_how_often() -> None:
    assert str(cycle("ab", 4)) == (
        '4 times the same, with the same answers: bash {"command": "a"}; then bash {"command": "b"}'
    )


@pytest.mark.parametrize(
    ("text", "passage"),
    [
        ("Let me see. " + "I will wait. " * 100, "I will wait. "),
        ("!" * 1200, "!"),
        ("Hm. " + LINE * 18, LINE),
        (("word " * 100 + "\n") * 7, "word " * 100 + "\n"),
        ("I will wait. " * 100 + "Done.", ""),
        (LINE * 17, ""),  # too few characters
        ("".join(f"{number} {LINE}" for number in range(40)), ""),
        ("".join(f"line {number}\n" for number in range(400)), ""),
        ((LINE * 7 + "the end of a longer passage\n") * 5, ""),  # five times, and not six
        ((LINE * 10 + "a passage of over 600\n") * 9, ""),
        ("", ""),
        ("short", ""),
    ],
)
def test_words_that_come_again_and_again_to_the_end_are_a_loop(text, passage) -> None:
    assert repeated(text) == passage


@pytest.mark.parametrize(("lines", "passage"), [(60, ""), (100, LINE)])
def test_what_is_still_being_written_may_repeat_for_longer(lines, passage) -> None:
    assert repeated(LINE * lines, RUNAWAY) == passage
