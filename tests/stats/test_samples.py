from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenteval.stats.quantiles import Samples, samples


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([4.0], Samples(1, 4.0, 4.0, 4.0, 4.0)),
        ([1.0, 3.0], Samples(2, 2.0, 2.0, 2.9, 3.0)),
        ([2.0] * 19 + [42.0], Samples(20, 4.0, 2.0, 4.0, 42.0)),
    ],
)
def test_values_become_their_number_mean_median_95th_percentile_and_peak(values, expected) -> None:
    found = samples(Counter(values))
    assert found == (expected and Samples(expected.n, *map(pytest.approx, _numbers(expected))))


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_they_are_what_numpy_says(values) -> None:
    found = samples(Counter(values))
    expected = (np.mean(values), np.median(values), np.quantile(values, 0.95), np.max(values))
    assert found is not None
    assert (found.n, *_numbers(found)) == (len(values), *map(pytest.approx, expected))


def _numbers(found: Samples) -> tuple[float, ...]:
    return found.mean, found.median, found.p95, found.peak
