"""Tossed coins, with scipy as oracle."""

import pytest
from scipy.stats import binom

from agenteval.stats.permutation import _tosses


@pytest.mark.parametrize("n", [0, 1, 7, 2_000])
def test_the_number_of_heads_has_the_binomial_distribution(n):
    assert _tosses(n) == pytest.approx(binom.pmf(range(n + 1), n, 0.5), abs=1e-12)
