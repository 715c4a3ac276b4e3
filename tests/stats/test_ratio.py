"""The score interval of a ratio, with statsmodels as oracle."""

import warnings
from math import inf, isnan

import numpy as np
import pytest
from statsmodels.stats.proportion import confint_proportions_2indep

from agenteval.stats.comparison import compare, compare_all, compare_counts
from agenteval.stats.rates import Rate
from agenteval.stats.score import Evidence, ratio

RUNS = 200


@pytest.mark.parametrize(
    ("one", "other", "published"),
    [
        ((19, 158), (9, 161), (2.15, 1.02, 4.55)),
        ((13, 128), (9, 161), (1.82, 0.82, 4.04)),
        ((19, 158), (13, 128), (1.18, 0.62, 2.29)),
    ],
)
def test_the_published_ratios_have_their_published_intervals(one, other, published):
    found = compare_counts(Rate(*one), Rate(*other)).ratio
    assert (found.value, found.low, found.high) == pytest.approx(published, abs=0.005)


@pytest.mark.parametrize(
    ("one", "other"),
    [((19, 158), (9, 161)), ((6, 20), (0, 30)), ((0, 20), (6, 30)), ((20, 20), (3, 30)),
     ((500, 5000), (300, 5000))],
)  # fmt: skip
def test_an_interval_is_that_of_statsmodels(one, other):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        low, high = confint_proportions_2indep(*one, *other, compare="ratio", method="score")
    found = compare_counts(Rate(*one), Rate(*other)).ratio
    assert (found.low, found.high) == pytest.approx((low.real, high.real), abs=1e-7)


def test_nothing_by_nothing_says_nothing():
    found = compare_counts(Rate(0, 20), Rate(0, 30)).ratio
    assert (isnan(found.value), found.low, found.high) == (True, 0.0, inf)


def test_what_cannot_be_divided_by_is_infinitely_more():
    assert compare_counts(Rate(6, 20), Rate(0, 30)).ratio.value == inf


def test_calls_that_resemble_each_other_widen_the_interval():
    plain = compare_counts(Rate(16, 160), Rate(8, 160)).ratio
    alike = compare([(4, 8)] * 4 + [(0, 8)] * 16, [(4, 8)] * 2 + [(0, 8)] * 18, seed=1).ratio
    assert alike.low < plain.low < plain.value == alike.value < plain.high < alike.high


def test_two_rates_of_one_can_still_differ():
    """There statsmodels gives complex numbers."""
    found = compare_counts(Rate(20, 20), Rate(30, 30)).ratio
    assert 0.8 < found.low < found.value == 1.0 < found.high < 1.2


@pytest.mark.parametrize("shift", [-0.15, -0.11, -0.05, 0.0, 0.05])
def test_either_of_two_models_may_be_divided_by_the_other(shift):
    one, other = Rate(3, 40), Rate(16, 37)
    there = ratio(one, other, Evidence(0.01, 2.2, 1.0, 1.0, shift))
    back = ratio(other, one, Evidence(0.01, 2.2, 1.0, 1.0, -shift))
    assert (back.low, back.high) == pytest.approx((1 / there.high, 1 / there.low), rel=1e-6)


def test_a_shift_by_the_sizes_of_trials_leaves_room_on_both_sides_of_a_ratio():
    found = ratio(Rate(3, 40), Rate(16, 37), Evidence(0.01, 2.2, 1.0, 1.0, -0.11))
    assert found.low < 0.9 * found.value < found.value / 0.9 < found.high < 1


@pytest.mark.parametrize(("first", "second"), [(0.1, 0.4), (0.4, 0.1)])
def test_intervals_hold_the_truth_where_few_calls_of_unequal_trials_are_counted(first, second):
    """A call or two in a world, and in many none at all: what follows a denial is such a figure."""
    drawn = np.random.default_rng(7)
    held = np.zeros(2)
    for seed in range(RUNS):
        sizes = drawn.poisson(0.9, (2, 40)) * drawn.integers(1, 4, (2, 40))
        counts = drawn.binomial(sizes, [[first], [second]])
        one, other = (
            list(zip(*of, strict=True)) for of in zip(counts.tolist(), sizes.tolist(), strict=True)
        )
        (found,) = compare_all([one], [other], seed=seed, paired=True, exchanges=199)
        held += [
            found.low <= first - second <= found.high,
            found.ratio.low <= first / second <= found.ratio.high,
        ]
    assert min(held) / RUNS > 0.91  # it was 0.84 of the difference, and 0.71 of the ratio
