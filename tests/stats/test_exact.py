"""Exact tests, with scipy and statsmodels as oracles."""

import pytest
from scipy.stats import fisher_exact
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from agenteval.stats.exact import fisher, mcnemar


@pytest.mark.parametrize(
    ("one", "other", "published"),
    [
        ((19, 158), (9, 161), 0.049),
        ((13, 128), (9, 161), 0.181),
        ((19, 158), (13, 128), 0.707),
    ],
)
def test_the_published_counts_give_the_published_p(one, other, published):
    assert fisher(*one, *other) == pytest.approx(published, abs=0.0005)


@pytest.mark.parametrize(
    "counts", [(0, 5, 0, 7), (5, 5, 0, 7), (3, 9, 3, 9), (1, 9000, 12, 9500), (40, 60, 20, 90)]
)
def test_fishers_p_is_that_of_scipy(counts):
    count, n, other, m = counts
    expected = fisher_exact([[count, n - count], [other, m - other]]).pvalue
    assert fisher(*counts) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("discordant", [(0, 0), (0, 1), (3, 3), (1, 9), (12, 2), (900, 1010)])
def test_mcnemars_p_is_that_of_statsmodels(discordant):
    first, second = discordant
    expected = statsmodels_mcnemar([[5, first], [second, 5]], exact=True).pvalue
    assert mcnemar(*discordant) == pytest.approx(min(1.0, expected), rel=1e-6)
