"""The level of each look."""

from statistics import NormalDist

import numpy as np
import pytest

from agenteval.stats.alpha_spending import levels


def test_the_boundaries_are_the_published_ones():
    """Lan-DeMets spending after O'Brien and Fleming, five looks, one-sided 2.5 %."""
    normal = NormalDist()
    boundaries = [normal.inv_cdf(1 - level) for level in levels(5, 0.025)]
    assert boundaries == pytest.approx([4.877, 3.357, 2.680, 2.290, 2.031], abs=0.002)


@pytest.mark.parametrize("looks", [1, 2, 7])
def test_all_looks_together_reject_as_many_true_hypotheses_as_one_would(looks):
    steps = np.random.default_rng(5).standard_normal((200_000, looks)).cumsum(axis=1)
    seen = steps / np.sqrt(np.arange(1, looks + 1))
    bounds = [NormalDist().inv_cdf(1 - level) for level in levels(looks, 0.05)]
    assert (seen > bounds).any(axis=1).mean() == pytest.approx(0.05, abs=0.002)
