"""Requests of known times, in windows of ten seconds."""

import pytest

from agenteval.stats.loads import Timeline, _Stint, _timeline
from agenteval.stats.quantiles import Samples


def both(low: float, high: float) -> Samples:
    return Samples(2, (low + high) / 2, (low + high) / 2, low + 0.95 * (high - low), high)


NOTHING = Samples(2, 0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("stints", "found"),
    [
        ([], Timeline()),
        ([_Stint(0.0, 1.0, 9.0, 80)], Timeline()),  # no whole window
        (
            # Eighty tokens from 5 to 13: fifty in the first window, thirty in the second.
            [_Stint(0.0, 5.0, 13.0, 80, useful=1), _Stint(12.0, 12.0, 20.0, 0)],
            Timeline(both(3.0, 5.0), both(0.0, 6.0), both(0.0, 6.0)),
        ),
        (
            # What came in one piece came at its end; the idle minute between counts for nothing.
            [_Stint(100.0, 108.0, 108.0, 50), _Stint(170.0, 171.0, 180.0, 90)],
            Timeline(both(5.0, 9.0), both(0.0, 6.0), NOTHING),
        ),
    ],
)
def test_what_came_in_each_window_is_counted_there(stints, found) -> None:
    assert _timeline(stints) == found


def test_prompts_are_read_before_their_first_piece_and_idle_windows_count() -> None:
    """200 tokens from 5 to 15, then nothing until 30."""
    stints = [_Stint(0.0, 0.0, 2.0, 10), _Stint(5.0, 15.0, 16.0, 5, prompt=200)]
    stints.append(_Stint(36.0, 36.0, 40.0, 10))
    assert _timeline(stints).prefill == Samples(4, 5.0, 5.0, 10.0, 10.0)


def test_a_day_between_two_parts_of_a_run_is_no_idle_window() -> None:
    stints = [_Stint(at, at + 5.0, at + 20.0, 10, prompt=100) for at in (0.0, 86_400.0)]
    found = _timeline(stints).prefill
    assert found is not None
    assert (found.n, found.peak) == (5, 10.0)
