import pytest

from agenteval.core.pace import LONGEST, stretch
from agenteval.core.timing import Timing
from agenteval.core.trial import Turn, Usage


def turn(tokens: int, seconds: float, *, pieces: int = 0) -> Turn:
    timing = Timing(0.1, pieces, 0.0, 0.0, 0.0, 0.0) if pieces else None
    return Turn("", (), "stop", Usage(100, tokens), "{}", seconds, timing)


@pytest.mark.parametrize(
    ("turns", "times"),
    [
        ([], 1.0),
        ([turn(199, 1000.0)], 1.0),  # too little to be a speed
        ([turn(400, 5.0)], 1.0),  # fast: nobody gets less than the limit
        ([turn(400, 10.0)], 1.0),
        ([turn(100, 10.0), turn(300, 30.0)], 4.0),
        ([turn(400, 10_000.0)], LONGEST),
        ([turn(0, 20.0, pieces=400)], 2.0),
        ([turn(0, 20.0)], 1.0),
    ],
)
def test_a_slow_server_gets_as_much_more_time_as_it_is_slower_than_the_reference(
    turns, times
) -> None:
    assert stretch(turns) == times
