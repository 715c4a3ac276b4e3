"""What a count of the prompt can be the count of."""

import pytest

from agenteval.testing import trial
from agenteval.trial.tally import Counted, Sent, counted, cut, sent
from agenteval.trial.trial import Message

FIRST = Sent(4000, 1500)
WHOLE, SHORT, NEW, UNCLEAR = Counted


@pytest.mark.parametrize(
    ("requests", "what"),
    [
        ([FIRST], UNCLEAR),
        ([FIRST, Sent(4400, 1600)], WHOLE),
        ([FIRST, Sent(8000, 2500)], UNCLEAR),  # what is new may be as long
        ([FIRST, Sent(4100, 1500)], UNCLEAR),  # no growth, as of a constant
        ([FIRST, Sent(4100, 1440)], UNCLEAR),  # a template that writes an earlier turn shorter
        ([FIRST, Sent(8000, 0)], UNCLEAR),  # not counted
        ([Sent(4000, 0), Sent(8000, 0)], UNCLEAR),
        ([Sent(4000, 0), Sent(4400, 1600)], UNCLEAR),
        ([FIRST, Sent(12_000, 2300)], UNCLEAR),  # blanks and dashes: many characters a token
        ([FIRST, Sent(4300, 120)], NEW),
        ([FIRST, Sent(8000, 1400)], NEW),
        ([FIRST, Sent(4300, 900)], SHORT),
        ([Sent(9000, 2800), Sent(9500, 2048)], SHORT),
        ([FIRST, Sent(40_000, 2048)], NEW),
        ([FIRST, Sent(30_000, 2048), Sent(31_000, 2048)], SHORT),
        ([Sent(160_000, 2048)], SHORT),
        ([Sent(32_000, 2048)], UNCLEAR),
    ],
)
def test_a_count_is_of_the_whole_or_of_a_part_or_does_not_tell(requests, what) -> None:
    assert counted(requests) is what


FALLS = (Sent(9000, 2800), Sent(9500, 2048))
SAID = "the server counted 2048 prompt tokens for 9500 characters, which have at least 2831"


@pytest.mark.parametrize(
    ("requests", "context", "whole", "said"),
    [
        (FALLS, None, False, ""),
        (FALLS, None, True, SAID),
        (FALLS, 8192, True, ""),  # there was room for it: the rest was cached
        (FALLS, 2048, False, f"{SAID}, and its context holds 2048"),
        ((Sent(40_000, 0), Sent(41_000, 7)), 4096, False, ""),
        ((Sent(70_000, 7),), 4096, False, "which have at least 4375, and its context holds 4096"),
    ],
)
def test_the_length_of_the_context_decides_and_else_only_who_counts_all_is_believed(
    requests, context, whole, said
) -> None:
    why = cut(requests, context=context, whole=whole)
    assert (bool(why), said in why) == (bool(said), True)


def test_what_is_sent_is_the_words_and_the_calls_but_no_earlier_thoughts() -> None:
    (turn,) = trial("ls -la").turns
    messages = [
        Message("user", "list it"),
        Message("assistant", "<think>Hm.</think>Well.", turn.calls),
    ]
    assert sent(messages, 9) == Sent(len('list itWell.{"command": "ls -la"}'), 9, len(messages))
