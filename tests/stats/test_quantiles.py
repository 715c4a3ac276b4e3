"""Tails and quantiles, beside scipy's."""

from collections import Counter
from math import nextafter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc, betaincinv, stdtr, stdtrit

from agenteval.stats import quantiles
from agenteval.stats.quantiles import (
    RootSearch,
    Samples,
    beta_quantiles,
    incomplete_beta,
    samples,
    t_quantile,
    t_tail,
)


def falling(function, target, low, high):
    search = RootSearch(target, low, high)
    while search.is_open:
        search.note(function(search.place))
    return search.root


@pytest.mark.parametrize("b", [0.3, 1, 7.5, 320, 9000.0])
@pytest.mark.parametrize("a", [0.01, 0.5, 1, 12.25, 4000.0])
def test_the_incomplete_beta_function_is_scipys(a, b):
    points = [0, 1e-9, 0.01, 0.2, a / (a + b), 0.5, 0.77, 0.999, 1]
    found = [incomplete_beta(a, b, x) for x in points]
    assert found == pytest.approx([betainc(a, b, x) for x in points], abs=1e-9)


@pytest.mark.parametrize("icc", [1e-4, 0.01, 0.1, 0.4, 0.99])
@pytest.mark.parametrize("mean", [1e-4, 0.05, 0.5, 0.93, 0.9999])
def test_quantiles_of_the_beta_distribution_are_scipys(mean, icc):
    a, b = (share * (1 - icc) / icc for share in (mean, 1 - mean))
    shares = [at / 400 for at in range(401)]
    found = beta_quantiles(a, b, shares)
    assert found == pytest.approx([betaincinv(a, b, share) for share in shares], abs=1e-11)


@pytest.mark.parametrize("df", [1, 1.5, 19, 2500])
def test_students_t_is_scipys(df):
    tails = [t_tail(t, df) for t in (-3, -0.1, 0, 0.4, 2.2, 40)]
    quantiles = [t_quantile(share, df) for share in (0.5, 0.9, 0.975, 0.9999)]
    assert tails == pytest.approx([1 - stdtr(df, t) for t in (-3, -0.1, 0, 0.4, 2.2, 40)], abs=1e-9)
    assert quantiles == pytest.approx(
        [stdtrit(df, share) for share in (0.5, 0.9, 0.975, 0.9999)], rel=1e-6, abs=1e-9
    )


@pytest.mark.parametrize(
    ("function", "target", "ends", "steps"),
    [
        (lambda x: 4 - x * x, 1.75, (0.0, 2.0), 12),
        (lambda t: t_tail(t, 7.0), 0.025, (0.0, 1e6), 30),
        (lambda t: t_tail(t, 7.0), 1e-9, (0.0, 1e6), 60),
        (lambda p: betainc(900.0, 102.0, 1 - p), 0.05, (0.1, 1.0), 24),
        (lambda p: betainc(1e6, 1.0, 1 - p), 0.05, (0.0, 1.0), 60),
        (lambda x: float(x < 0.3), 0.5, (-1.0, 1.0), 62),  # no slope to follow
        (lambda x: 1.0, 0.5, (-1.0, 1.0), 62),  # nor an end to it
        (lambda x: 0.0, 0.5, (-1.0, 1.0), 62),
        (lambda x: 0.9 if x < 0.2 else 0.1 - x, 0.5, (0.0, 1.0), 62),
        (lambda x: float("nan"), 0.5, (0.0, 1.0), 62),
        (lambda x: 0.0, 0.5, (1.0, 1.0), 0),
    ],
)
def test_a_falling_function_is_inverted_as_by_halving_and_in_fewer_steps(
    function, target, ends, steps
):
    taken = []

    def counted(x):
        taken.append(x)
        return function(x)

    low, high = ends
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > target else (low, middle)
    assert falling(counted, target, *ends) == pytest.approx(low, rel=1e-12, abs=2e-12)
    assert len(taken) <= steps
    assert all(ends[0] < x < ends[1] for x in taken)


def test_a_quantile_that_takes_too_many_steps_is_the_nearest_that_was_found(monkeypatch):
    exact = quantiles._beta_quantile(2.0, 5.0, 0.9, 0.0)
    errors = []
    for steps in (1, 2, 4):
        monkeypatch.setattr(quantiles, "_HALVINGS", steps)
        errors.append(abs(quantiles._beta_quantile(2.0, 5.0, 0.9, 0.0) - exact))
    assert errors == sorted(errors, reverse=True)


def test_between_two_neighbours_there_is_no_place_to_try() -> None:
    assert falling(lambda x: -x, 0, 1.0, nextafter(1.0, 2)) == 1.0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([4.0], Samples(1, 4.0, 4.0, 4.0, 4.0)),
        ([1.0, 3.0], Samples(2, 2.0, 2.0, 2.9, 3.0)),
        ([2.0] * 19 + [42.0], Samples(20, 4.0, 2.0, 4.0, 42.0)),
    ],
)
def test_values_become_their_number_mean_median_95th_percentile_and_peak(values, expected) -> None:
    found = samples(Counter(values))
    assert found == (expected and Samples(expected.n, *map(pytest.approx, _numbers(expected))))


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_they_are_what_numpy_says(values) -> None:
    found = samples(Counter(values))
    expected = (np.mean(values), np.median(values), np.quantile(values, 0.95), np.max(values))
    assert found is not None
    assert (found.n, *_numbers(found)) == (len(values), *map(pytest.approx, expected))


def _numbers(found: Samples) -> tuple[float, ...]:
    return found.mean, found.median, found.p95, found.peak
