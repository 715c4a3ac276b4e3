"""`run --resume` on a store that somebody changed: one line, and nothing of it doubled or lost."""

import sqlite3
from contextlib import closing

import pytest

RUN = ("--model", "sim/qwen3.5-27b", "--trials", "2", "--seed", "3", "notes/append")
# The second trial is to be played again, so that there is something to go on with.
INTERRUPTED = (
    "UPDATE run SET complete = 0",
    "DELETE FROM call WHERE trial_id = 2",
    "DELETE FROM turn WHERE trial_id = 2",
    "DELETE FROM trial WHERE id = 2",
)
PLAYED, REFUSED, DAMAGED = (0, 2), (2, 1), (4, 1)
TAMPERED = {
    "an allowed call is denied without a reason": (
        *("UPDATE call SET allowed = 0, findings = '[]'", (4, 2)),
    ),
    "a call belongs to no trial": ("UPDATE call SET trial_id = 999 WHERE id = 2", PLAYED),
    "a trial belongs to no shard": ("UPDATE trial SET shard = 77", PLAYED),
    "another outcome": ("UPDATE trial SET outcome = 'won'", DAMAGED),
    "judges are a list": ("UPDATE run SET judged = '[1]'", DAMAGED),
    "the card is a list": ("UPDATE run SET card = '[]'", DAMAGED),
    "trials are a word": (
        *("UPDATE run SET options = json_set(options, '$.trials', 'many')", DAMAGED),
    ),
    "fewer trials than none": (
        *("UPDATE run SET options = json_set(options, '$.trials', -5)", DAMAGED),
    ),
    "a folder in place of a scenario": (
        *("""UPDATE run SET options = json_set(options, '$.targets', json('["/etc"]'))""", REFUSED),
    ),
    "another scenario": ("""UPDATE run SET scenarios = '{"/etc/passwd": "x"}'""", REFUSED),
    "another allow list": ("""UPDATE run SET policies = '{"x": 3}'""", REFUSED),
    "another model": ("""UPDATE run SET card = json_set(card, '$.name', 'real')""", REFUSED),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", TAMPERED)
def test_a_run_of_a_changed_store_goes_on_or_is_refused_in_one_line(cli, project, what):
    change, (code, trials) = TAMPERED[what]
    cli("run", *RUN, "--store", "runs.db")
    with closing(sqlite3.connect("runs.db")) as connection, connection:
        for statement in (*INTERRUPTED, change):
            connection.execute(statement)
    said = cli("run", "--resume", "last", "--store", "runs.db")
    complaints = [line for line in said.err.splitlines() if line.startswith("agenteval: ")]
    with closing(sqlite3.connect("runs.db")) as connection:
        found = connection.execute("SELECT number FROM trial WHERE NOT replaced").fetchall()
    assert (said.code, len(complaints), sorted(found)) == (
        *(code, int(code != 0)),
        [(number,) for number in range(1, trials + 1)],
    )


@pytest.mark.slow
def test_a_store_without_a_table_is_none_for_what_reads_it(cli, project):
    cli("run", *RUN, "--store", "runs.db")
    with closing(sqlite3.connect("runs.db")) as connection, connection:
        connection.execute('DROP TABLE "call"')
    line = "agenteval: --store runs.db: not a store of agenteval (no such table: call)"
    for words in (("store", "check"), ("calls", "last"), ("show", "last")):
        said = cli(*words, "--store", "runs.db")
        assert (said.code, said.err.partition(";")[0]) == (2, line), words


def test_an_empty_file_is_no_store(cli, project):
    (project / "runs.db").touch()
    said = cli("store", "check", "--store", "runs.db")
    line = "agenteval: --store runs.db: not a store of agenteval (no such column: id)"
    assert (said.code, said.err.partition(";")[0]) == (2, line)
