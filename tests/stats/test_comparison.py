"""Whether two models differ."""

from math import inf

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from agenteval.stats.comparison import compare, compare_paired, newcombe
from agenteval.stats.multiple import holm
from agenteval.stats.rates import Rate


def one_by_one(count, n):
    """Calls that each are a trial of their own."""
    return [(1, 1)] * count + [(0, 1)] * (n - count)


def test_single_calls_give_the_p_value_of_fishers_test_and_the_published_sample_size():
    difference = compare(one_by_one(19, 158), one_by_one(9, 161), seed=1)
    assert difference.p == pytest.approx(0.049, abs=0.01)
    assert difference.calls_needed == pytest.approx(304, abs=3)
    assert not difference.paired


def test_clustered_errors_settle_less_than_scattered_ones():
    scattered = compare([(1, 8)] * 16, [(0, 8)] * 16, seed=1)
    clumped = compare([(8, 8)] * 2 + [(0, 8)] * 14, [(0, 8)] * 16, seed=1)
    assert scattered.first.count == clumped.first.count
    assert scattered.p < 0.001
    assert clumped.p > 0.1


def test_errors_spread_more_evenly_than_chance_settle_nothing_more_than_single_calls_do():
    even = compare([(1, 8)] * 19 + [(0, 6)], [(1, 8)] * 9 + [(0, 7)] * 13, seed=1)
    single = compare(one_by_one(19, 158), one_by_one(9, 163), seed=1)
    assert even.p == pytest.approx(single.p, abs=0.01)


def test_newcombes_interval_is_the_published_one():
    """The case on which statsmodels' score interval is known to be wrong."""
    low, high = newcombe(Rate(56, 70), Rate(48, 80))
    assert (round(low, 4), round(high, 4)) == (0.0524, 0.3339)


def test_the_same_worlds_make_a_small_difference_visible():
    rng = np.random.default_rng(3)
    hard = rng.binomial(8, rng.beta(0.5, 2, 30))
    first = [(int(count), 10) for count in hard]
    second = [(int(count) + 1, 10) for count in hard]
    paired = compare_paired(list(zip(first, second, strict=True)), seed=1)
    assert paired.p < 0.001
    assert paired.paired
    assert paired.low < paired.value == pytest.approx(-0.1)
    assert compare(first, second, seed=1).p > 0.05


def test_equal_models_are_not_told_apart():
    same = [(1, 8), (0, 8), (2, 8)]
    for difference in (
        compare(same, same, seed=1),
        compare_paired(list(zip(same, same, strict=True)), seed=1),
    ):
        assert difference.p == 1.0
        assert difference.calls_needed == inf
        assert difference.low < 0 == difference.value < difference.high


def test_one_world_and_no_errors_still_give_an_interval():
    one = compare_paired([((2, 8), (0, 8))], seed=1)
    assert one.low < one.value < one.high
    none = compare([(0, 8)] * 5, [(0, 8), (0, 0)], seed=1)
    assert none.low < 0 < none.high


def test_a_model_that_made_no_calls_in_some_exchange_is_no_crash():
    assert compare_paired([((1, 4), (0, 0)), ((0, 0), (1, 4))], seed=1).p == 1.0


def test_a_seed_gives_the_same_p_again():
    first, second = [(1, 8), (0, 8), (3, 9)], [(0, 8), (1, 8)]
    assert compare(first, second, seed=5) == compare(first, second, seed=5)


@pytest.mark.parametrize("ps", [[], [0.2], [0.049, 0.181, 0.707], [0.04, 0.01, 0.03, 0.9]])
def test_holms_correction_is_that_of_statsmodels(ps):
    expected = multipletests(ps, method="holm")[1].tolist() if ps else []
    assert holm(ps) == pytest.approx(expected)


def test_equal_models_with_clustered_errors_are_rarely_told_apart():
    """Nominal 5 % over 200 repetitions: the standard error is 1.5 points."""
    rng = np.random.default_rng(11)
    rejected = 0
    for repetition in range(200):
        sides = [
            [(int(rng.binomial(8, rng.beta(0.5, 8.5))), 8) for _ in range(20)] for _ in range(2)
        ]
        rejected += compare(*sides, seed=repetition).p < 0.05
    assert 0.01 <= rejected / 200 <= 0.095
