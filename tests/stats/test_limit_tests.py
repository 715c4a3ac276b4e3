"""Tests against a limit, and their bounds."""

from itertools import pairwise
from math import inf, sqrt
from statistics import variance

import pytest
from dense_variance import dense
from scipy.stats import binom, norm, t
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from agenteval.stats.cluster_variance import LEAST_DF
from agenteval.stats.limit_tests import (
    MOST,
    Comparison,
    RateTest,
    comparison,
    rate_test,
)
from agenteval.stats.promotion import lower_bound, upper_bound


@pytest.mark.parametrize(("count", "n"), [(0, 20), (1, 473), (7, 60), (20, 20)])
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
    assert (test.estimate, upper_bound(test, 0.05)) == (inf, pytest.approx(MOST))
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
    assert single.nearness(limit) == pytest.approx(score, abs=1e-6)
    assert double.nearness(limit) == pytest.approx(score / sqrt(2), abs=1e-6)
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
    assert test.nearness(limit) == pytest.approx(score, abs=1e-6)
    assert Comparison(ours, theirs, 1.7, 50, ratio=True).nearness(limit) == pytest.approx(
        score / sqrt(1.7), abs=1e-6
    )


def test_where_nothing_can_vary_a_gap_is_without_end():
    none, all_of_them = (Comparison((0, 10), (count, 10), 1.0, 9, ratio=False) for count in (0, 10))
    assert [none.nearness(limit) for limit in (0.0, -1.0, 1.0)] == [0.0, inf, -inf]
    assert all_of_them.nearness(1.0) == 0.0


def test_a_rate_is_so_many_standard_errors_from_its_limit():
    test = RateTest(9, 100)
    assert test.nearness(0.05) == pytest.approx(4 / sqrt(100 * 0.05 * 0.95))
    assert [test.nearness(limit) for limit in (0.0, 1.0)] == [0.0, 0.0]
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
    nearer = test.nearer(limit)
    assert nearer.candidate == pytest.approx((count, 120))
    assert (nearer.baseline, nearer.effect, nearer.df, nearer.ratio) == ((4, 100), 1.5, 50, ratio)


def test_of_a_rate_too():
    nearer = RateTest(9, 120).nearer(0.05)
    assert (nearer.count, nearer.n, nearer.estimate) == pytest.approx((7.5, 120, 0.0625))


@pytest.mark.parametrize(("ratio", "ends"), [(False, (-1.0, 1.0)), (True, (0.0, MOST))])
def test_so_many_times_as_many_trials_have_so_many_times_the_freedom(ratio, ends):
    test = Comparison((4, 100), (9, 120), 1.5, 50, ratio)
    more = test.scaled(3)
    assert more == Comparison((12, 300), (27, 360), 1.5, 150, ratio)
    assert RateTest(9, 120).scaled(3) == RateTest(27, 360)
    assert test.ends == more.ends == ends
    assert test.estimate == pytest.approx(0.075 / 0.04 if ratio else 0.035)


def test_a_ratio_to_none_is_without_end():
    assert Comparison((0, 100), (9, 120), 1.0, 50, ratio=True).estimate == inf


def widened(effect, bearing):
    """As `stats.rates` widens it, which has tests of its own."""
    return 1 + max(effect - 1, 0) * (1 + 2 / bearing)


@pytest.mark.parametrize(
    ("clusters", "strata", "df"),
    [
        ([(2, 8), (0, 8), (1, 8), (0, 0)], [], 2),  # a cluster of nothing is none
        ([(5, 8), (0, 5), (1, 9), (2, 4), (1, 8), (0, 9)], [], 5),
        ([(5, 8), (0, 5), (1, 9), (2, 4), (1, 8), (0, 9)], [0, 0, 0, 1, 1, 1], 4),
    ],
)
def test_a_rate_stands_on_what_the_design_effect_leaves_on_students_t(clusters, strata, df):
    used = [one for one in clusters if one[1]]
    count, n = (sum(of) for of in zip(*used, strict=True))
    around = [errors - count / n * size for errors, size in used]
    parts = {}
    for at, value in enumerate(around):
        parts.setdefault(strata[at] if strata else 0, []).append(value)
    share, squares = dense([([size for _, size in used], 1.0)], strata or [0] * len(used), 0.1)
    seen = sum(len(of) * variance(of) for of in parts.values()) / (count * (1 - count / n)) / share
    df = min(df, max(squares, LEAST_DF))
    bearing = max(sum(errors > 0 for errors, _ in used), 3)
    effect = widened(seen * (t.ppf(0.975, df) / norm.ppf(0.975)) ** 2, bearing)
    whole = rate_test(clusters, strata, icc=0.1).whole
    assert (whole.count, whole.n) == pytest.approx((count / effect, n / effect))


@pytest.mark.parametrize("clusters", [[(4, 10)], [(0, 10), (0, 4)], [(10, 10), (4, 4)]])
def test_what_shows_no_resemblance_is_taken_to_have_the_planned_one(clusters):
    count, n = (sum(of) for of in zip(*clusters, strict=True))
    planned = 1 + 0.1 * (sum(size * size for _, size in clusters) / n - 1)
    effect = planned * (t.ppf(0.975, 1) / norm.ppf(0.975)) ** 2
    whole = rate_test(clusters, icc=0.1).whole
    assert (whole.count, whole.n) == pytest.approx((count / effect, n / effect))


def test_single_calls_are_independent():
    assert rate_test([(1, 1), (0, 1), (0, 0), (1, 1)], icc=0.1) == RateTest(2, 3)


