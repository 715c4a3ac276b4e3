"""Whether two models err in different kinds."""

from collections import Counter
from math import sqrt

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import chi2_contingency

from agenteval.stats.rates import Estimand, Layout
from agenteval.stats.signature import compare_kinds
from agenteval.trial.trial import ErrorCounts


def counts(*kinds):
    """One trial for each error."""
    return ErrorCounts.of([[kind, None] for kind in kinds])


def table(kinds, calls):
    """A published table: what belongs to one trial is not known."""
    by_class = {kind: (count,) for kind, count in Counter(kinds).items()}
    return ErrorCounts((calls,), by_class, by_trial=False)


# The published table, its eleven rows named a to k.
MOE_35B, DENSE_27B, MOE_122B = (
    table("aaaaaaaaaaccccfiiii", 158),
    table("abghhijjj", 161),
    table("aacccdeehjjkk", 128),
)


@pytest.mark.parametrize(
    ("first", "second", "exact", "g_squared"),
    [
        (MOE_35B, DENSE_27B, 0.001, (4.20, 23.46)),
        (MOE_35B, MOE_122B, 0.0043, (0.25, 22.86)),
        (MOE_122B, DENSE_27B, 0.32, (2.10, 15.40)),
    ],
)
def test_the_published_kinds_have_the_published_p_and_g_squared(first, second, exact, g_squared):
    """The standard error of p is 0.0003, 0.0007 and 0.005."""
    found = compare_kinds(first, second, seed=1)
    assert found.p == pytest.approx(exact, abs=3 * sqrt(exact / 9_999))
    assert (found.g_rate, found.g_kind) == pytest.approx(g_squared, abs=0.005)
    assert 0 < found.by_chance < found.distance < 1
    assert 0 < found.divergence_by_chance < found.divergence < 1


def test_the_parts_of_g_squared_add_up_to_that_of_the_whole_table():
    found = compare_kinds(MOE_35B, DENSE_27B, seed=1)
    table = [[10, 0, 4, 1, 0, 0, 4, 0, 139], [1, 1, 0, 0, 1, 2, 1, 3, 152]]
    whole = chi2_contingency(table, lambda_="log-likelihood").statistic
    assert found.g_rate + found.g_kind == pytest.approx(whole)


def test_the_divergence_is_that_of_scipy():
    found = compare_kinds(counts(*"aab"), counts(*"abbbc"), seed=1)
    assert found.divergence == pytest.approx(
        jensenshannon([2 / 3, 1 / 3, 0], [1 / 5, 3 / 5, 1 / 5], base=2) ** 2
    )


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


@pytest.mark.slow
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


def of_scenarios(rng, favourites, trials=4):
    """Errors of which nine in ten are of the kind that the model favours in that scenario."""
    return ErrorCounts.of(
        [
            [str(one if rng.random() < 0.9 else rng.integers(3)) for _ in range(3)]
            for one in favourites
            for _ in range(trials)
        ]
    )


@pytest.mark.parametrize("met", [True, False])
def test_about_scenarios_like_these_whole_scenarios_are_exchanged(met):
    """Each model has its own favourite kind in each scenario, and over scenarios none."""
    rng, rejected = np.random.default_rng(7), Counter()
    names = [[f"{side}{at:02}" for at in range(12) for _ in range(4)] for side in ("a", "b")]
    for seed in range(150):
        sides = [of_scenarios(rng, rng.integers(3, size=12)) for _ in range(2)]
        for about in Estimand:
            layouts = Layout(about, names[0]), Layout(about, names[0 if met else 1])
            found = compare_kinds(*sides, seed=seed, layouts=layouts, exchanges=499)
            rejected[about] += found.p < 0.05
    assert rejected[Estimand.LIKE] / 150 <= 0.11
    assert rejected[Estimand.THESE] / 150 >= 0.25


def test_an_exchange_of_scenarios_may_leave_a_model_without_errors():
    first = ErrorCounts.of([["a"], [None], [None]])
    second = ErrorCounts.of([[None], ["b"], [None]])
    layouts = (Layout(Estimand.LIKE, ["x", "y", "z"]),) * 2
    found = compare_kinds(first, second, seed=1, layouts=layouts)
    assert (found.distance, found.by_chance < 1, found.p > 0.2) == (1.0, True, True)
