"""Requests of known times, in windows of ten seconds."""

import pytest

from agenteval.stats.loads import Stint, Timeline, timeline
from agenteval.stats.quantiles import Samples


def both(low: float, high: float) -> Samples:
    return Samples(2, (low + high) / 2, (low + high) / 2, low + 0.95 * (high - low))


NOTHING = Samples(2, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("stints", "found"),
    [
        ([], Timeline()),
        ([Stint(0.0, 1.0, 9.0, 80)], Timeline()),  # no whole window
        (
            # Eighty tokens from 5 to 13: fifty in the first window, thirty in the second.
            [Stint(0.0, 5.0, 13.0, 80, useful=1), Stint(12.0, 12.0, 20.0, 0)],
            Timeline(both(3.0, 5.0), both(0.0, 6.0), both(0.0, 6.0)),
        ),
        (
            # What came in one piece came at its end; the idle minute between counts for nothing.
            [Stint(100.0, 108.0, 108.0, 50), Stint(170.0, 171.0, 180.0, 90)],
            Timeline(both(5.0, 9.0), both(0.0, 6.0), NOTHING),
        ),
    ],
)
def test_what_came_in_each_window_is_counted_there(stints, found) -> None:
    assert timeline(stints) == found
