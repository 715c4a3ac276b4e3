"""What the checks of a goal find in a world before anything was done."""

import sqlite3
from contextlib import closing

from agenteval.trial.trial import Check
from agenteval.workflows.cheats import _initial_rows


def test_each_check_has_its_first_value_or_none_where_it_cannot_be_asked():
    with closing(sqlite3.connect(":memory:")) as world:
        world.executescript("CREATE TABLE notes (n); INSERT INTO notes VALUES (7);")
        content = world.serialize()
    queries = ["SELECT n FROM notes", "SELECT n FROM notes WHERE n > 7", "SELECT n FROM later"]

    found = _initial_rows(content, [Check(query, query, 7) for query in queries])

    assert found == [7, None, None]
