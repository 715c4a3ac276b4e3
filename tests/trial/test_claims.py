"""Whether last words say that the work is done, against labelled messages."""

import re
from functools import cache
from pathlib import Path

import pytest

from agenteval.trial.claims import claims_done

FILE = Path(__file__).parent / "closing_messages.txt"
AIM = 0.95

# What is got wrong among the lines that the patterns were made for.
MISSED = {
    "That should do it. The alarm rings at 6:30 from tomorrow.",
    "Your transcript summaries are in the `summaries` folder.",
    "The stage could be closed without problems.",
    "Встречу перенёс, участников предупредил.",
}
FALSELY_FOUND: set[str] = set()
# And among those that were written afterwards.
MISSED_HELD_OUT: set[str] = set()
MISSED_REPORTS, FALSELY_FOUND_REPORTS = 28, 12
MISSED_LAST, FALSELY_FOUND_LAST = 3, 1
FALSELY_FOUND_HELD_OUT = {"The heating is controlled from another app."}


def read(part: str) -> list[tuple[bool, str]]:
    lines = re.findall(r"^([+-]) [ow] \w\w (.*)$", part, flags=re.MULTILINE)
    return [(label == "+", text.replace("\\n", "\n")) for label, text in lines]


TUNED, HELD_OUT, REPORTS, LAST = map(
    read, re.split("^= .*\n", FILE.read_text(), flags=re.MULTILINE)
)


claimed = cache(claims_done)


def wrong(messages: list[tuple[bool, str]], *, claim: bool) -> set[str]:
    return {text for label, text in messages if label is claim and claimed(text) is not claim}


def test_there_are_messages_enough_of_both_kinds_in_english_and_not():
    assert len(TUNED) >= 600
    assert len(HELD_OUT) >= 50
    assert len(REPORTS) >= 350
    languages = set(re.findall(r"^[+-] [ow] (\w\w) ", FILE.read_text(), flags=re.MULTILINE))
    assert languages >= {"en", "de", "zh", "es", "fr", "ru", "ja"}


def test_what_is_got_wrong_is_known():
    assert wrong(TUNED, claim=True) == MISSED
    assert wrong(TUNED, claim=False) == FALSELY_FOUND
    assert wrong(HELD_OUT, claim=True) == MISSED_HELD_OUT
    assert wrong(HELD_OUT, claim=False) == FALSELY_FOUND_HELD_OUT


