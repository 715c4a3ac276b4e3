"""The store in a real PostgreSQL: every older schema, claims, and trials that are played again."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from postgres import FAST, AbsentError, Server, serving
from schemas import VERSIONS, postgres_schema
from sqlalchemy.exc import DBAPIError
from test_migration import RUN
from test_sql_store import KEY, TRIAL, commits, play
from test_sql_store import RUN as NEW_RUN

from agenteval.errors import Cause, HostError, UsageError
from agenteval.store.location import SCHEMA
from agenteval.store.read import load_summary
from agenteval.store.sql import SqlStore, opened
from agenteval.store.summaries import known_runs
from agenteval.store.tables import TABLES
from agenteval.trial.call import Ending, Outcome
from agenteval.trial.summary import summarize

VOID = replace(TRIAL, outcome=Outcome.VOID, ending=Ending.BROKEN, cause=Cause.CRASHED)
COLUMNS = """SELECT table_name, column_name FROM information_schema.columns
    WHERE table_schema = 'public'"""


@pytest.fixture
def store(postgres):
    with closing(SqlStore(postgres.url(postgres.new()))) as opened:
        yield opened


def test_an_older_database_is_read_without_being_altered(postgres) -> None:
    database = postgres.new(postgres_schema(7))
    with postgres.asks(database) as connection:
        before = connection.execute(COLUMNS).fetchall()
    with opened(postgres.url(database)) as query:
        read = load_summary(query, "r1")
    with postgres.asks(database) as connection:
        after = connection.execute(COLUMNS).fetchall()
    assert (read.trials, sorted(after)) == (tuple(map(summarize, RUN.trials)), sorted(before))


@pytest.mark.slow
@pytest.mark.parametrize("older", VERSIONS)
def test_every_older_schema_is_widened_in_place_and_its_trials_can_be_played_again(
    postgres, older
) -> None:
    database = postgres.new(postgres_schema(older))
    with closing(SqlStore(postgres.url(database))) as store:
        read = store.load("r1")
        with postgres.asks(database) as connection:
            connection.execute("UPDATE trial SET outcome = 'void', cause = 'crashed'")
            columns = set(connection.execute(COLUMNS).fetchall())
        aside = store.set_aside("r1", voids=True)
        play(store)
        again = store.load("r1")
    assert (read, aside, again.replaced, again.trials) == (
        RUN,
        [("s", 1)],
        {"crashed": 1},
        (TRIAL,),
    )
    assert columns == {(name, column) for name, table in TABLES.items() for column in table}


@pytest.mark.parametrize(("given", "at_the_end"), [("off", "on"), ("remote_apply", "remote_apply")])
def test_the_end_of_a_trial_waits_for_the_disk_though_the_server_is_set_not_to(
    postgres, given, at_the_end
) -> None:
    """PostgreSQL says how far a commit goes: with `off` it is only in memory when it returns."""
    database = postgres.new()
    with postgres.asks(database) as connection:
        connection.execute(f"ALTER DATABASE {database} SET synchronous_commit = {given}")
    with closing(SqlStore(postgres.url(database))) as store:
        seen = commits(store, "SHOW synchronous_commit")
    assert seen == [("INSERT", given), ("UPDATE", at_the_end), ("INSERT", given)]


def test_a_turn_is_one_commit_with_its_first_call_and_alone_where_none_follows(postgres) -> None:
    """A commit waits for the disk; `xmin` is the transaction that wrote a row."""
    database = postgres.new()
    with closing(SqlStore(postgres.url(database))) as store:
        store.add(NEW_RUN)
        recorder = store.recorder(NEW_RUN, {"s": "abc"})
        turn, (first, second) = TRIAL.turns[0], TRIAL.calls[:2]
        recorder.begin(KEY)
        recorder.turn(KEY, 0, turn)
        recorder.call(KEY, first)
        recorder.call(KEY, second)
        recorder.turn(KEY, 1, turn)
        recorder.turn(KEY, 2, turn)
        with postgres.asks(database) as connection:
            turns = connection.execute("SELECT number, xmin::text FROM turn").fetchall()
            calls = connection.execute("SELECT xmin::text FROM call ORDER BY id").fetchall()
        recorder.finish(KEY, TRIAL)
        with postgres.asks(database) as connection:
            numbers = connection.execute("SELECT number FROM turn ORDER BY id").fetchall()
    assert [number for number, _ in turns] == [0, 1]
    assert turns[0][1] == calls[0][0] != calls[1][0]
    assert numbers == [(0,), (1,), (2,)]


def test_a_call_that_cannot_be_stored_leaves_its_turn_to_the_end_of_the_trial(postgres) -> None:
    database = postgres.new()
    with closing(SqlStore(postgres.url(database))) as store:
        store.add(NEW_RUN)
        recorder = store.recorder(NEW_RUN, {"s": "abc"})
        recorder.begin(KEY)
        recorder.turn(KEY, 0, TRIAL.turns[0])
        with postgres.asks(database) as connection:
            connection.execute("ALTER TABLE call ADD CHECK (position < 0)")
        with pytest.raises(DBAPIError):
            recorder.call(KEY, TRIAL.calls[0])
        recorder.finish(KEY, VOID)
        with postgres.asks(database) as connection:
            turns = connection.execute("SELECT number FROM turn").fetchall()
            calls = connection.execute("SELECT id FROM call").fetchall()
    assert (turns, calls) == ([(0,)], [])


TELL = "SELECT obj_description('run'::regclass, 'pg_class')"


def test_a_newer_schema_is_refused_before_anything_is_altered(postgres) -> None:
    database = postgres.new(postgres_schema(VERSIONS[0]))
    with postgres.asks(database) as connection:
        connection.execute("COMMENT ON TABLE run IS 'agenteval schema 99'")
        before = set(connection.execute(COLUMNS).fetchall())
    with pytest.raises(UsageError, match=f"written with schema 99, this agenteval has {SCHEMA}"):
        SqlStore(postgres.url(database))
    with postgres.asks(database) as connection:
        assert set(connection.execute(COLUMNS).fetchall()) == before


def test_an_older_one_gets_the_number_that_sqlite_keeps_too_and_opens_again(postgres) -> None:
    database = postgres.new(postgres_schema(VERSIONS[0]))
    read = []
    for _ in range(2):
        with closing(SqlStore(postgres.url(database))) as store:
            read.append(store.load("r1"))
    with postgres.asks(database) as connection:
        number = connection.execute(TELL).fetchone()
    assert (read, number) == ([RUN, RUN], (f"agenteval schema {SCHEMA}",))


OPENS = """import sys
from agenteval.store.sql import SqlStore
print("ready", flush=True)
sys.stdin.readline()
SqlStore(sys.argv[1]).close()
"""


@pytest.mark.slow
def test_processes_that_open_a_new_database_at_once_make_its_tables_together(postgres) -> None:
    those = [
        subprocess.Popen(
            [sys.executable, "-c", OPENS, postgres.url(database)], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for database in [postgres.new()] * 5
    ]  # fmt: skip
    for one in those:
        one.stdout.readline()
    for one in those:
        one.stdin.write("\n")
        one.stdin.flush()
    ends = [(one.communicate()[1], one.returncode) for one in those]
    assert ends == [("", 0)] * 5


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server for one test, which may kill it."""
    try:
        with serving(FAST) as server:
            yield server
    except AbsentError as absent:
        pytest.skip(str(absent))


