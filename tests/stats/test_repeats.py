"""pass^k and pass@k."""

from itertools import combinations

import pytest

from agenteval.stats.rates import Rate, pass_all, pass_any


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_the_values_are_the_shares_of_all_choices_of_k_trials(count, k):
    choices = list(combinations([True] * count + [False] * (5 - count), k))
    completed = Rate(count, 5)
    assert pass_all(completed, k).value == pytest.approx(sum(map(all, choices)) / len(choices))
    assert pass_any(completed, k).value == pytest.approx(sum(map(any, choices)) / len(choices))


def test_one_trial_is_the_share_itself():
    completed = Rate(3, 5)
    for found in (pass_all(completed, 1), pass_any(completed, 1)):
        assert (found.value, found.low, found.high) == pytest.approx(
            (0.6, completed.low, completed.high)
        )


def test_the_interval_holds_the_value_and_has_width():
    for count in range(6):
        for found in (pass_all(Rate(count, 5), 3), pass_any(Rate(count, 5), 3)):
            assert 0 <= found.low <= found.value <= found.high <= 1
            assert found.high > found.low


def test_fewer_trials_than_asked_for_say_nothing():
    assert pass_all(Rate(2, 2), 3) is pass_any(Rate(2, 2), 3) is None
