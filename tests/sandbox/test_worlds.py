"""The world of a seed: made once for a trial, and the same bytes however often it is asked for."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

import pytest
from test_sub_agents import AGENT, SCENARIO

from agenteval.sandbox.maker import WorldError, database, requested, variables

WORLD = """\
CREATE TABLE notes (id INTEGER, word TEXT);
INSERT INTO notes VALUES (1, '{{ words.first }}'), ({{ chance.integer(2, 92) }}, 'b');
"""


WORDS = {"first": "first"}


def asking(words: Mapping[str, str]):
    return replace(SCENARIO, world=WORLD, words=words, asks={"most": "SELECT max(id) FROM notes"})


def test_what_is_asked_of_a_world_is_answered_by_the_one_that_its_files_hold() -> None:
    scenario = asking(WORDS)
    image, chosen = database(scenario, 7), variables(scenario, 7)
    with closing(sqlite3.connect(":memory:")) as world:
        world.deserialize(image)
        (most,) = world.execute("SELECT max(id) FROM notes").fetchone()
    assert chosen["most"] == most


def test_a_draw_may_be_named_as_an_item_as_well() -> None:
    plain = asking(WORDS)
    item = replace(plain, world=WORLD.replace("chance.integer", "chance['integer']"))
    assert database(item, 11) == database(plain, 11)


def test_another_seed_and_another_scenario_are_other_worlds() -> None:
    one, other = asking(WORDS), asking(WORDS)
    images = {seed: database(one, seed) for seed in range(6)}
    assert {seed: database(other, seed) for seed in range(6)} == images
    assert len(set(images.values())) > 1
    assert {seed: database(one, seed) for seed in range(6)} == images


@pytest.mark.parametrize(
    "reached",
    ["chance._key", "chance.__class__", "chance.integer.__globals__", "words.__class__",
     "''.__class__.__mro__", "''.join.__self__.__class__", "words.first.append(1)",
     "chance.integer.__self__._key", "chance.key", "namespace(a='b').__class__",
     "namespace(a='b').c", "namespace(a='b')._Namespace__attrs", "namespace(a='b').a.__class__",
     "namespace(a='{0.__class__}').a.format(1)"],
)  # fmt: skip
def test_a_script_reaches_draws_and_words_and_nothing_behind_them(reached) -> None:
    script = WORLD + "SELECT '{{ " + reached + " }}';"
    with pytest.raises(WorldError):
        database(replace(asking({"first": ["a"]}), world=script), 1)


def test_a_script_keeps_words_and_draws_from_one_round_to_the_next() -> None:
    rounds = (
        "{% for at in range(3) %}{% set kept.a = kept.a ~ chance.integer(at, at) %}{% endfor %}"
    )
    script = "{% set kept = namespace(a='x', n=2) %}" + rounds
    script += "CREATE TABLE t AS SELECT '{{ kept.a ~ kept.n ~ kept.a.upper() }}' AS a;"
    scenario = replace(asking({}), world=script, asks={"seen": "SELECT a FROM t"})
    assert variables(scenario, 1)["seen"] == "x0122X012"


def test_a_scenario_that_is_read_again_has_the_worlds_that_are_made() -> None:
    first, again, other = (asking({"first": word}) for word in ("a", "a", "b"))
    image = database(first, 11)
    assert database(replace(again, title="Another"), 11) == image
    assert database(other, 11) != image


def test_what_is_asked_of_a_fresh_world_changes_no_later_one() -> None:
    scenario = asking(WORDS)
    before = database(scenario, 3)
    agent = replace(AGENT, spawned="DELETE FROM notes WHERE id > 1000 RETURNING id AS number")
    assert requested(scenario, agent, 3, {}) == ("number",)
    assert database(scenario, 3) == before


def test_a_script_that_makes_nothing_makes_an_empty_world() -> None:
    scenario = replace(SCENARIO, world="-- nothing", asks={"seven": "SELECT 3 + 4"})
    with closing(sqlite3.connect(":memory:")) as world:
        world.deserialize(database(scenario, 1))
        tables = world.execute("SELECT count(*) FROM sqlite_master").fetchone()
    assert (variables(scenario, 1)["seven"], tables) == (7, (0,))


def test_a_script_that_is_no_sql_makes_no_world() -> None:
    with pytest.raises(WorldError, match="makes no database"):
        variables(replace(asking(WORDS), world="MAKE TABLE"), 1)
