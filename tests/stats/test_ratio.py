"""The score interval of a ratio, with statsmodels as oracle."""

import warnings
from math import inf, isnan

import pytest
from statsmodels.stats.proportion import confint_proportions_2indep

from agenteval.stats.rates import Rate
from agenteval.stats.ratio import ratio


@pytest.mark.parametrize(
    ("one", "other", "published"),
    [
        ((19, 158), (9, 161), (2.15, 1.02, 4.55)),
        ((13, 128), (9, 161), (1.82, 0.82, 4.04)),
        ((19, 158), (13, 128), (1.18, 0.62, 2.29)),
    ],
)
def test_the_published_ratios_have_their_published_intervals(one, other, published):
    found = ratio(Rate(*one), Rate(*other))
    assert (found.value, found.low, found.high) == pytest.approx(published, abs=0.005)


@pytest.mark.parametrize(
    ("one", "other"),
    [((19, 158), (9, 161)), ((3, 20), (0, 30)), ((0, 20), (3, 30)), ((20, 20), (3, 30)),
     ((500, 5000), (300, 5000))],
)  # fmt: skip
def test_an_interval_is_that_of_statsmodels(one, other):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        low, high = confint_proportions_2indep(*one, *other, compare="ratio", method="score")
    found = ratio(Rate(*one), Rate(*other))
    assert (found.low, found.high) == pytest.approx((low.real, high.real), abs=1e-7)


@pytest.mark.parametrize(("one", "other"), [((0, 20), (0, 30)), ((0, 0), (3, 9)), ((3, 9), (0, 0))])
def test_nothing_by_nothing_says_nothing(one, other):
    found = ratio(Rate(*one), Rate(*other))
    assert (isnan(found.value), found.low, found.high) == (True, 0.0, inf)


def test_what_cannot_be_divided_by_is_infinitely_more():
    assert ratio(Rate(3, 20), Rate(0, 30)).value == inf


def test_calls_that_resemble_each_other_widen_the_interval():
    plain = ratio(Rate(19, 158), Rate(9, 161))
    alike = ratio(Rate(19, 158, 20, 80.0), Rate(9, 161, 21, 80.0))
    assert alike.low < plain.low < plain.value == alike.value < plain.high < alike.high


def test_clusters_that_are_worth_less_than_a_draw_still_have_an_interval():
    found = ratio(Rate(2, 2, 2, 0.05), Rate(1, 4, 1, 0.07))
    assert 0 <= found.low < 4 < found.high


def test_two_rates_of_one_can_still_differ():
    """There statsmodels gives complex numbers."""
    found = ratio(Rate(20, 20), Rate(30, 30))
    assert 0.8 < found.low < found.value == 1.0 < found.high < 1.2
