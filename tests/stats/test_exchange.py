"""Trials exchanged between two models."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import binom

from agenteval.stats.permutation import EXACT, MANY, _tosses, exchanged, flipped
from agenteval.stats.score import EXCHANGES

OURS, THEIRS = np.array([[3, 8], [0, 5], [1, 2]]), np.array([[2, 9], [0, 4], [7, 7]])


def test_every_choice_of_trials_is_as_likely_as_any_other():
    ours, theirs = exchanged(OURS, THEIRS, seed=1)
    both = np.vstack([OURS, THEIRS])
    possible = {tuple(both[list(one)].sum(axis=0)) for one in combinations(range(6), 3)}
    seen, times = np.unique(ours, axis=0, return_counts=True)
    assert {tuple(row) for row in seen} == possible
    assert ours.shape == (EXCHANGES, 2)
    assert (ours + theirs == both.sum(axis=0)).all()
    assert times / EXCHANGES == pytest.approx(np.full(len(times), 1 / 20), abs=0.03)


def test_every_swap_of_worlds_is_as_likely_as_any_other():
    shares = np.array([[0.5, 1.0], [0.25, 4.0], [-1.0, 0.0]])
    sums = flipped(shares, seed=1)
    possible = {tuple(np.array(signs) @ shares) for signs in product((1, -1), repeat=3)}
    seen, times = np.unique(sums, axis=0, return_counts=True)
    assert {tuple(row) for row in seen} == possible
    assert times / EXCHANGES == pytest.approx(np.full(8, 1 / 8), abs=0.02)


@pytest.mark.parametrize(("worlds", "exchanges"), [(1, 40), (8, 40), (21, 10_000), (3_001, 1_400)])
def test_worlds_are_swapped_by_the_bits_of_the_seed_s_draws_in_their_order(worlds, exchanges):
    """So that a report is the same to the digit, however the sums are made."""
    rng = np.random.default_rng(5)
    shares = rng.normal(size=(worlds, 3))
    drawn = np.random.default_rng(4).integers(
        0, 256, size=(exchanges, -(-worlds // 8)), dtype=np.uint8
    )
    signs = 1.0 - 2.0 * np.unpackbits(drawn, axis=1)[:, :worlds]
    sums = flipped(shares, seed=4, exchanges=exchanges)
    assert sums == pytest.approx(signs @ shares, abs=1e-9)


@pytest.mark.parametrize(
    ("size", "kinds"), [(MANY // 2 - 1, 9), (MANY // 2 + 1, 9), (MANY // 2 + 1, 9 * MANY)]
)
def test_few_trials_and_many_and_many_alike_are_exchanged_alike(size, kinds):
    rng = np.random.default_rng(3)
    ours, theirs = rng.integers(0, kinds, (2, size, 1))
    sums, _ = exchanged(ours, theirs, seed=2)
    both = np.vstack([ours, theirs])
    spread = both.std() * np.sqrt(size / 2 * (1 + 1 / (2 * size)))
    assert sums.mean() == pytest.approx(both.sum() / 2, abs=spread / 20)
    assert sums.std() == pytest.approx(spread, rel=0.05)


def test_sums_beyond_32_bits_are_exact():
    large, small = np.array([[EXACT + 1], [3]]), np.array([[0], [0]])
    ours, _ = exchanged(large, small, seed=1)
    assert {int(one) for one in np.unique(ours)} == {0, 3, EXACT + 1, EXACT + 4}


@pytest.mark.parametrize("n", [0, 1, 7, 2_000])
def test_the_number_of_heads_has_the_binomial_distribution(n):
    assert _tosses(n) == pytest.approx(binom.pmf(range(n + 1), n, 0.5), abs=1e-12)
