"""Whether two models err in different kinds."""

import numpy as np
import pytest

from agenteval.core.counts import ErrorCounts
from agenteval.stats.signature import compare_kinds


def counts(*kinds):
    """One trial for each error."""
    return ErrorCounts.of([[kind, None] for kind in kinds])


# Errors by class of the published table, its eleven rows named a to k.
MOE_35B, DENSE_27B, MOE_122B = (
    counts(*"aaaaaaaaaaccccfiiii"),
    counts(*"abghhijjj"),
    counts(*"aacccdeehjjkk"),
)


@pytest.mark.parametrize(
    ("first", "second", "exact"),
    [(MOE_35B, DENSE_27B, 0.001), (MOE_35B, MOE_122B, 0.0043), (MOE_122B, DENSE_27B, 0.32)],
)
def test_the_published_kinds_differ_about_as_an_exact_test_says(first, second, exact):
    found = compare_kinds(first, second, seed=1)
    assert found.p == pytest.approx(exact, rel=0.55)
    assert 0 < found.by_chance < 1


def test_the_distance_is_the_total_variation_of_the_two_mixes():
    assert compare_kinds(counts("a", "b"), counts("a", "c"), seed=1).distance == 0.5
    assert compare_kinds(counts("a"), counts("b"), seed=1).distance == 1.0


def test_more_of_the_same_is_no_other_kind():
    found = compare_kinds(counts(*"aabb" * 5), counts(*"ab" * 5), seed=1)
    assert (found.distance, found.p) == (0.0, 1.0)


def test_a_model_without_errors_has_no_kind():
    assert compare_kinds(counts("a"), counts(None), seed=1) is None
    assert compare_kinds(counts(None), counts(None), seed=1) is None


def test_errors_that_come_in_bunches_count_by_trial():
    """Two trials with twenty errors each tell as little as two errors."""
    bunched = compare_kinds(
        ErrorCounts.of([["a"] * 20, ["a"] * 20]), ErrorCounts.of([["b"] * 20, ["b"] * 20]), seed=1
    )
    assert bunched.p > 0.2


def test_bunched_errors_of_equal_models_are_rarely_told_apart():
    """Nominal 5 % over 200 repetitions: the standard error is 1.5 points."""
    rng, rejected = np.random.default_rng(5), 0
    for repetition in range(200):
        sides = [
            ErrorCounts.of([[str(rng.integers(4))] * int(rng.integers(1, 5)) for _ in range(10)])
            for _ in range(2)
        ]
        rejected += compare_kinds(*sides, seed=repetition).p < 0.05
    assert rejected / 200 <= 0.095
