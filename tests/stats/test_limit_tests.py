"""Tests against a limit, and their bounds."""

from math import inf, sqrt

import pytest
from scipy.stats import binom, t
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from agenteval.stats.limits import (
    MAX_RATIO,
    Comparison,
    RateTest,
    comparison,
    lower_bound,
    rate_test,
    upper_bound,
)


@pytest.mark.parametrize(("count", "n"), [(0, 20), (1, 5), (1, 473), (7, 60), (20, 20), (399, 400)])
def test_the_bounds_of_a_rate_are_the_exact_ones(count, n):
    low, high = proportion_confint(count, n, alpha=0.1, method="beta")
    test = rate_test([(1, 1)] * count + [(0, 1)] * (n - count), icc=0.1)
    assert (lower_bound(test, 0.05), upper_bound(test, 0.05)) == pytest.approx(
        (low if count else 0, high if count < n else 1), abs=1e-9
    )


@pytest.mark.parametrize(("count", "calls"), [(0, 299), (1, 473)])
def test_so_many_calls_prove_a_rate_below_one_percent(count, calls):
    test, before = RateTest(count, calls), RateTest(count, calls - 1)
    assert (test.below(0.01) < 0.05, before.below(0.01) < 0.05) == (True, False)


def test_the_chances_are_those_of_the_binomial():
    test = RateTest(4, 50)
    assert (test.below(0.15), test.above(0.15)) == pytest.approx(
        (binom.cdf(4, 50, 0.15), binom.sf(3, 50, 0.15))
    )


def test_a_planned_design_effect_of_two_needs_twice_the_calls():
    """And a little more, as it is planned over 55 trials and not over a crowd."""
    test = rate_test([(0, 11)] * 55, icc=0.1)
    assert RateTest(0, 285).below(0.01) > test.below(0.01) > RateTest(0, 605 / 2).below(0.01)


def test_nothing_lies_below_none_and_all_below_one():
    test = rate_test([(2, 8), (0, 8), (1, 8)], icc=0.1)
    assert (test.below(0.0), test.below(1.0), test.above(0.0)) == (1.0, 0.0, 0.0)


def single(count, n, others, of, *, limit=0.0, ratio=False):
    """Calls that each are a group of their own."""
    ours = [((1, 1), (0, 0))] * others + [((0, 1), (0, 0))] * (of - others)
    theirs = [((0, 0), (1, 1))] * count + [((0, 0), (0, 1))] * (n - count)
    return comparison([*ours, *theirs], limit=limit, ratio=ratio, icc=0.1)


def test_the_bounds_of_a_difference_are_near_those_of_another_score_test():
    """The case on which statsmodels' score interval is known to be wrong: .0528 to .3382."""
    test = single(56, 70, 48, 80)
    assert (test.estimate, lower_bound(test, 0.025), upper_bound(test, 0.025)) == pytest.approx(
        (0.2, 0.0528, 0.3382), abs=0.006
    )


def test_the_bounds_of_a_ratio_are_near_those_of_statsmodels():
    test = single(24, 160, 12, 161, limit=1.5, ratio=True)
    low, high = confint_proportions_2indep(24, 160, 12, 161, compare="ratio", alpha=0.1)
    assert (lower_bound(test, 0.05), upper_bound(test, 0.05)) == pytest.approx(
        (low, high), rel=0.04
    )


def paired(ours, theirs, size=8):
    return [((one, size), (other, size)) for one, other in zip(ours, theirs, strict=True)]


def test_the_same_hard_worlds_make_a_difference_surer_than_strangers_do():
    ours, theirs = [0, 0, 4, 0, 6, 0, 1, 0] * 4, [0, 1, 4, 0, 6, 0, 1, 0] * 4
    met = comparison(paired(ours, theirs), limit=0.03, ratio=False, icc=0.1)
    apart = comparison(
        [((one, 8), (0, 0)) for one in ours] + [((0, 0), (other, 8)) for other in theirs],
        limit=0.03,
        ratio=False,
        icc=0.1,
    )
    assert (met.estimate, met.whole.df, apart.whole.df) == (
        apart.estimate,
        31,
        pytest.approx(62),
    )
    assert upper_bound(met, 0.05) < upper_bound(apart, 0.05)


@pytest.mark.parametrize("ratio", [False, True])
def test_no_errors_at_all_prove_nothing_beyond_their_number(ratio):
    limit = 1.5 if ratio else 0.03
    few, many = (
        comparison(paired([0] * trials, [0] * trials), limit=limit, ratio=ratio, icc=0.1)
        for trials in (10, 100)
    )
    proven = [test.below(limit) < 0.05 for test in (few, many)]
    assert (proven, few.whole.effect) == ([False, not ratio], pytest.approx(1.7))


def test_a_ratio_to_no_errors_has_no_bound():
    test = single(5, 100, 0, 100, limit=2.0, ratio=True)
    assert (test.estimate, upper_bound(test, 0.05)) == (inf, pytest.approx(MAX_RATIO))
    assert lower_bound(test, 0.05) > 1


def test_one_group_is_treated_as_planned_and_not_as_certain():
    test = comparison([((1, 50), (9, 50))], limit=0.03, ratio=False, icc=0.1)
    assert (test.whole.df, test.whole.effect > 5, test.above(0.03) > 0.05) == (1, True, True)


@pytest.mark.parametrize("limit", [-1.0, 1.0])
def test_at_the_ends_of_the_scale_nothing_is_left_to_chance(limit):
    assert single(2, 10, 2, 10).above(limit) == (limit > 0)


