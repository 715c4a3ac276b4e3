"""The level of each look."""

from math import erfc, sqrt, tau
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest

from agenteval.stats.promotion import (
    LEAST,
    confidence_text,
    level_text,
    levels,
    levels_at,
    other_baseline_remarks,
)


def test_the_boundaries_are_the_published_ones():
    """Lan-DeMets spending after O'Brien and Fleming, five looks, one-sided 2.5 %."""
    normal = NormalDist()
    boundaries = [normal.inv_cdf(1 - level) for level in levels(5, 0.025)]
    assert boundaries == pytest.approx([4.877, 3.357, 2.680, 2.290, 2.031], abs=0.002)


def by_quadrature(shares, level):
    """The same levels by Gauss and Legendre's nodes, which are exact for so smooth a density."""
    normal, tail = NormalDist(), np.vectorize(erfc)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    places, chances = np.array([0.0]), np.array([1.0])
    found, before, spent = [], 0.0, 0.0
    for share in shares:
        goal = 2 * (1 - normal.cdf(normal.inv_cdf(1 - level / 2) / sqrt(share)))
        deviation, end = sqrt(share - before), 9 * sqrt(share)
        low, high = -end, end
        for _ in range(60):
            bound = (low + high) / 2
            beyond = (chances * tail((bound - places) / deviation / sqrt(2))).sum() / 2
            low, high = (bound, high) if beyond > goal - spent else (low, bound)
        found.append(1 - normal.cdf(bound / sqrt(share)))
        half = (bound + end) / 2
        now = (nodes + 1) * half - end
        density = np.exp(-(((now[:, None] - places) / deviation) ** 2) / 2) @ chances
        places, chances = now, weights * half * density / deviation / sqrt(tau)
        before, spent = share, goal
    return found


@pytest.mark.parametrize("shares", [(0.5, 1.0), (0.3, 0.35, 0.9)])
def test_looks_after_any_shares_are_within_a_thousandth_of_their_exact_levels(shares):
    assert levels_at(shares, 0.05) == pytest.approx(by_quadrature(shares, 0.05), rel=1e-3, abs=0)


def test_a_look_that_sees_no_more_than_the_one_before_gets_nothing_and_takes_nothing():
    half, whole = levels_at([0.5, 1.0], 0.05)
    assert levels_at([0.5, 0.5, 0.4, 1.0], 0.05) == (half, LEAST, LEAST, whole)


def test_a_look_so_early_that_nothing_may_be_spent_takes_nothing_from_the_others():
    assert levels_at([0.01, 0.5, 1.0], 0.05) == (LEAST, *levels_at([0.5, 1.0], 0.05))


def test_one_look_has_the_whole_level_however_large_that_is():
    assert levels(1, 0.7) == pytest.approx((0.7,))


@pytest.mark.parametrize("looks", [1, 2, 7])
def test_all_looks_together_reject_as_many_true_hypotheses_as_one_would(looks):
    steps = np.random.default_rng(5).standard_normal((200_000, looks)).cumsum(axis=1)
    seen = steps / np.sqrt(np.arange(1, looks + 1))
    bounds = [NormalDist().inv_cdf(1 - level) for level in levels(looks, 0.05)]
    assert (seen > bounds).any(axis=1).mean() == pytest.approx(0.05, abs=0.002)


@pytest.mark.parametrize(("level", "sure", "told"), [
    (0.05, "95", "0.0500"), (0.0482, "95.18", "0.0482"), (0.0055, "99.45", "0.0055"),
    (9e-5, "99.991", "9e-05"), (3e-6, "99.9997", "3e-06"), (LEAST, "99.9999999", "1e-09"),
])  # fmt: skip
def test_a_level_is_never_told_as_none_or_as_sure(level, sure, told):
    assert (confidence_text(level), level_text(level)) == (sure, told)


def test_a_look_before_any_trial_ended_spends_nothing():
    assert levels_at([0.0], 0.05) == (LEAST,)
    assert levels_at([0.0, 1.0], 0.05)[1] == pytest.approx(0.05, abs=1e-4)


def test_verdicts_over_other_baselines_are_told_and_none_where_there_is_none() -> None:
    looks = [SimpleNamespace(baseline=one, verdict="PASS") for one in ("a", "b")]
    (told,) = other_baseline_remarks(looks, "b")
    assert "another baseline before (a: PASS)" in told
    assert [*other_baseline_remarks(looks[1:], "b")] == []
