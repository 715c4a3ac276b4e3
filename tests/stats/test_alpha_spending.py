"""The level of each look."""

from statistics import NormalDist

import numpy as np
import pytest

from agenteval.stats.alpha_spending import LEAST, levels, levels_at


def test_the_boundaries_are_the_published_ones():
    """Lan-DeMets spending after O'Brien and Fleming, five looks, one-sided 2.5 %."""
    normal = NormalDist()
    boundaries = [normal.inv_cdf(1 - level) for level in levels(5, 0.025)]
    assert boundaries == pytest.approx([4.877, 3.357, 2.680, 2.290, 2.031], abs=0.002)


def test_a_look_that_sees_no_more_than_the_one_before_gets_nothing_and_takes_nothing():
    half, whole = levels_at([0.5, 1.0], 0.05)
    assert levels_at([0.5, 0.5, 0.4, 1.0], 0.05) == (half, LEAST, LEAST, whole)


def test_a_look_so_early_that_nothing_may_be_spent_takes_nothing_from_the_others():
    assert levels_at([0.01, 0.5, 1.0], 0.05) == (LEAST, *levels_at([0.5, 1.0], 0.05))


@pytest.mark.parametrize("looks", [1, 2, 7])
def test_all_looks_together_reject_as_many_true_hypotheses_as_one_would(looks):
    steps = np.random.default_rng(5).standard_normal((200_000, looks)).cumsum(axis=1)
    seen = steps / np.sqrt(np.arange(1, looks + 1))
    bounds = [NormalDist().inv_cdf(1 - level) for level in levels(looks, 0.05)]
    assert (seen > bounds).any(axis=1).mean() == pytest.approx(0.05, abs=0.002)
