"""Cumulative incidence of ends that exclude each other, with statsmodels as oracle."""

from math import inf, isnan

import numpy as np
import pytest
from statsmodels.duration.survfunc import CumIncidenceRight

from agenteval.stats.incidence import Followed, incidence
from agenteval.stats.rates import clustered

ENDS = ("", "recovered", "stalled", "out-of-turns")


def drawn(seed, censored):
    rng = np.random.default_rng(seed)
    shares = [censored, 0.6 * (1 - censored), 0.3 * (1 - censored), 0.1 * (1 - censored)]
    return [
        [Followed(int(rng.integers(0, 8)), str(rng.choice(ENDS, p=shares))) for _ in range(size)]
        for size in rng.integers(0, 5, 40)
    ]


@pytest.mark.parametrize("censored", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_the_incidence_is_that_of_statsmodels_at_every_turn(censored, at):
    trials = drawn(at, censored)
    denials = [one for trial in trials for one in trial]
    with np.errstate(divide="ignore", invalid="ignore"):  # of its standard errors
        oracle = CumIncidenceRight(
            np.array([one.turns for one in denials]) + 1,
            np.array([ENDS.index(one.end) for one in denials]),
        )
    expected = dict(zip(oracle.times - 1, oracle.cinc[at - 1], strict=True))
    found = {turn: incidence(trials, ENDS[at], turn).value for turn in expected}
    assert found == pytest.approx(expected)


def test_with_every_end_seen_it_is_the_clustered_share():
    trials = drawn(7, 0.0)
    found = incidence(trials, "recovered", 3)
    share = clustered(
        [
            (sum(one.end == "recovered" and one.turns <= 3 for one in trial), len(trial))
            for trial in trials
        ]
    )
    assert (found.count, found.n) == (share.count, share.n)
    assert (found.value, found.low, found.high) == pytest.approx(
        (share.value, share.low, share.high)
    )


def test_what_was_lost_from_sight_widens_the_interval_and_is_no_failure():
    seen = [[Followed(1, "recovered")]] * 8 + [[Followed(3, "stalled")]] * 8
    lost = [*seen, *[[Followed(0, "")]] * 8]
    before, after = (incidence(trials, "recovered", inf) for trials in (seen, lost))
    assert (before.value, after.value) == pytest.approx((0.5, 0.5))
    assert (after.n, after.count) == (24, 8)
    assert after.high - after.low == pytest.approx(before.high - before.low)


@pytest.mark.parametrize("trials", [[], [[]], [[Followed(2, "")]]])
def test_nothing_seen_says_nothing(trials):
    found = incidence(trials, "recovered", inf)
    assert (isnan(found.value), found.low, found.high) == (True, 0.0, 1.0)


def test_an_end_that_never_came_still_has_an_interval():
    found = incidence([[Followed(1, "recovered")]] * 5, "stalled", inf)
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high > 0.1


def test_intervals_cover_the_true_incidence_of_clustered_and_censored_denials():
    """Recovery within two turns; trials differ in it. 300 repetitions: 1.3 points for 95 %."""
    rng, covered, true = np.random.default_rng(9), 0, 0.6 * (1 - 0.5**2)
    for _ in range(300):
        trials = [followed(rng, rng.beta(3, 2)) for _ in range(40)]
        found = incidence(trials, "recovered", 2)
        covered += found.low <= true <= found.high
    assert 0.91 <= covered / 300 <= 0.99


def followed(rng, recovers):
    """Each end comes after 1, 2, ... turns with chance a half at each; sight is lost likewise."""
    denials = []
    for _ in range(rng.integers(0, 5)):
        turns, lost = rng.geometric(0.5), rng.geometric(0.1)
        end = "recovered" if rng.random() < recovers else "stalled"
        denials.append(Followed(int(turns), end) if turns <= lost else Followed(int(lost), ""))
    return denials


@pytest.mark.parametrize("turns", [(0, 1, 2), (0, 0, 1, 2, 3, 5, 7), tuple(range(11)), (0, 1) * 7])
def test_of_all_that_ended_so_the_share_and_its_upper_end_are_one_exactly(turns):
    trials = [[Followed(turn, "recovered")] for turn in turns]
    found = incidence([*trials, [Followed(0, "")]], "recovered", 99)
    none = incidence([*trials, [Followed(0, "")]], "stalled", 99)
    assert (found.value, found.high) == (1.0, 1.0)
    assert (none.value, none.low) == (0.0, 0.0)
