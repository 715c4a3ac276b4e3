"""Many p values at once, with statsmodels as oracle."""

import pytest
from scipy.stats import ttest_ind
from statsmodels.stats.multitest import multipletests

from agenteval.stats.comparison import compare_models
from agenteval.stats.limits import holm
from agenteval.stats.rates import Rate

CASES = [[], [0.2], [0.049, 0.181, 0.707], [0.04, 0.01, 0.03, 0.9], [0.5, 0.5, 1.0, 0.001]]


@pytest.mark.parametrize("ps", CASES)
def test_the_correction_is_that_of_statsmodels(ps):
    expected = multipletests(ps, method="holm")[1].tolist() if ps else []
    assert holm(ps) == pytest.approx(expected)


def rates(*counts, n=100_000):
    return [Rate(count, n) for count in counts]


def test_models_of_two_kinds_are_compared_as_scipy_compares_their_rates():
    first, second = rates(9_000, 12_000, 11_000, 15_000), rates(6_000, 7_000, 9_500, 5_000)
    found = compare_models(first, second)
    oracle = ttest_ind(*([rate.value for rate in side] for side in (first, second)))
    interval = oracle.confidence_interval()
    assert (found.p, found.low, found.high) == pytest.approx(
        (oracle.pvalue, interval.low, interval.high)
    )


def test_models_that_happen_to_be_alike_still_have_the_errors_of_their_trials():
    found = compare_models(rates(9, 9, 9, 9, n=100), rates(5, 5, 5, 5, n=100))
    assert (found.low < 0 < found.high, found.p > 0.05) == (True, True)
    assert compare_models(rates(0, 0, n=100), rates(0, 0, n=100)).p == 1
