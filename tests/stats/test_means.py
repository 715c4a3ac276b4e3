"""Errors per trial."""

from math import inf, isnan

import numpy as np
import pytest
from statsmodels.stats.rates import confint_poisson

from agenteval.stats.rates import Mean, per_trial


@pytest.mark.parametrize(("count", "n"), [(0, 9), (1, 20), (19, 20), (400, 50)])
def test_independent_errors_have_the_score_interval_of_statsmodels(count, n):
    assert Mean(count, n, float(n)).interval == pytest.approx(
        confint_poisson(count, n, method="score"), abs=1e-9
    )


def test_a_mean_is_told_with_its_interval_and_n():
    assert (str(Mean(19, 20, 20.0)), str(per_trial([]))) == ("0.95 [0.61, 1.48] n=20", "- n=0")


def test_no_trials_say_nothing():
    nothing = per_trial([])
    assert (isnan(nothing.value), nothing.interval) == (True, (0.0, inf))


@pytest.mark.parametrize(
    "clusters", [[(0, 8)] * 20, [(1, 8)] * 20, [(3, 8)], [(0, 8)], [(0, 0)] * 3, [(2, 9), (0, 1)]]
)
def test_an_interval_never_has_width_zero_and_holds_its_mean(clusters):
    mean = per_trial(clusters)
    assert 0 <= mean.low <= mean.value <= mean.high
    assert mean.high - mean.low > 0.01


def test_trials_that_differ_more_than_chance_would_have_it_widen_the_interval():
    alike, apart = per_trial([(1, 8)] * 20), per_trial([(10, 20)] * 2 + [(0, 8)] * 18)
    assert (alike.value, apart.value) == (1.0, 1.0)
    assert apart.low < alike.low < alike.high < apart.high


@pytest.mark.parametrize(("dispersion", "least"), [(1.0, 0.93), (2.0, 0.9)])
def test_intervals_cover_the_true_mean_of_simulated_trials(dispersion, least):
    """400 repetitions: the standard error of a coverage of 95 % is 1.1 points."""
    rng, true, covered = np.random.default_rng(7), 0.8, 0
    for _ in range(400):
        scale = dispersion - 1
        means = rng.gamma(true / scale, scale, 20) if scale else true
        mean = per_trial([(int(count), 20) for count in rng.poisson(means, 20)])
        covered += mean.low <= true <= mean.high
    assert covered / 400 >= least
