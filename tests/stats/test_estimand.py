"""What an interval is about, against truths that are drawn here."""

from math import sqrt

import numpy as np
import pytest
from scipy.stats import t as student

from agenteval.stats.comparison import compare_all, compare_means, compare_shares, gap
from agenteval.stats.limits import comparison, lower_bound, upper_bound
from agenteval.stats.rates import (
    Estimand,
    Layout,
    clustered,
    met_strata,
    per_trial,
    share_of,
    strata,
    summed,
    verdict_about,
)

THESE, LIKE = Estimand.THESE, Estimand.LIKE


def test_scenarios_that_are_played_once_share_a_stratum():
    assert strata(["a", "b", "a", "c"]) == [1, 0, 1, 0]


def test_two_runs_have_the_strata_that_both_played_twice():
    assert met_strata(["a", "a", "b"], ["b", "a", "a", "b"]) == ([1, 1, 0], [0, 1, 1, 0])


def test_trials_are_added_up_by_the_names_of_their_scenarios():
    assert summed([(1, 2), (0, 3), (2, 2)], ["b", "a", "b"]) == [(0, 3), (3, 4)]


def test_where_scenarios_are_not_known_each_trial_is_a_draw():
    clusters = [(1, 8), (0, 5), (2, 9), (0, 0)]
    assert clustered(clusters, Layout(LIKE, ("",) * 4)) == clustered(clusters)