def differences(groups, limit, *, ratio):
    """What each group adds to the figure at the limit, beside what the two rates expect."""
    (y, x), (m, n) = (
        [sum(group[side][at] for group in groups) for side in (0, 1)] for at in (0, 1)
    )
    scale = (limit if ratio else 1.0) * n / m
    return [
        (one[0] - x / n * one[1]) - scale * (other[0] - y / m * other[1]) for other, one in groups
    ], (x / n, n, y / m, m)


@pytest.mark.parametrize(("ratio", "limit"), [(False, 0.03), (True, 1.5)])
def test_a_comparison_spreads_as_its_groups_differ(ratio, limit):
    groups = [((1, 8), (3, 8)), ((0, 5), (0, 9)), ((4, 9), (2, 7)), ((0, 6), (5, 8))]
    groups += [((1, 7), (0, 8)), ((2, 8), (6, 9)), ((1, 6), (0, 8)), ((0, 0), (0, 0))]
    around, (rate, n, before, of) = differences(groups[:-1], limit, ratio=ratio)
    weight = limit if ratio else 1.0
    expected = rate * (1 - rate) / n + weight**2 * before * (1 - before) / of
    sizes = ([one[1] for one, _ in groups[:-1]], [other[1] for _, other in groups[:-1]])
    share, df = dense([(sizes[0], weight * n / of), (sizes[1], 1.0)], [0] * 7, 0.1)
    seen = len(around) * variance(around) / n**2 / expected / share
    effect = widened(seen, 6)  # one has no error
    whole = comparison(groups, limit=limit, ratio=ratio, icc=0.1).whole
    assert effect > 1
    assert (whole.effect, whole.df, whole.ratio) == (
        pytest.approx(effect),
        pytest.approx(df),
        ratio,
    )
    assert (whole.baseline, whole.candidate) == ((9, 49), (16, 57))


@pytest.mark.parametrize(
    ("groups", "strata", "df"),
    [
        ([((1, 8), (3, 8)), ((1, 8), (0, 8)), ((2, 8), (0, 8))], (), 2),
        ([((1, 8), (3, 8)), ((1, 8), (0, 0)), ((2, 8), (0, 8))], (), 1),
        ([((1, 8), (3, 8)), ((1, 8), (0, 0)), ((2, 8), (0, 8)), ((0, 8), (1, 8))], (), 2),
        ([((1, 8), (3, 8)), ((1, 8), (0, 0)), ((2, 8), (0, 8)), ((0, 8), (1, 8))], "aabb", 2),
        ([((1, 8), (3, 8)), ((1, 8), (0, 0))], (), 1),  # at least one
    ],
)
def test_two_means_have_a_degree_less_than_their_difference(groups, strata, df):
    """Where some groups have one side alone; strata are as good as two runs then."""
    assert comparison(groups, strata, limit=0.03, ratio=False, icc=0.1).whole.df == df


UNEVEN = [((1, 8), (6, 8)), ((0, 5), (0, 9)), ((4, 9), (1, 7)), ((0, 6), (1, 8)), ((0, 6), (1, 8))]


@pytest.mark.parametrize("ratio", [False, True])
def test_a_guarded_test_takes_the_worst_of_all(ratio):
    test = comparison(UNEVEN, limit=0.03 + 1.2 * ratio, ratio=ratio, icc=0.1)
    wider, narrower = ([one.effect for one in of] for of in (test.weaker, test.lighter()))
    assert (len(wider) > 0, len(narrower) > 0, test.lighter() is test.lighter()) == (True,) * 3
    assert all(one < other for one, other in pairwise([test.whole.effect, *wider]))
    assert all(one > other for one, other in pairwise([test.whole.effect, *narrower]))
    assert 1 not in narrower[:-1]
    for limit in (0.01, 0.05, 0.3, 0.9, 1.6):
        alone = test.whole.above(limit)
        least = min(alone, *(one.above(limit) for one in test.lighter()))
        assert test.below(limit) == max(one.below(limit) for one in (test.whole, *test.weaker))
        assert test.above(limit) == (alone if alone > 0.5 else least)


def test_a_guarded_rate_is_the_worst_of_those_that_can_be():
    test = rate_test([(9, 10), (0, 9), (8, 12), (0, 4), (1, 8), (0, 9), (2, 10)], icc=0.1)
    assert (len(test.weaker) > 0, len(test.lighter()) > 0) == (True, True)
    for limit in (0.05, 0.2, 0.3, 0.5, 0.8):
        alone = test.whole.above(limit)
        least = min(alone, *(one.above(limit) for one in test.lighter()))
        assert test.below(limit) == max(one.below(limit) for one in (test.whole, *test.weaker))
        assert test.above(limit) == (alone if alone > 0.5 else least)
    nearer, more = test.nearer(0.5), test.scaled(3)
    assert nearer.whole == test.whole.nearer(0.5)
    assert more.weaker == [one.scaled(3) for one in test.weaker]
    assert more.lighter() == [one.scaled(3) for one in test.lighter()]


def test_each_group_has_its_stratum():
    with pytest.raises(ValueError, match="shorter"):
        comparison(UNEVEN, [0, 0], limit=0.03, ratio=False, icc=0.1)
    with pytest.raises(ValueError, match="shorter"):
        rate_test([one for one, _ in UNEVEN], [0, 0], icc=0.1)


def test_what_is_seen_more_often_than_not_shows_nothing_whatever_fewer_errors_would():
    test = rate_test([(3, 8), (4, 8)], icc=0.1)
    assert min(one.above(0.2) for one in test.lighter()) < 0.1
    assert test.above(0.2) == test.whole.above(0.2) == pytest.approx(0.621, abs=0.001)