def test_more_of_the_same_is_surer():
    test = comparison(paired([1, 0, 2, 0], [1, 1, 0, 0]), limit=0.1, ratio=False, icc=0.1)
    assert test.scaled(10).below(0.1) < test.below(0.1)
    assert test.scaled(10).estimate == test.estimate


@pytest.mark.parametrize(
    ("theirs", "ours", "limit", "score"),
    [
        ((9, 120), (4, 100), 0.03, 0.160458),
        ((9, 120), (4, 100), -0.02, 1.699902),
        ((9, 120), (4, 100), 0.4, -8.161648),  # no rate of the baseline's is below 0
        ((9, 120), (4, 100), -0.5, 10.7),  # or below what the limit takes off
        ((118, 120), (99, 100), 0.1, -3.555556),  # or above 1 less the limit
        ((118, 120), (99, 100), -0.1, 3.408051),  # or above 1
    ],
)
def test_a_difference_is_scored_at_the_common_rate_under_the_limit(theirs, ours, limit, score):
    """By hand: Dunnett and Gent's rate, and the variance that it gives."""
    single, double = (Comparison(ours, theirs, effect, 50, ratio=False) for effect in (1.0, 2.0))
    assert single.z_score(limit) == pytest.approx(score, abs=1e-6)
    assert double.z_score(limit) == pytest.approx(score / sqrt(2), abs=1e-6)
    assert single.above(limit) == pytest.approx(t.sf(score, 50), abs=1e-6)
    assert single.below(limit) == pytest.approx(t.cdf(score, 50), abs=1e-6)


@pytest.mark.parametrize(
    ("theirs", "ours", "limit", "score"),
    [
        ((9, 120), (4, 100), 1.5, 0.382723),
        ((9, 120), (4, 100), 0.5, 2.432082),
        ((110, 120), (90, 100), 1.5, -6.128259),  # as often as the limit allows: at most always
        ((119, 120), (100, 100), 0.5, 10.771877),
    ],
)
def test_a_ratio_is_scored_at_the_common_rate_under_the_limit(theirs, ours, limit, score):
    test = Comparison(ours, theirs, 1.0, 50, ratio=True)
    assert test.z_score(limit) == pytest.approx(score, abs=1e-6)
    assert Comparison(ours, theirs, 1.7, 50, ratio=True).z_score(limit) == pytest.approx(
        score / sqrt(1.7), abs=1e-6
    )


def test_where_nothing_can_vary_a_gap_is_without_end():
    none, all_of_them = (Comparison((0, 10), (count, 10), 1.0, 9, ratio=False) for count in (0, 10))
    assert [none.z_score(limit) for limit in (0.0, -1.0, 1.0)] == [0.0, inf, -inf]
    assert all_of_them.z_score(1.0) == 0.0


def test_a_rate_is_so_many_standard_errors_from_its_limit():
    test = RateTest(9, 100)
    assert test.z_score(0.05) == pytest.approx(4 / sqrt(100 * 0.05 * 0.95))
    assert [test.z_score(limit) for limit in (0.0, 1.0)] == [0.0, 0.0]
    assert [RateTest(count, 100).slack for count in (5, 6)] == [inf, 1.0]
    assert Comparison((0, 9), (1, 9), 1.0, 8, ratio=True).slack == 0


def test_a_rate_ends_at_none_and_at_all():
    none, all_of_them = RateTest(0, 9), RateTest(9, 9)
    assert (none.above(0.3), all_of_them.below(0.3), none.ends) == (1.0, 1.0, (0.0, 1.0))
    assert (none.below(0.3), all_of_them.above(0.3)) == pytest.approx((0.7**9, 0.3**9))
    assert all_of_them.above(0.0) == none.below(1.0) == 0.0
    assert RateTest(0.5, 9).above(0.3) < 1.0
    assert RateTest(8.5, 9).below(0.3) < 1.0


@pytest.mark.parametrize(
    ("ratio", "limit", "count"),
    [
        (False, 0.05, (9 + 10.8) / 2),
        (False, -0.5, 9 / 2),  # a rate is at least nothing
        (False, 0.99, (9 + 120) / 2),  # and at most all
        (True, 1.5, (9 + 7.2) / 2),
        (True, 90.0, (9 + 120) / 2),
        (True, 0.0, 9 / 2),
    ],
)
def test_half_as_far_from_the_limit_is_between_what_was_seen_and_the_limit(ratio, limit, count):
    test = Comparison((4, 100), (9, 120), 1.5, 50, ratio)
    halfway_to = test.halfway_to(limit)
    assert halfway_to.candidate == pytest.approx((count, 120))
    assert (halfway_to.baseline, halfway_to.effect, halfway_to.df, halfway_to.ratio) == (
        (4, 100),
        1.5,
        50,
        ratio,
    )


def test_of_a_rate_too():
    halfway_to = RateTest(9, 120).halfway_to(0.05)
    assert (halfway_to.count, halfway_to.n, halfway_to.estimate) == pytest.approx(
        (7.5, 120, 0.0625)
    )


@pytest.mark.parametrize(("ratio", "ends"), [(False, (-1.0, 1.0)), (True, (0.0, MAX_RATIO))])
def test_so_many_times_as_many_trials_have_so_many_times_the_freedom(ratio, ends):
    test = Comparison((4, 100), (9, 120), 1.5, 50, ratio)
    more = test.scaled(3)
    assert more == Comparison((12, 300), (27, 360), 1.5, 150, ratio)
    assert RateTest(9, 120).scaled(3) == RateTest(27, 360)
    assert test.ends == more.ends == ends
    assert test.estimate == pytest.approx(0.075 / 0.04 if ratio else 0.035)


def test_a_ratio_to_none_is_without_end():
    assert Comparison((0, 100), (9, 120), 1.0, 50, ratio=True).estimate == inf