def test_a_server_that_is_down_is_the_machine_s_fault_and_a_name_it_does_not_know_is_ours(
    own_server,
) -> None:
    there = own_server.url(own_server.new())
    with pytest.raises(UsageError, match=r'cannot be opened.*"nobody" does not exist'):
        SqlStore(own_server.url("nobody"))
    own_server.kill()
    for opening in (SqlStore, ids):
        with pytest.raises(HostError, match="bring the database back"):
            opening(there)


def test_each_question_to_a_server_that_died_is_one_line_until_it_is_back(own_server) -> None:
    with closing(SqlStore(own_server.url(own_server.new()))) as store:
        store.add(NEW_RUN)
        own_server.kill()
        for _ in range(3):
            with pytest.raises(HostError, match="bring the database back"):
                store.load("r1")
        own_server.start()
        play(store)
        assert store.load("r1").trials == (TRIAL,)


def test_a_server_that_only_reads_is_read_and_says_in_one_line_that_nothing_is_written(
    postgres,
) -> None:
    name = postgres.new()
    with closing(SqlStore(postgres.url(name))) as store:
        store.add(NEW_RUN)
    with postgres.asks() as connection:
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with closing(SqlStore(postgres.url(name))) as store:
        assert store.load("r1").id == "r1"
        with pytest.raises(HostError, match=r"^--store .*in a read-only transaction\. What was"):
            store.tag("r1", ["old"], None, off=False)


def ids(url: str) -> list[str]:
    with opened(url) as query:
        return [run.id for run in known_runs(query)]


def test_a_run_comes_back_as_it_was_with_every_character(store) -> None:
    store.add(NEW_RUN)
    play(store)
    assert store.load("r1") == replace(NEW_RUN, trials=(TRIAL,), requests=1)


def test_the_tallies_and_the_gate_read_the_same_counts(store) -> None:
    store.add(NEW_RUN)
    play(store)
    _, tallied = store.summarized("last")
    with opened(store.url) as query:
        counted = load_summary(query, "r1")
    assert ([(one.calls, dict(one.errors)) for one in tallied], len(counted.trials)) == (
        [(2, {"malformed-arguments": 1})],
        1,
    )


def test_no_two_trials_in_force_have_one_number(store) -> None:
    store.add(NEW_RUN)
    play(store, replace(VOID, turns=(), calls=()))
    store.set_aside("r1", voids=True)
    play(store)
    with pytest.raises(Exception, match="trial_in_force"):
        store.recorder(NEW_RUN, {"s": "abc"}).begin(KEY)


def test_a_run_is_claimed_by_one_at_a_time(store) -> None:
    with closing(SqlStore(store.url)) as other:
        with store.claimed("r1"):
            with other.claimed("r2"):
                with pytest.raises(UsageError, match="run r1 is being played by another process"):
                    with other.claimed("r1"):
                        raise AssertionError("claimed twice")
        with other.claimed("r1"):
            pass
