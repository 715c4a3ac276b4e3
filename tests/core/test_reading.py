"""A count of the prompt that cannot be the count of what was sent."""

import pytest

from agenteval.core.reading import Sent, cut, sent
from agenteval.core.trial import Message
from agenteval.testing import trial

FIRST = Sent(4000, 1500)


@pytest.mark.parametrize(
    ("requests", "why"),
    [
        ([], ""),
        ([FIRST], ""),
        ([FIRST, Sent(8000, 2500)], ""),
        ([FIRST, Sent(4100, 1500)], ""),
        ([FIRST, Sent(4100, 1440)], ""),  # a template that writes an earlier turn shorter
        ([FIRST, Sent(8000, 0)], ""),  # not counted
        ([Sent(4000, 0), Sent(8000, 2500)], ""),
        ([Sent(4000, 0), Sent(8000, 0)], ""),
        ([FIRST, Sent(12_000, 2300)], ""),  # blanks and dashes: many characters a token
        ([FIRST, Sent(8000, 1400)], "after 1500 for the shorter request before"),
        ([FIRST, Sent(9000, 2800), Sent(9500, 2048)], "after 2800 for the shorter request before"),
        ([FIRST, Sent(30_000, 2048)], "at least 3682 by the first request's count"),
        ([Sent(160_000, 2048)], "more than 16 characters a token"),
    ],
)
def test_a_count_that_falls_or_stays_far_behind_is_a_context_that_was_cut(requests, why) -> None:
    said = cut(requests)
    assert (said.partition(" characters, ")[2], bool(said)) == (why, bool(why))


def test_what_is_sent_is_the_words_and_the_calls() -> None:
    (turn,) = trial("ls -la").turns
    messages = [Message("user", "list it"), Message("assistant", "", turn.calls)]
    assert sent(messages, 9) == Sent(len('list it{"command": "ls -la"}'), 9)