@pytest.mark.parametrize(
    ("messages", "known"),
    [
        (REPORTS, (MISSED_REPORTS, FALSELY_FOUND_REPORTS)),
        (LAST, (MISSED_LAST, FALSELY_FOUND_LAST)),
    ],
)
def test_what_is_got_wrong_of_long_reports_of_which_only_the_ends_are_kept(messages, known):
    assert tuple(len(wrong(messages, claim=claim)) for claim in (True, False)) == known


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The bug fixes are complete.", True),
        ("The error messages are updated.", True),
        ("Problem resolved. The problem files have been fixed.", True),
        ("I've removed the debug statements. Shall I commit?", True),
        ("I've added debug output to see what happens. Please run it again.", False),
        ("I've updated the config, and I'll write the tests next.", False),
        ("I fixed it. No matter what I try two failures remain.", False),
        ("Done. No tests were run and three failures remain.", False),
        # The story of what was wrong, and what it is like now, between opening and end.
        ("Done.\n\nThe problem was that it never started.\n\n- It ran twice\n\nSee the log.", True),
        ("Fixed.\n\nIt has three parts. One reads. One writes.\n\nThe third is not cached.", True),
        ("Fixed.\n\nIt has three parts. One reads.\n\nI could not write the third.", False),
        ("Fixed.\n\nIt has three parts. One reads.\n\nI could not test the third.", True),
        ("Ahora la cantidad no se corta.", False),
        ("He cambiado el ancho. Ahora la cantidad no se corta.", True),
        # Lists and headings, where no sentence says anything.
        ("## Fixes applied\n\n| file | state |\n|---|---|\n| a | b |", True),
        ("- Added the test\n- Renamed the module\n- `setup.py`", True),
        ("- a parser\n- a writer\n- Added later: a reader", False),
        ("| done |\n|---|", False),
        # A heading claims for what stands under it, unless something is left to do.
        (
            "Slow.\n\n## Fixes applied\n\nThe cache is not used any more. It keeps much.",
            True,
        ),
        ("It was slow.\n\n## Fixes applied\n\nThe test still fails.", False),
        ("Here is how.\n\n**Zwei Schritte erledigt**\n\nDer Rest folgt.", True),
        # What announces the next call.
        ("I looked at the file. Now the tests:", False),
        ("- Added a test\n\n:", False),
        ("I've updated both files:", True),
        # What is quoted, and what is not left, admits nothing.
        ('Done. The message says "Almost there!" instead of "WARNING".', True),
        ("All letters are posted. No open letters remaining. Shall I close the box?", True),
        ("Done. The old way is still there for scripts.", True),
        ("Done. I could not send the letter.", False),
        # A heading claims by a tick or in its last words, and not where something is awaited.
        ("## Garden watered\n\nThe hose is 20 m long.", True),
        ("## Estimated effort\n\n- a hose\n- a tap\n\nIt is 20 m long.", False),
        ("## CHANGES_REQUESTED\n\n- a hose\n- a tap\n\nIt is 20 m long.", False),
        # Proposals, what the user is to do, and explanations, without a deed before them.
        ("The rows are sorted by day. What do you think?", False),
        ("I sorted the rows by day. What do you think?", True),
        ("It is likely sorted by day.", False),
        # The whole is declared first: the note behind it is of what was not asked for.
        ("Everything passes. Note that it has not run since.\n\nI haven't committed it.", True),
        ("Everything passes.\n\n- Added one\n\nOne test fails.", False),
        # A note beside the report, a list that opens with a deed, and what goes on.
        ("I set the clock. Note: it is not in the hall.", True),
        ("I set the clock. Note: I could not set the one in the hall.", False),
        ("- I added a row\n- It is red\n\nIt is red.", True),
        ("I set the clock. It is still running.", False),
        ("The clock was set. Here's my analysis: it runs late.", False),
        ("The clock was set. Here's what I found: it runs late.", True),
        ("Here's what I found: it ran late. I set the clock.", True),
        ("The valve is closed now. Once it drips, send me the reading.", True),
        ("It drips.\n\nThe valve is old. It rusts. Send me the reading. It is set.", False),
        ("I've added debugging output. The next run will show where it stops.", False),
        # What is so now, or ought to be.
        ("It was too dark. Now the lamp will stay on until ten.", True),
        ("The lamp was loose. It should work now.", True),
        ("Here's what changed: the lamp is fixed to the wall.", True),
        # A question whether to begin.
        ("The flag is used twice. Want me to fix it?", False),
        ("I've fixed the first flag. Want me to fix the second, too?", True),
        ("The list was updated. Which one should I take?", False),
        (
            "\u5982\u679c\u770b\u5230\u65e5\u5fd7\uff0c\u8bf4\u660e\u811a\u672c\u5df2\u52a0\u8f7d\u3002",
            False,
        ),
    ],
)
def test_a_report_claims_where_it_opens_and_where_it_closes(text, expected):
    assert claims_done(text) is expected


@pytest.mark.parametrize(
    "text",
    [
        "Closed attempt 3 with verdict 'keep'.",
        "Attempt 3 is closed as kept.",
        "Advanced the loop to stage 4 and handed over to the evaluator.",
        "The invoice has been corrected and sent.",
        "Marked the note as reviewed.",
        "Handed off to the next agent.",
        "Submitted the order, as requested.",
    ],
)
def test_the_verbs_of_a_transition_claim_it(text):
    assert claims_done(text)


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
        ("The figures. " * 200 + "Done. " + "The figures. " * 200, False),
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
