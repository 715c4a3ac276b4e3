"""Many p values at once, with statsmodels as oracle."""

import pytest
from statsmodels.stats.multitest import multipletests

from agenteval.stats.comparison import benjamini_hochberg, dearer, holm

CASES = [[], [0.2], [0.049, 0.181, 0.707], [0.04, 0.01, 0.03, 0.9], [0.5, 0.5, 1.0, 0.001]]


@pytest.mark.parametrize("ps", CASES)
@pytest.mark.parametrize(("method", "adjusted"), [("holm", holm), ("fdr_bh", benjamini_hochberg)])
def test_a_correction_is_that_of_statsmodels(ps, method, adjusted):
    expected = multipletests(ps, method=method)[1].tolist() if ps else []
    assert adjusted(ps) == pytest.approx(expected)


def test_the_published_difference_does_not_survive_holms_correction():
    assert holm([0.049, 0.181, 0.707]) == pytest.approx([0.147, 0.362, 0.707])


@pytest.mark.parametrize(("among", "expected"), [(1, 1.0), (3, 1.3338), (10, 1.6961)])
def test_one_of_several_comparisons_takes_more_calls(among, expected):
    assert dearer(among, level=0.05, power=0.8) == pytest.approx(expected, abs=1e-4)
