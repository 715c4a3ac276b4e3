"""Draws follow from their key, reach every value, and keep their bounds."""

from collections import Counter

import pytest

from agenteval.trial.text import Chance, Day, Pick, Whole, seed_of_trial, turn_seed

DRAWS = {
    "integer": lambda chance: chance.integer(3, 5),
    "number": lambda chance: chance.number(0.5, 0.7, 1),
    "choice": lambda chance: chance.choice("abc"),
    "sample": lambda chance: tuple(chance.sample([1, 2, 3], 2)),
    "shuffled": lambda chance: tuple(chance.shuffled([1, 2])),
    "day": lambda chance: chance.day("2026-02-27", "2026-03-01"),
    "Whole": Whole(-1, 1).drawn,
    "Day": Day("2026-01-01", "2026-01-02").drawn,
    "Pick": Pick(("a", "b")).drawn,
    "Pick two": lambda chance: tuple(Pick(("a", "b"), 2).drawn(chance)),
}
POSSIBLE = {
    "integer": {3, 4, 5},
    "number": {0.5, 0.6, 0.7},
    "choice": {"a", "b", "c"},
    "sample": {(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)},
    "shuffled": {(1, 2), (2, 1)},
    "day": {"2026-02-27", "2026-02-28", "2026-03-01"},
    "Whole": {-1, 0, 1},
    "Day": {"2026-01-01", "2026-01-02"},
    "Pick": {"a", "b"},
    "Pick two": {("a", "b"), ("b", "a")},
}


@pytest.mark.parametrize("name", DRAWS)
def test_every_possible_value_comes_about_equally_often_and_no_other(name):
    chance = Chance("key")

    seen = Counter(DRAWS[name](chance) for _ in range(600))

    assert seen.keys() == POSSIBLE[name]
    assert min(seen.values()) > 600 / len(seen) * 0.7


@pytest.mark.parametrize("name", DRAWS)
def test_one_key_gives_one_stream(name):
    one, two = Chance("key"), Chance("key")

    assert [DRAWS[name](one) for _ in range(9)] == [DRAWS[name](two) for _ in range(9)]


def test_the_stream_is_the_same_on_every_machine():
    chance = Chance("key")

    assert [chance.integer(0, 999) for _ in range(5)] == [921, 511, 500, 270, 383]


def test_nothing_to_draw_from_is_an_error():
    with pytest.raises(ValueError, match="no whole number from 0 to -1"):
        Chance("key").choice([])


def test_every_turn_sends_a_seed_of_its_own_that_tells_the_trials_seed() -> None:
    trial = 2**31 - 1
    sent = [turn_seed(trial, turns) for turns in range(200)]
    told = {seed_of_trial(seed, turns) for turns, seed in enumerate(sent)}
    assert (sent[0], len(set(sent)), max(sent) < 2**31, told) == (trial, 200, True, {trial})
