import pytest

from agenteval.trial.trial import Timing, timing_of


@pytest.mark.parametrize(
    ("arrivals", "timing"),
    [
        ([], None),
        ([0.5], Timing(0.5, 1)),
        ([0.5, 0.75], Timing(0.5, 2, 0.25, 0.25, 0.25, 0.25)),
        ([1.0, 2.0, 4.0, 8.0], Timing(1.0, 4, 7 / 3, 2.0, 4.0, 4.0)),
        ([float(at) for at in range(21)] + [30.0], Timing(0.0, 22, 30 / 21, 1.0, 1.0, 10.0)),
    ],
)
def test_the_pieces_of_a_stream_become_first_mean_median_p95_and_longest(arrivals, timing) -> None:
    assert timing_of(arrivals) == timing
