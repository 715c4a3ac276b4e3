"""A rate over time, and where it changed: a change is told only when it is settled."""

from agenteval.stats.incidence import changes, points

CALM = [(1, 20)] * 12
WORSE = [(9, 20)] * 12


def test_each_point_has_a_rate_of_its_own() -> None:
    one, other = points({"w1": [(1, 10), (3, 10)], "w2": []})
    assert (one.label, one.trials, one.rate.count, one.rate.n) == ("w1", 2, 4, 20)
    assert (other.trials, other.rate.n) == (0, 0)


def test_a_change_is_told_where_it_was() -> None:
    (found,) = changes({"w1": CALM, "w2": CALM, "w3": WORSE, "w4": WORSE})
    assert (found.since, found.label, found.adjusted < 0.05) == ("w1", "w3", True)
    assert found.difference.second.value > found.difference.first.value


def test_two_changes_are_told_in_the_order_of_time() -> None:
    weeks = {"w1": WORSE, "w2": WORSE, "w3": CALM, "w4": CALM, "w5": WORSE, "w6": WORSE}
    assert [one.label for one in changes(weeks)] == ["w3", "w5"]


def test_no_change_is_told_of_a_rate_that_stays() -> None:
    uneven = [(0, 10), (2, 10), (1, 10), (3, 10), (0, 10), (1, 10)]
    assert changes({f"w{week}": uneven for week in range(8)}) == ()


def test_too_few_trials_settle_nothing() -> None:
    assert changes({"w1": [(0, 10)], "w2": [(9, 10)]}) == ()
    assert changes({"w1": [(0, 10)] * 2, "w2": [(9, 10), (0, 0)]}) == ()
    assert changes({"w1": CALM}) == ()
    assert changes({}) == ()


def test_what_is_looked_at_beside_asks_for_clearer_changes() -> None:
    weeks = {"w1": CALM, "w2": [(4, 20)] * 12}
    (alone,) = changes(weeks)
    (one,) = changes(weeks, others=3)
    assert one.adjusted == 4 * alone.adjusted
    assert changes(weeks, others=round(0.05 / alone.adjusted) + 1) == ()


def test_a_clear_change_in_the_middle_of_many_weeks_is_told_once_and_there() -> None:
    for at in (2, 6, 10):
        weeks = {f"w{week:02}": (CALM if week < at else WORSE) * 3 for week in range(12)}
        assert [one.label for one in changes(weeks)] == [f"w{at:02}"]
