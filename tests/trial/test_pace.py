import pytest

from agenteval.trial.tally import LONGEST, generated, stretch
from agenteval.trial.trial import Timing, Turn, Usage


@pytest.mark.parametrize(
    ("tokens", "seconds", "times"),
    [
        (0, 20.0, 1.0),
        (199, 1000.0, 1.0),  # too little to be a speed
        (400, 5.0, 1.0),  # fast: nobody gets less than the limit
        (400, 10.0, 1.0),
        (400, 40.0, 4.0),
        (400, 10_000.0, LONGEST),
    ],
)
def test_a_slow_server_gets_as_much_more_time_as_it_is_slower_than_the_reference(
    tokens, seconds, times
) -> None:
    assert stretch(tokens, seconds) == times


@pytest.mark.parametrize(
    ("counted", "timing", "tokens"),
    [(50, Timing(0.1, 20), 50), (0, Timing(0.1, 20), 20), (0, None, 0)],
)
def test_pieces_stand_for_tokens_that_nobody_counted(counted, timing, tokens) -> None:
    assert generated(Turn("", (), "stop", Usage(100, counted), "{}", 1.0, timing)) == tokens
