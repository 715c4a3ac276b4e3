"""Whether two models differ."""

from math import inf

import numpy as np
import pytest

from agenteval.stats.comparison import (
    compare,
    compare_all,
    compare_counts,
    compare_means,
    compare_paired,
    compare_shares,
    newcombe,
)
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


def test_a_single_error_settles_nothing_however_few_calls_the_model_makes():
    """A model of few calls would stand out by its calls, were they swapped with its errors."""
    few = [(1, 9), *[(0, 9)] * 19]
    many = [(0, 12)] * 20
    assert compare_paired(list(zip(few, many, strict=True)), seed=1).p > 0.9
    assert compare(few, many, seed=1).p > 0.4


def test_equal_rates_in_worlds_of_unequal_calls_are_rarely_told_apart():
    """Nominal 5 % over 300 repetitions: the standard error is 1.3 points."""
    rng, rejected = np.random.default_rng(4), 0
    for repetition in range(300):
        hard = rng.beta(0.6, 9.4, 40)
        sides = [[(int(rng.binomial(calls, rate)), calls) for rate in hard] for calls in (6, 11)]
        rejected += compare_paired(list(zip(*sides, strict=True)), seed=repetition).p < 0.05
    assert 0.01 <= rejected / 300 <= 0.09


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


def test_figures_under_the_same_exchanges_are_those_of_each_alone():
    first = [[(1, 8), (0, 8), (3, 9)], [(1, 1), (0, 1), (1, 1)]]
    second = [[(0, 8), (1, 8), (1, 9)], [(0, 1), (0, 1), (1, 1)]]
    for paired in (True, False):
        together = compare_all(first, second, seed=5, paired=paired)
        alone = [
            compare_all([one], [other], seed=5, paired=paired)[0]
            for one, other in zip(first, second, strict=True)
        ]
        assert together == alone


def test_counts_that_show_no_trials_are_compared_by_fishers_test():
    difference = compare_counts(Rate(19, 158), Rate(9, 161))
    assert difference.p == pytest.approx(0.049, abs=0.0005)
    assert difference.calls_needed == 304
    assert difference.ratio.value == pytest.approx(2.15, abs=0.005)
    assert (difference.low, difference.high) == newcombe(Rate(19, 158), Rate(9, 161))


def test_shares_of_trials_are_compared_by_mcnemars_test_in_the_same_worlds_and_else_by_fishers():
    first, second = [True] * 9 + [False], [True] * 3 + [False] * 7
    paired, apart = (compare_shares(first, second, paired=paired) for paired in (True, False))
    assert paired.p == pytest.approx(2 / 2**6)
    assert apart.p == pytest.approx(0.0198, abs=0.0005)
    assert (paired.paired, apart.paired) == (True, False)
    assert (paired.value, apart.value) == pytest.approx((0.6, 0.6))
    assert paired.low < 0.6 < paired.high


def test_errors_per_trial_are_compared_whatever_their_calls():
    first, second = [(3, 20)] * 12, [(1, 2)] * 12
    for paired in (True, False):
        difference = compare_means(first, second, seed=1, paired=paired)
        assert (difference.value, difference.paired) == (2.0, paired)
        assert 0 < difference.low < 2 < difference.high
        assert difference.p < 0.01


def test_pairs_that_resemble_each_other_need_fewer_calls():
    rng = np.random.default_rng(3)
    hard = rng.binomial(8, rng.beta(0.5, 2, 30))
    first, second = ([(int(count) + more, 10) for count in hard] for more in (0, 1))
    paired = compare_paired(list(zip(first, second, strict=True)), seed=1)
    assert paired.calls_needed < compare(first, second, seed=1).calls_needed


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


@pytest.mark.parametrize(("worlds", "p"), [(1, 1.0), (2, 0.5), (3, 0.25), (5, 0.0625)])
def test_worlds_in_which_nobody_erred_make_no_difference_significant(worlds, p) -> None:
    """As an exact sign test has it, though an erring trial is longer than the others."""
    pairs = [((0, 7), (1, 10) if number < worlds else (0, 7)) for number in range(64)]

    assert compare_paired(pairs, seed=1).p == pytest.approx(p, abs=0.02)


def test_to_count_what_did_not_happen_gives_the_same_p() -> None:
    pairs = [((3, 4), (1, 3)), ((2, 2), (0, 0)), ((0, 5), (0, 1)), ((4, 6), (2, 5))] * 6
    others = [((n - e, n), (m - f, m)) for (e, n), (f, m) in pairs]

    assert compare_paired(pairs, seed=1).p == compare_paired(others, seed=1).p
