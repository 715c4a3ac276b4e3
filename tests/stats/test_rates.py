"""Rates and their intervals."""

from math import isnan
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from agenteval.stats.comparison import compare_counts
from agenteval.stats.limits import RateTest, lower_bound, upper_bound
from agenteval.stats.rates import (
    Estimand,
    Layout,
    Mean,
    Rate,
    clustered,
    design_effect,
    per_trial,
    rate_of,
    t_quantile,
    wilson,
)

EXACTLY = 1e-9


@pytest.mark.parametrize(
    ("rate", "as_share", "as_errors"),
    [
        (Rate(19, 158), "12.0% [7.8, 18.0] n=158", "12.03 [7.8, 18.0] n=158"),
        (Rate(9, 161), "5.6% [3.0, 10.3] n=161", "5.59 [3.0, 10.3] n=161"),
        (Rate(13, 128), "10.2% [6.0, 16.6] n=128", "10.16 [6.0, 16.6] n=128"),
        (Rate(0, 158), "0.0% [0.0, 2.4] n=158", "0.00 [0.0, 2.4] n=158"),
        (Rate(0, 0), "- n=0", "- n=0"),
    ],
)
def test_the_published_rates_are_told_with_their_interval_and_n(rate, as_share, as_errors):
    assert (str(rate), rate.per_100()) == (as_share, as_errors)


@pytest.mark.parametrize(("count", "n"), [(0, 9), (1, 9), (4.5, 31.7), (9, 9), (3, 4000)])
def test_wilsons_interval_is_that_of_statsmodels_for_whole_and_other_n(count, n):
    assert wilson(count / n, n) == pytest.approx(
        proportion_confint(count, n, method="wilson"), abs=1e-12
    )


@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=40),
    st.floats(0.3, 40.0),
    st.floats(1e-9, 1 - 1e-9),
)
def test_an_interval_ends_at_none_and_at_all_exactly_and_holds_its_value(sizes, effect, rate):
    n = sum(sizes)
    none, every = [(0, size) for size in sizes], [(size, size) for size in sizes]
    assert wilson(0.0, n / effect)[0] == Rate(0, n, len(sizes), n / effect).low == 0.0
    assert wilson(1.0, n / effect)[1] == Rate(n, n, len(sizes), n / effect).high == 1.0
    assert clustered(none).low == per_trial(none).low == Mean(0, n, n / effect).low == 0.0
    assert clustered(every).high == 1.0
    assert lower_bound(RateTest(0, n), 0.05) == 0.0
    assert upper_bound(RateTest(n, n), 0.05) == 1.0
    low, high = wilson(rate, n / effect)
    assert low <= rate <= high


def test_a_difference_ends_where_none_and_all_differ_most():
    found = compare_counts(Rate(0, 9), Rate(9, 9))
    assert (found.low, found.ratio.low) == (-1.0, 0.0)
    assert compare_counts(Rate(9, 9), Rate(0, 9)).high == 1.0


def test_nothing_counted_says_nothing():
    assert isnan(Rate(0, 0).value)
    assert Rate(0, 0).interval == (0.0, 1.0)
    assert clustered([]) == clustered([(0, 0)]) == Rate(0, 0, clusters=0)


def test_independent_calls_have_a_design_effect_near_one_and_identical_ones_their_number():
    assert design_effect([(1, 10), (1, 10), (1, 10)]) == 0.0
    alike = [(10, 10)] * 50 + [(0, 10)] * 50
    assert design_effect(alike) == pytest.approx(10, rel=0.02)


def test_the_design_effect_is_that_of_a_mean_of_cluster_rates_when_sizes_are_equal():
    clusters = [(3, 8), (0, 8), (1, 8), (5, 8), (2, 8)]
    rates = np.array([count / size for count, size in clusters])
    independent = rates.mean() * (1 - rates.mean()) / 40
    assert design_effect(clusters) == pytest.approx(rates.var(ddof=1) / 5 / independent)


