"""Whether last words say that the work is done, against labelled messages."""

import re
from pathlib import Path

import pytest

from agenteval.core.claims import claims_done

FILE = Path(__file__).parent / "closing_messages.txt"
AIM = 0.95

# What is got wrong among the lines that the patterns were made for.
MISSED = {
    "Your transcript summaries are in the `summaries` folder.",
    "The stage could be closed without problems.",
    "Встречу перенёс, участников предупредил.",
}
FALSELY_FOUND: set[str] = set()
# And among those that were written afterwards.
MISSED_HELD_OUT = {
    "The function handles negative numbers now, and the four new tests succeed.",
    "The old rules are gone and the new ones are in effect.",
    "Der Bericht ist geschrieben und abgelegt.",
}
FALSELY_FOUND_HELD_OUT = {"The heating is controlled from another app."}


def read(part: str) -> list[tuple[bool, str]]:
    lines = re.findall(r"^([+-]) [ow] \w\w (.*)$", part, flags=re.MULTILINE)
    return [(label == "+", text.replace("\\n", "\n")) for label, text in lines]


TUNED, HELD_OUT = map(read, FILE.read_text().split("= held out\n"))


def wrong(messages: list[tuple[bool, str]], *, claim: bool) -> set[str]:
    return {text for label, text in messages if label is claim and claims_done(text) is not claim}


def test_there_are_messages_enough_of_both_kinds_in_english_and_not():
    assert len(TUNED) >= 600
    assert len(HELD_OUT) >= 50
    languages = set(re.findall(r"^[+-] [ow] (\w\w) ", FILE.read_text(), flags=re.MULTILINE))
    assert languages >= {"en", "de", "zh", "es", "fr", "ru", "ja"}


def test_what_is_got_wrong_is_known():
    assert wrong(TUNED, claim=True) == MISSED
    assert wrong(TUNED, claim=False) == FALSELY_FOUND
    assert wrong(HELD_OUT, claim=True) == MISSED_HELD_OUT
    assert wrong(HELD_OUT, claim=False) == FALSELY_FOUND_HELD_OUT


def test_recall_and_precision_reach_the_aim_over_all_messages():
    messages = TUNED + HELD_OUT
    claims = sum(label for label, _ in messages)
    missed, false = (len(wrong(messages, claim=claim)) for claim in (True, False))
    found = claims - missed
    assert found / claims >= AIM
    assert found / (found + false) >= AIM


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ("<think>The task is complete.</think>", False),
        ("<think>The task is complete. All done", False),
        ("<think>I cannot do this, it failed.</think>The work is done.", True),
        ("It\u2019s done.", True),
        ("The stage isn\u2019t closed yet.", False),
        ("Done." + " Now the figures." * 200, False),
        ("`done`", False),
        ("```\nAll done\n```", False),
        ("The task is not complete.", False),
        ("I have done nothing.", False),
        ("Is the task done?", False),
        ("Shall I mark it as completed?", False),
        ("The work is mostly done.", False),
        ("Nothing else remains.", True),
        ("The loop has been advanced, no further issues.", True),
        ("All steps are completed except that the evaluator was denied.", False),
        ("The remaining steps are to be completed by somebody else.", False),
    ],
)
def test_thoughts_code_and_what_was_long_before_the_end_claim_nothing(text, expected):
    assert claims_done(text) is expected


def test_a_long_text_of_one_kind_is_read_quickly_enough_to_be_read_at_all():
    for part in ("a ", "I have ", "- ", "now ", "the tests ", "\u5df2", "<think>", "```"):
        assert claims_done(part * 100_000) in {True, False}
