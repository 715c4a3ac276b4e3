"""Whether two models differ."""

from math import inf
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import binom, chi2, chi2_contingency
from statsmodels import api as sm
from statsmodels.stats.contingency_tables import mcnemar

from agenteval.stats.comparison import (
    compare,
    compare_all,
    compare_counts,
    compare_means,
    compare_shares,
    gap,
)
from agenteval.stats.rates import Rate


def one_by_one(count, n):
    """Calls that each are a trial of their own."""
    return [(1, 1)] * count + [(0, 1)] * (n - count)


def compare_paired(pairs, **options):
    """One figure of two models that met the same worlds, a pair of trials for each."""
    first, second = zip(*pairs, strict=True)
    return compare_all([first], [second], paired=True, **options)[0]


def test_single_calls_give_the_p_value_of_the_mid_p_test_and_the_published_sample_size():
    difference = compare(one_by_one(19, 158), one_by_one(9, 161), seed=1)
    assert difference.p == pytest.approx(0.038, abs=0.006)
    assert difference.calls_needed == pytest.approx(304, rel=0.02)
    assert not difference.paired


def of_binomial(rng, rate, trials):
    return list(zip(rng.binomial(8, rate, trials).tolist(), [8] * trials, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("half", [False, True])
def test_a_new_run_of_the_calls_advised_settles_it_four_times_in_five(half):
    """One of three claims, if the truth is 12 against 5.6 as seen, or half as far apart."""
    seen = compare_counts(Rate(600, 5000), Rate(280, 5000))
    rng, apart = np.random.default_rng(8), 0.064 / (1 + half)
    trials = round(seen.calls_for(apart, family_size=3) / 8)
    settled = 0
    for seed in range(200):
        sides = [of_binomial(rng, 0.088 + sign * apart / 2, trials) for sign in (1, -1)]
        found = compare_all(*([side] for side in sides), seed=seed, exchanges=999)
        settled += found[0].p < 0.05 / 3
    assert settled / 200 == pytest.approx(0.8, abs=0.085)


def test_of_rates_near_nothing_a_difference_of_some_size_is_one_from_nothing():
    none = compare_counts(Rate(0, 1000), Rate(0, 1000))
    assert none.calls_for(0.03) == pytest.approx(
        compare_counts(Rate(30, 1000), Rate(0, 1000)).calls_needed, abs=1
    )


@pytest.mark.parametrize(
    "seen",
    [
        compare_paired([((1, 1), (0, 1))] * 5, seed=1),
        compare_paired([((1, 1), (0, 1))] * 5 + [((1, 1), (1, 1))] * 10, seed=1),
        compare_counts(Rate(5, 5), Rate(5, 15)),
        compare([(5, 5)], [(5, 5), (0, 10)], seed=1),
    ],
)
def test_what_few_trials_did_not_settle_is_not_settled_by_fewer(seen):
    """Five of five against none of five: by the counts alone four would do where five did not."""
    assert seen.p > 0.05 / 20
    assert seen.calls_for(seen.value, family_size=20) > min(seen.first.n, seen.second.n)


def test_clustered_errors_settle_less_than_scattered_ones():
    scattered = compare([(1, 8)] * 16, [(0, 8)] * 16, seed=1)
    clumped = compare([(8, 8)] * 2 + [(0, 8)] * 14, [(0, 8)] * 16, seed=1)
    assert scattered.first.count == clumped.first.count
    assert scattered.p < 0.001
    assert clumped.p > 0.1


def test_the_interval_is_the_published_one_of_miettinen_and_nurminen():
    """The case on which statsmodels' interval is known to be wrong."""
    difference = compare_counts(Rate(56, 70), Rate(48, 80))
    assert (round(difference.low, 4), round(difference.high, 4)) == (0.0528, 0.3382)


def test_the_same_worlds_make_a_small_difference_visible():
    rng = np.random.default_rng(3)
    hard = rng.binomial(8, rng.beta(0.5, 2, 30))
    first = [(int(count), 10) for count in hard]
    second = [(int(count) + 1, 10) for count in hard]
    paired = compare_paired(list(zip(first, second, strict=True)), seed=1)
    assert paired.p < 0.001
    assert paired.paired
    assert paired.low < paired.value == pytest.approx(-0.1)
    unpaired = compare(first, second, seed=1)
    assert unpaired.p > 0.05
    assert paired.calls_needed < unpaired.calls_needed


def test_equal_models_are_not_told_apart():
    same = [(1, 8), (0, 8), (2, 8)]
    for difference in (
        compare(same, same, seed=1),
        compare_paired(list(zip(same, same, strict=True)), seed=1),
    ):
        assert difference.p == 1.0
        assert difference.calls_needed == inf
        assert difference.low < 0 == difference.value < difference.high


def test_a_single_error_settles_nothing_however_few_calls_the_model_makes():
    """A model of few calls would stand out by its calls, were they swapped with its errors."""
    few = [(1, 9), *[(0, 9)] * 19]
    many = [(0, 12)] * 20
    assert compare_paired(list(zip(few, many, strict=True)), seed=1).p == 1.0
    assert compare(few, many, seed=1).p >= 0.5


def test_equal_rates_in_worlds_of_unequal_calls_are_rarely_told_apart():
    """Nominal 5 % over 300 repetitions: the standard error is 1.3 points."""
    rng, rejected = np.random.default_rng(4), 0
    for repetition in range(300):
        hard = rng.beta(0.6, 9.4, 40)
        sides = [[(int(rng.binomial(calls, rate)), calls) for rate in hard] for calls in (6, 11)]
        pairs = list(zip(*sides, strict=True))
        rejected += compare_paired(pairs, seed=repetition, exchanges=999).p < 0.05
    assert 0.01 <= rejected / 300 <= 0.09


def test_a_model_that_made_no_calls_in_some_exchange_is_no_crash():
    assert compare_paired([((1, 4), (0, 0)), ((0, 0), (1, 4))], seed=1).p == 1.0


def test_a_seed_gives_the_same_p_again():
    first, second = [(1, 8), (0, 8), (3, 9)], [(0, 8), (1, 8)]
    assert compare(first, second, seed=5) == compare(first, second, seed=5)


def test_figures_under_the_same_exchanges_are_those_of_each_alone():
    first = [[(1, 8), (0, 8), (3, 9)], [(1, 1), (0, 1), (1, 1)]]
    second = [[(0, 8), (1, 8), (1, 9)], [(0, 1), (0, 1), (1, 1)]]
    for paired in (True, False):
        together = compare_all(first, second, seed=5, paired=paired)
        alone = [
            compare_all([one], [other], seed=5, paired=paired)[0]
            for one, other in zip(first, second, strict=True)
        ]
        assert together == alone


def test_counts_that_show_no_trials_are_compared_by_the_n_minus_1_chi_squared_test():
    difference = compare_counts(Rate(19, 158), Rate(9, 161))
    chi_squared = chi2_contingency([[19, 139], [9, 152]], correction=False).statistic
    assert difference.p == pytest.approx(chi2.sf(chi_squared * 318 / 319, 1))
    assert difference.calls_needed == 304
    assert difference.ratio.value == pytest.approx(2.15, abs=0.005)


@pytest.mark.parametrize("differ", [(9, 3), (6, 0), (1, 4), (0, 0), (30, 50)])
def test_shares_of_trials_in_the_same_worlds_have_the_mid_p_of_mcnemars_test(differ):
    pairs = [(True, False)] * differ[0] + [(False, True)] * differ[1] + [(True, True)] * 7
    found = compare_shares(*zip(*pairs, strict=True), paired=True)
    exact = mcnemar([[7, differ[0]], [differ[1], 0]], exact=True).pvalue
    expected = exact - binom.pmf(differ[0], sum(differ), 0.5) if any(differ) else 1.0
    assert (found.p, found.paired) == (pytest.approx(expected), True)


def test_shares_of_trials_in_worlds_of_their_own_are_counts():
    first, second = [True] * 9 + [False], [True] * 3 + [False] * 7
    assert compare_shares(first, second) == compare_counts(Rate(9, 10), Rate(3, 10))


def test_errors_per_trial_are_compared_whatever_their_calls():
    first, second = [(3, 20)] * 12, [(1, 2)] * 12
    for paired in (True, False):
        difference = compare_means(first, second, seed=1, paired=paired)
        assert (difference.value, difference.paired) == (2.0, paired)
        assert 0 < difference.low < 2 < difference.high
        assert difference.p < 0.01


@pytest.mark.slow
def test_equal_models_with_clustered_errors_are_rarely_told_apart():
    """Nominal 5 % over 200 repetitions: the standard error is 1.5 points."""
    rng = np.random.default_rng(11)
    rejected = 0
    for repetition in range(200):
        sides = [
            [(int(rng.binomial(8, rng.beta(0.5, 8.5))), 8) for _ in range(20)] for _ in range(2)
        ]
        rejected += compare(*sides, seed=repetition).p < 0.05
    assert 0.01 <= rejected / 200 <= 0.095


@pytest.mark.parametrize(
    ("worlds", "p"), [(1, 1.0), (2, 0.25), (3, 0.125), (4, 0.0625), (5, 0.03125)]
)
def test_worlds_in_which_nobody_erred_make_no_difference_significant(worlds, p) -> None:
    """As a sign test has it, ties by half, though an erring trial is longer than the others."""
    pairs = [((0, 7), (1, 10) if number < worlds else (0, 7)) for number in range(64)]

    assert compare_paired(pairs, seed=1).p == pytest.approx(p, abs=0.01)


def test_to_count_what_did_not_happen_gives_the_same_p() -> None:
    pairs = [((3, 4), (1, 3)), ((2, 2), (0, 0)), ((0, 5), (0, 1)), ((4, 6), (2, 5))] * 6
    others = [((n - e, n), (m - f, m)) for (e, n), (f, m) in pairs]

    assert compare_paired(pairs, seed=1).p == compare_paired(others, seed=1).p


SIDES = {
    "scattered": ([(1, 8)] * 16, [(0, 8)] * 16),
    "one error": ([(1, 9), *[(0, 9)] * 15], [(0, 12)] * 16),
    "four errors": ([(1, 9)] * 4 + [(0, 9)] * 12, [(0, 9)] * 16),
    "five errors": ([(1, 9)] * 5 + [(0, 9)] * 11, [(0, 9)] * 16),
    "six errors": ([(1, 9)] * 6 + [(0, 9)] * 10, [(0, 9)] * 16),
    "no errors": ([(0, 9)] * 16, [(0, 9)] * 16),
    "nothing but errors": ([(9, 9)] * 16, [(9, 9)] * 16),
    "all and nothing": ([(9, 9)] * 16, [(0, 9)] * 16),
    "the same": ([(2, 9)] * 8 + [(0, 9)] * 8, [(2, 9)] * 8 + [(0, 9)] * 8),
    "one trial": ([(2, 9)], [(0, 9)]),
    "clumped": ([(8, 8)] * 3 + [(0, 8)] * 13, [(0, 8)] * 16),
    "no call in some": ([(1, 4), (0, 0)] * 8, [(0, 0), (2, 4)] * 8),
}


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("sides", SIDES.values(), ids=SIDES)
def test_p_and_interval_tell_the_same_and_no_interval_has_width_zero(sides, paired):
    assert [said for said in stories(*sides, paired) if not said.agrees] == []


@pytest.mark.parametrize("paired", [True, False])
def test_p_and_interval_tell_the_same_of_chance_trials(paired):
    """Models of 5 and 15 errors per 100, so that about half of the differences are settled."""
    rng, said = np.random.default_rng(12), []
    for _ in range(40):
        sizes = rng.integers(0, 14, (2, 15))
        sizes[:, 0] = 5
        errors = rng.binomial(sizes, [[0.05], [0.18]])
        sides = [list(zip(*both, strict=True)) for both in zip(errors, sizes, strict=True)]
        said += stories(*sides, paired)
    assert [one for one in said if not one.agrees] == []
    assert 0.2 < sum(one.p < 0.05 for one in said) / len(said) < 0.9


class Story(NamedTuple):
    """Of one difference, or ratio: p, its interval, and what stands for no difference in it."""

    p: float
    low: float
    high: float
    same: float

    @property
    def agrees(self) -> bool:
        return self.low < self.high and (self.p < 0.05) != (self.low <= self.same <= self.high)


def stories(first, second, paired) -> list[Story]:
    total = compare_all([first], [second], seed=1, paired=paired)[0]
    means = compare_means(first, second, seed=1, paired=paired)
    denied = ([count > 0 for count, _ in side] for side in (first, second))
    share = compare_shares(*denied, paired=paired)
    return [
        *(Story(one.p, one.low, one.high, 0.0) for one in (total, means, share)),
        *(Story(one.p, one.ratio.low, one.ratio.high, 1.0) for one in (total, share)),
    ]


def test_fewer_than_five_errors_settle_nothing_and_five_do():
    four, five = (compare_counts(Rate(0, 160), Rate(errors, 150)) for errors in (4, 5))
    assert (four.p, four.high) == (0.0625, 0.0)
    assert (five.p < 0.05, five.high < 0) == (True, True)


def test_two_rates_of_the_same_trials_differ_as_clustered_least_squares_have_it():
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 9, (2, 300))
    rates = [rng.beta(5, 5, 300), rng.beta(3, 7, 300)]
    counts = rng.binomial(sizes, rates)
    sides = [list(zip(*both, strict=True)) for both in zip(counts, sizes, strict=True)]
    value, low, high = gap(*sides)

    rows = [
        (float(at < count), 1.0 - side, trial)
        for side, column in enumerate(sides)
        for trial, (count, size) in enumerate(column)
        for at in range(size)
    ]
    denied, first, trials = map(np.array, zip(*rows, strict=True))
    model = sm.OLS(denied, sm.add_constant(first))
    fitted = model.fit(cov_type="cluster", cov_kwds={"groups": trials.astype(int)}, use_t=True)
    assert value == pytest.approx(fitted.params[1])
    assert high - low == pytest.approx(np.diff(fitted.conf_int()[1])[0], rel=0.01)


def test_what_follows_a_denial_is_covered_by_its_interval():
    """Chains in which a denial follows a denial half of the time, and else once in ten calls.

    Over 300 repetitions the standard error of 95 % is 1.3 points.
    """
    rng, covered = np.random.default_rng(8), 0
    for _ in range(300):
        after = [chain(rng) for _ in range(30)]
        _, low, high = gap([one[1] for one in after], [one[0] for one in after])
        covered += low <= 0.4 <= high
    assert 0.91 <= covered / 300 <= 0.99


def chain(rng):
    """Of one trial: denied calls after an allowed one, and after a denied one, out of how many."""
    seen, last = [[0, 0], [0, 0]], 0
    for _ in range(rng.integers(3, 20)):
        denied = int(rng.random() < (0.5 if last else 0.1))
        seen[last][0] += denied
        seen[last][1] += 1
        last = denied
    return [tuple(one) for one in seen]


@pytest.mark.parametrize(
    "sides",
    [([(1, 2)], [(0, 3)]), ([(0, 2)] * 9, [(0, 3)] * 9), ([(2, 2)] * 9, [(0, 3)] * 9)],
)
def test_two_rates_of_the_same_trials_never_have_an_interval_of_width_zero(sides):
    value, low, high = gap(*sides)
    assert low <= value <= high
    assert high - low > 0.1
