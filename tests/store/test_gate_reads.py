"""Runs as counts, beside the whole runs that they are counted from."""

from contextlib import closing
from dataclasses import replace

import pytest
from test_sql_store import ALLOWED, DENIED, RUN, TRIAL, play, store

from agenteval.errors import HostError, UsageError
from agenteval.store import older
from agenteval.store.location import decoded
from agenteval.store.read import load_summary
from agenteval.store.sql import SqlStore, opened
from agenteval.testing import card
from agenteval.trial.call import Outcome
from agenteval.trial.run import Conditions, Effort, Look
from agenteval.trial.summary import ImportedCounts, TrialSummary
from agenteval.trial.trial import ErrorCounts, Execution

__all__ = ["store"]

LOOK = Look(1, 5, 12, 0.001, "INCONCLUSIVE", "r0", "abc")


def gated(store, run_id="r1"):
    with opened(store.url) as query:
        return load_summary(query, run_id)


@pytest.fixture
def filled(store):
    store.add(RUN)
    killed = replace(ALLOWED, position=2, execution=Execution(None, "", 1.0, "memory"))
    signalled = replace(ALLOWED, position=3, execution=Execution(-11, "", 1.0))
    failed = replace(ALLOWED, position=4, execution=Execution(1, "", 1.0))
    play(store, replace(TRIAL, calls=(ALLOWED, DENIED, killed, signalled, failed)))
    return store


def test_a_trial_is_its_counts(filled):
    (trial,) = gated(filled).trials
    assert (trial.world, trial.outcome, trial.all_errors, trial.errors) == (
        ("s", 1, 99),
        Outcome.COMPLETED,
        (1, 5),
        {"malformed-arguments": 1},
    )
    assert (trial.executed, trial.crashed, bool(trial.handshake), trial.closed) == (
        4,
        2,
        True,
        True,
    )


def test_a_run_keeps_what_two_runs_must_have_in_common_and_its_looks(filled):
    filled.close_run("r1", complete=True, second_reader={}, effort=Effort(12.5))
    filled.look("r1", LOOK)
    found = gated(filled, "last")
    assert (found.id, found.model, found.simulated, found.complete, found.concurrency) == (
        "r1",
        "m",
        False,
        True,
        4,
    )
    assert (found.conditions, found.looks, found.seconds) == (
        Conditions.of(filled.load("r1")),
        (LOOK,),
        12.5,
    )
    assert filled.load("r1").looks == (LOOK,)


def test_a_trial_in_flight_is_void(store):
    store.add(RUN)
    play(store, finish=False)
    found = gated(store)
    assert (found.trials[0].outcome, found.trials[0].handshake, found.counted) == (
        Outcome.VOID,
        (),
        (),
    )


def test_a_store_that_is_not_there_or_is_none_says_so(tmp_path, store):
    other = tmp_path / "notes.txt"
    other.write_text("no database, but long enough to be looked at " * 40)
    told = []
    for where in (tmp_path / "no.db", other):
        with pytest.raises(UsageError) as error, opened(str(where)):
            pass
        told.append(str(error.value))
    with pytest.raises(UsageError) as error:
        gated(store, "r9")
    assert [
        "no such file. Make a run first" in told[0],
        "not a store of agenteval" in told[1],
        str(error.value).startswith("no run 'r9' in the store (newest: none yet)"),
    ] == [True, True, True]


def test_a_store_with_broken_pages_is_a_fault_of_the_host_whoever_asks(tmp_path):
    path = tmp_path / "runs.db"
    with closing(SqlStore(str(path))) as store:
        store.add(RUN)
    size = path.stat().st_size
    with path.open("rb+") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with pytest.raises(HostError, match=r"^--store .*runs.db: the file is damaged"):
        gated(store)


@pytest.mark.parametrize(
    ("column", "value"),
    [("[1]", [1]), ([1], [1]), (r'"\ud800"', "\ud800"), (r'{"a": "\udfff x"}', {"a": "\udfff x"})],
)
def test_a_column_is_its_value_also_where_a_model_wrote_half_a_character(column, value):
    assert decoded(column) == value


def test_a_store_of_today_is_asked_without_what_widens_older_ones(filled, monkeypatch):
    monkeypatch.setattr(older, "_put_views", lambda _: pytest.fail("views are made"))
    assert gated(filled).id == "r1"


def test_counts_of_another_counting_are_made_anew_before_a_gate_reads_them(filled):
    was = gated(filled)
    filled.ask("UPDATE trial SET counting = counting - 1, crashed = 9, executed = 9")
    assert gated(filled) == was


def test_who_may_not_write_reads_counts_of_another_counting_anew(filled, monkeypatch):
    was = gated(filled)
    filled.ask("UPDATE trial SET counting = counting - 1, crashed = 9")
    monkeypatch.setattr("os.access", lambda place, _: str(place).endswith(".db"))
    assert gated(filled) == was


def test_any_database_is_asked_the_same_way(filled):
    by_url = filled.url.replace("sqlite:///", "sqlite+pysqlite:///")
    with opened(by_url) as query:
        assert load_summary(query, "r1") == gated(filled)


@pytest.mark.parametrize("table", ["look", "imported"])
def test_either_table_of_a_later_day_may_be_lacking(filled, table):
    filled.ask(f"DROP TABLE {table}")
    filled.ask("PRAGMA user_version=2")
    assert gated(filled, "r").id == "r1"


def imported(trials, *, by_trial=True):
    counts = ErrorCounts((8, 5), {"bare-binary": (2, 0)}, by_trial=by_trial)
    return ImportedCounts("t1", card("m"), "2026-01-01T00:00:00Z", "m.csv", trials, counts)


def test_counts_by_scenario_and_trial_are_a_run_in_no_world_of_any_run(store):
    store.add_imported(imported((("s", "1"), ("s", "2"))))
    found = gated(store, "t1")
    assert (found.of_counts, found.conditions, found.seconds, found.trials) == (
        True,
        Conditions(),
        None,
        (
            TrialSummary("s", 1, -1, Outcome.COMPLETED, 8, {"bare-binary": 2}),
            TrialSummary("s", 2, -2, Outcome.COMPLETED, 5, {}),
        ),
    )


@pytest.mark.parametrize(
    ("trials", "by_trial"), [((("", ""), ("", "")), False), ((("", "1"), ("", "2")), True)]
)
def test_counts_that_do_not_say_what_belongs_together_are_refused(store, trials, by_trial):
    store.add_imported(imported(trials, by_trial=by_trial))
    with pytest.raises(UsageError, match="t1: its table does not name the scenario and trial"):
        gated(store, "t1")