@pytest.mark.parametrize(
    "clusters",
    [[(0, 8)] * 20, [(8, 8)] * 20, [(1, 8)], [(0, 8)], [(1, 1)], [(0, 1)], [(2, 9), (2, 9)]],
)
def test_an_interval_never_has_width_zero_and_holds_its_rate(clusters):
    rate = clustered(clusters)
    assert 0 <= rate.low <= rate.value <= rate.high <= 1
    assert rate.high - rate.low > 0.01


def test_resemblance_within_trials_widens_and_never_narrows():
    alike, spread = [(8, 8)] * 2 + [(0, 8)] * 18, [(1, 8)] * 16 + [(0, 8)] * 4
    plain = Rate(16, 160)
    assert clustered(alike).high > clustered(spread).high == plain.high
    assert clustered(alike).effective < clustered(spread).effective == 160


def test_one_trial_is_treated_as_two_would_be():
    assert t_quantile(0) == t_quantile(1) == pytest.approx(12.706, abs=0.001)


def test_trials_without_a_call_are_no_clusters():
    assert clustered([(1, 8), (0, 0), (0, 8)]) == clustered([(1, 8), (0, 8)])


@pytest.mark.parametrize(("icc", "least"), [(0.0, 0.93), (0.1, 0.93), (0.3, 0.89)])
def test_intervals_cover_the_true_rate_of_simulated_clustered_calls(icc, least):
    """400 repetitions: the standard error of a coverage of 95 % is 1.1 points."""
    rng = np.random.default_rng(20260101)
    true, trials, covered, repetitions = 0.056, 20, 0, 400
    for _ in range(repetitions):
        sizes = rng.poisson(6.7, trials) + 1
        shape = (1 - icc) / icc if icc else None
        rates = rng.beta(true * shape, (1 - true) * shape, trials) if shape else true
        counts = rng.binomial(sizes, rates)
        rate = clustered(list(zip(counts.tolist(), sizes.tolist(), strict=True)))
        covered += rate.low <= true <= rate.high
    assert covered / repetitions >= least


def test_calls_of_which_no_trial_is_known_are_independent():
    assert rate_of([(10, 100), (9, 58)], by_trial=False) == Rate(19, 158)
    assert rate_of([(1, 8), (0, 8)], by_trial=True) == clustered([(1, 8), (0, 8)])


@st.composite
def runs(draw):
    """Trials of 5 to 400, alike in size or not, of some scenarios, and a place for an error."""
    trials = draw(st.one_of(st.integers(5, 30), st.integers(31, 400)))
    sizes = draw(st.sampled_from([(1,), (9,), (3, 5, 8, 12, 20), (2, 8), (100,)]))
    chance = Random(draw(st.integers(0, 1 << 32)))
    made = [chance.choice(sizes) for _ in range(trials)]
    scenarios = [f"s{at % draw(st.sampled_from([1, 3, 12]))}" for at in range(trials)]
    return made, Layout(draw(st.sampled_from(Estimand)), scenarios), chance


@given(runs())
@settings(max_examples=60, deadline=None)
def test_no_error_is_never_told_as_surely_as_one_or_more(run):
    """The upper bound rises with each of four errors, wherever they are, beyond that of none."""
    sizes, layout, chance = run
    errors, none = [0] * len(sizes), clustered([(0, size) for size in sizes], layout)
    for number in range(4):
        if not (free := [at for at, size in enumerate(sizes) if errors[at] < size][: 9 + number]):
            return
        errors[chance.choice(free)] += 1
        some = clustered([*zip(errors, sizes, strict=True)], layout)
        left = clustered([(n - k, n) for k, n in zip(errors, sizes, strict=True)], layout)
        assert some.high > none.high
        assert number or some.high - some.low >= none.high - none.low - EXACTLY
        assert (left.low, left.high) == pytest.approx((1 - some.high, 1 - some.low))


@given(st.integers(5, 400), st.sampled_from([1, 5, 9, 15]))
@settings(max_examples=40, deadline=None)
def test_errors_of_a_trial_each_never_lower_a_bound(trials, calls):
    told = [
        clustered([(1, calls)] * n + [(0, calls)] * (trials - n)).interval
        for n in range(5 if trials < 20 else 13)
    ]
    assert told == sorted(told)
    assert [high for _, high in told] == sorted(high for _, high in told)
