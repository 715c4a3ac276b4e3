"""The short form of `make validate`: the same simulations, with fewer repetitions.

A share of n repetitions has a standard error of sqrt(p (1 - p) / n); each bound leaves three.
"""

import pytest
import validation_claims as claims
import validation_lengths as lengths
import validation_parts as validate

from agenteval.stats.rates import Estimand


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "repetitions"),
    [
        (validate.coverage, 300),
        (validate.promotions, 200),
        (validate.false_fails, 60),
        (validate.rejections, 60),
        (validate.differences, 40),
        (validate.calls_needed, 60),
    ],
)
def test_intervals_cover_and_the_gate_errs_as_rarely_as_it_promises(part, repetitions):
    assert [found for found in part(repetitions) if not reaches(found)] == []


def reaches(found) -> bool:
    low, high = (3 * (aim * (1 - aim) / found.share.n) ** 0.5 for aim in (found.low, found.high))
    return found.low - low <= found.share.value <= found.high + high


@pytest.mark.slow
def test_scarce_errors_reject_no_more_than_they_can():
    for found, enough in validate.scarce(60):
        assert found.share.value <= 0.05 * enough + 3 * (0.06 * 0.94 / 60) ** 0.5


@pytest.mark.slow
@pytest.mark.no_cover  # the same lines over and over: traced it takes more than twice as long
def test_a_gate_that_is_asked_again_promotes_no_more_at_the_margin():
    worse = {"at the margin": validate.NEWCOMERS["at the margin"]}
    _, _, remembered, forgotten = zip(*validate.asked_again(50, worse), strict=True)
    n = sum(one.n for one in remembered)
    by_memory, without = (sum(one.count for one in of) for of in (remembered, forgotten))
    assert by_memory / n < most(0.065, n)
    assert by_memory < without  # of the same runs: equal where the memory is not used


@pytest.mark.slow
def test_looking_early_saves_trials_and_promotes_no_more():
    same, margin, _ = validate.early_looks(60)
    _, promoted, failed, played = same
    assert (promoted.value > 0.6, failed.count, played < 145) == (True, 0, True)
    assert margin[1].value < 0.065 + 3 * (0.065 * 0.935 / 60) ** 0.5


def most(aim, n):
    return aim + 3 * (aim * (1 - aim) / n) ** 0.5


@pytest.mark.slow
def test_few_very_long_trials_make_nothing_surer_than_it_is():
    for one in lengths.uneven(40):
        covered = min(one.rate.value, one.difference.value)
        assert covered >= 0.93 - 3 * (0.93 * 0.07 / 40) ** 0.5, one
        assert one.promoted.value <= most(0.065, 40), one


def test_a_rate_covers_what_it_is_about():
    for one in claims.estimands(60):
        assert one.covered.value >= 0.93 - 3 * (0.93 * 0.07 / 60) ** 0.5
        assert one.about is Estimand.LIKE or one.times < 1.15


@pytest.mark.slow
def test_models_with_harder_scenarios_of_their_own_are_equal_over_scenarios_like_these():
    found = list(claims.interactions(6))
    like = [one.value for _, _, _, one in found]
    assert sum(like) / len(like) < most(0.065, 6 * len(like))
    assert sum(one.count for _, _, one, _ in found) > sum(one.count for *_, one in found)


def test_identical_models_are_seldom_said_to_differ():
    false = [share for *_, share, _ in claims.false_claims(2)]
    assert sum(share.count for share in false) <= 8 * most(0.05, 8)


def test_lazy_models_fail():
    assert [passed.count for _, passed, _ in claims.lazy_models(4)] == [0] * len(claims.LAZY)
    assert [failed.value for *_, failed in claims.lazy_models(4)] == [1.0] * len(claims.LAZY)