def test_the_interval_about_these_scenarios_is_that_of_a_stratified_sample():
    """Of many trials with many errors nothing but the strata is left to tell the two apart."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(30, 50, (4, 40))
    errors = rng.binomial(sizes, np.array([0.1, 0.3, 0.5, 0.7])[:, None])
    rate = errors.sum() / sizes.sum()
    around = (errors - rate * sizes) / sizes.sum()
    variance = 40 * around.var(axis=1, ddof=1).sum()
    clusters = list(zip(errors.ravel().tolist(), sizes.ravel().tolist(), strict=True))
    found = clustered(clusters, Layout(THESE, [f"s{at // 40}" for at in range(160)]))
    reach = student.ppf(0.975, 156) * sqrt(variance)
    assert found.high - found.low == pytest.approx(2 * reach, rel=0.02)


def test_scenarios_that_never_vary_leave_an_interval_with_a_width():
    layout = Layout(THESE, ["a", "a", "b", "b"])
    found = clustered([(0, 5), (0, 5), (5, 5), (5, 5)], layout)
    assert found.low < 0.4
    assert found.high > 0.6


def test_shares_of_trials_are_clustered_by_scenario_alone():
    did, names = [True] * 10 + [False] * 10, ["a"] * 10 + ["b"] * 10
    these, like = (share_of(did, Layout(about, names)) for about in (THESE, LIKE))
    assert (these.effective, like.clusters) == (None, 2)
    assert like.low < these.low < these.high < like.high


def test_errors_per_trial_are_laid_out_too():
    clusters = [(0, 8)] * 10 + [(4, 8)] * 9 + [(5, 8)]
    names = ["a"] * 10 + ["b"] * 10
    alone, these, like = (
        per_trial(clusters, Layout(about, of))
        for about, of in ((THESE, ()), (THESE, names), (LIKE, names))
    )
    assert like.low < alone.low < these.low < these.high < alone.high < like.high


def test_the_difference_of_two_rates_of_a_run_is_laid_out_too():
    first, second = [(4, 8)] * 5 + [(0, 8)] * 4 + [(1, 8)], [(1, 8)] * 10
    names = ["a"] * 5 + ["b"] * 5
    alone, these, like = (
        gap(first, second, Layout(about, of))
        for about, of in ((THESE, ()), (THESE, names), (LIKE, names))
    )
    assert like[1] < alone[1] < these[1] < these[2] < alone[2] < like[2]


def drawn(rng, scenarios, trials, *, rates, within=0.05):
    """Errors and calls of each trial, whose own rate is beta around that of its scenario."""
    sizes = rng.integers(3, 13, (scenarios, trials))
    spread = (1 - within) / within
    own = rng.beta(rates[:, None] * spread, (1 - rates[:, None]) * spread, sizes.shape)
    errors = rng.binomial(sizes, own)
    return list(zip(errors.ravel().tolist(), sizes.ravel().tolist(), strict=True))


def beta(rng, mean, icc, size=None):
    spread = (1 - icc) / icc
    mean = np.clip(mean, 1e-6, 1 - 1e-6)
    return rng.beta(mean * spread, (1 - mean) * spread, size)


@pytest.mark.parametrize(("scenarios", "trials"), [(9, 10), (10, 10), (36, 5)])
def test_each_interval_covers_what_it_is_about(scenarios, trials):
    """Of 300 repetitions 95 % have a standard error of 1.3 points."""
    rng, names = (
        np.random.default_rng(5),
        [str(at) for at in range(scenarios) for _ in range(trials)],
    )
    covered = {THESE: 0, LIKE: 0}
    for _ in range(300):
        rates = beta(rng, 0.056, 0.1, scenarios)
        clusters = drawn(rng, scenarios, trials, rates=rates)
        for about, truth in ((THESE, rates.mean()), (LIKE, 0.056)):
            found = clustered(clusters, Layout(about, names))
            covered[about] += found.low <= truth <= found.high
    assert all(0.91 <= count / 300 <= 0.985 for count in covered.values())


@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
def test_models_that_are_equal_over_scenarios_like_these_are_told_apart_one_time_in_twenty(paired):
    """Each scenario is harder for one of the two; over these alone they do differ."""
    rng, names = np.random.default_rng(6), [f"{at:02}" for at in range(24) for _ in range(6)]
    rejected = {THESE: 0, LIKE: 0}
    covered = 0
    for seed in range(200):
        rates = [beta(rng, np.full(24, 0.1), 0.08) for _ in range(2)]
        sides = [[drawn(rng, 24, 6, rates=rate)] for rate in rates]
        for about in Estimand:
            layouts = Layout(about, names), Layout(about, names)
            (found,) = compare_all(*sides, seed=seed, paired=paired, layouts=layouts, exchanges=499)
            rejected[about] += found.p < 0.05
            if about is THESE:
                covered += found.low <= rates[0].mean() - rates[1].mean() <= found.high
    assert rejected[LIKE] <= 17
    assert rejected[THESE] >= 25
    assert 0.91 <= covered / 200 <= 0.99


def test_scenarios_of_which_only_one_was_played_by_both_are_units_of_their_own():
    first, second = [(1, 8)] * 6, [(3, 8)] * 6
    layouts = Layout(LIKE, ["a", "b", "c"] * 2), Layout(LIKE, ["c", "d", "e"] * 2)
    (found,) = compare_all([first], [second], seed=1, layouts=layouts)
    assert found.p >= 0.1  # of 20 ways to exchange three and three


def test_a_scenario_that_only_one_model_played_is_not_exchanged():
    rng = np.random.default_rng(2)
    first = list(zip(rng.binomial(8, 0.2, 30).tolist(), [8] * 30, strict=True))
    second = list(zip(rng.binomial(8, 0.6, 20).tolist(), [8] * 20, strict=True))
    names = ["a", "b"] * 10
    layouts = Layout(THESE, [*names, *["c"] * 10]), Layout(THESE, names)
    (found,) = compare_all([first], [second], seed=1, layouts=layouts)
    assert found.p < 0.001
    assert found.high < 0


def test_shares_and_means_are_compared_by_scenario_where_that_is_one_draw():
    names = [f"s{at // 4}" for at in range(24)]
    layouts = Layout(LIKE, names), Layout(LIKE, names)
    did = [at < 12 for at in range(24)]
    shares = compare_shares(did, [not one for one in did], paired=True, layouts=layouts)
    means = compare_means([(4, 8)] * 24, [(0, 8)] * 24, seed=1, paired=True, layouts=layouts)
    assert (shares.p > 0.9, means.p < 0.05) == (True, True)


@pytest.mark.parametrize(("scenarios", "trials"), [(9, 10), (10, 10), (36, 5)])
def test_the_bounds_of_a_gate_are_as_narrow_as_those_of_a_stratified_t(scenarios, trials):
    """Of two models in the same worlds, which are equal; three standard errors are 9 points."""
    rng, names = np.random.default_rng(8), [at for at in range(scenarios) for _ in range(trials)]
    times, covered = [], 0
    for _ in range(50):
        rates = beta(rng, 0.056, 0.1, scenarios)
        sides = [drawn(rng, scenarios, trials, rates=rates) for _ in range(2)]
        test = comparison(
            [*zip(*sides, strict=True)], strata(names), limit=0.03, ratio=False, icc=0.1
        )
        low, high = lower_bound(test, 0.05), upper_bound(test, 0.05)
        one, other = (np.array(side) for side in sides)
        added = around(one) - around(other)
        spread = trials * added.reshape(scenarios, trials).var(axis=1, ddof=1).sum()
        reach = student.ppf(0.95, scenarios * (trials - 1)) * sqrt(spread)
        times.append((high - low) / 2 / reach)
        covered += (low <= 0) + (high >= 0)
    assert 0.95 < np.mean(times) < 1.1
    assert covered / 100 == pytest.approx(0.95, abs=0.09)


def around(side):
    """What each trial adds to the rate of its side, beyond it."""
    errors, calls = side.T
    return (errors - errors.sum() / calls.sum() * calls) / calls.sum()


@pytest.mark.parametrize(
    ("about", "scenarios", "logged", "told"),
    [
        (Estimand.THESE, 3, False, "about these 3 scenarios, played again"),
        (Estimand.THESE, 1, False, "about this scenario, played again"),
        (Estimand.LIKE, 3, False, "about scenarios like these 3"),
        (Estimand.LIKE, 0, False, "about no scenario"),
        (Estimand.THESE, 1, True, "about sessions like those of the log. Nobody gave both"),
    ],
)
def test_a_verdict_says_what_it_is_about(about, scenarios, logged, told) -> None:
    assert told in verdict_about(about, scenarios, logged=logged)
