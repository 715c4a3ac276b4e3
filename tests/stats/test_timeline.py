"""Requests of known times, in windows of ten seconds."""

import pytest

from agenteval.stats.loads import Stint, Timeline, timeline
from agenteval.stats.quantiles import Samples


def both(low: float, high: float) -> Samples:
    return Samples(2, (low + high) / 2, (low + high) / 2, low + 0.95 * (high - low), high)


NOTHING = Samples(2, 0.0, 0.0, 0.0, 0.0)


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


def test_prompts_are_read_before_their_first_piece_and_idle_windows_count() -> None:
    """200 tokens from 5 to 15, then nothing until 30."""
    stints = [Stint(0.0, 0.0, 2.0, 10), Stint(5.0, 15.0, 16.0, 5, prompt=200)]
    stints.append(Stint(36.0, 36.0, 40.0, 10))
    assert timeline(stints).prefill == Samples(4, 5.0, 5.0, 10.0, 10.0)


def test_a_day_between_two_parts_of_a_run_is_no_idle_window() -> None:
    stints = [Stint(at, at + 5.0, at + 20.0, 10, prompt=100) for at in (0.0, 86_400.0)]
    found = timeline(stints).prefill
    assert found is not None
    assert (found.n, found.peak) == (5, 10.0)
