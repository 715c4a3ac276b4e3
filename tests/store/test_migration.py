"""A database of an older version is widened in place, and nothing in it is lost."""

import json
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from schemas import OLDEST, VERSIONS, sqlite_schema
from stored import stored

from agenteval.errors import UsageError
from agenteval.store import read
from agenteval.store import sql as summaries
from agenteval.store import summaries as summaries_summaries
from agenteval.store.location import _UNCOUNTED, SCHEMA
from agenteval.store.search import _GARBLED
from agenteval.store.sql import SqlStore
from agenteval.store.tables import TABLES
from agenteval.testing import denied, run, sub_agent, trial
from agenteval.trial.call import Allowed, Ending, Outcome, ToolCall
from agenteval.trial.run import ModelCard, Options, Run
from agenteval.trial.summary import summarize
from agenteval.trial.trial import CallRecord, Execution, Trial, Turn, Usage

RUN = Run(
    id="r1",
    model=ModelCard("m", "m", tool_parser="hermes"),
    started="t",
    seed=7,
    trials_planned=1,
    max_turns=None,
    concurrency=4,
    sandbox="none",
    protocol="strict/1",
    taxonomy="2",
    policies={"demo": "abc"},
    judged={"s": "abc"},
    prefork=True,
    complete=True,
    requests=1,
    trials=(
        Trial(
            scenario="s",
            number=1,
            seed=99,
            turns=(Turn("text", (), "stop", Usage(10, 5), "{}", 0.5),),
            calls=(
                CallRecord(
                    turn=0,
                    position=0,
                    call=ToolCall("c", "bash", '{"command": "ls"}', {"command": "ls"}),
                    verdict=Allowed(),
                    reply="a",
                    execution=Execution(0, "a", 0.01),
                ),
            ),
            ending=Ending.GOAL,
            outcome=Outcome.COMPLETED,
            seconds=0.5,
        ),
    ),
)


def asked(path: str, sql: str, *values: object) -> list[tuple]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(sql, values).fetchall()


def made(folder: Path, version: int) -> str:
    path = folder / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sqlite_schema(version))
    return str(path)


def test_a_run_of_when_an_arm_was_called_a_profile_tells_its_arm(tmp_path: Path):
    path = str(tmp_path / "runs.db")
    options = Options(
        ["s"], ["m"], None, 1, 7, "4", None, "codex", "all", "end", "0", None, prefork=True
    )
    with closing(SqlStore(path)) as store:
        store.add(replace(RUN, options=options))
    renamed = "json_remove(json_set(options, '$.profile', 'codex'), '$.arm')"
    asked(path, f"UPDATE run SET options = {renamed}")
    assert opened(path).options == options
    with summaries.opened(path) as query:
        found = read.load_summary(query, "r1")
    assert found.conditions.asked["arm"] == "codex"


@pytest.fixture
def old(tmp_path: Path) -> str:
    return made(tmp_path, VERSIONS[0])


def opened(path: str) -> Run:
    with closing(SqlStore(path)) as store:
        return store.load("r1")


def columns(path: str) -> dict[str, set[str]]:
    return {
        table: {row[1] for row in asked(path, f"PRAGMA table_info({table})")} for table in TABLES
    }


def version(path: str) -> int:
    return asked(path, "PRAGMA user_version")[0][0]


@pytest.mark.parametrize("older", VERSIONS)
def test_a_run_of_an_older_schema_is_read_as_it_was_and_its_columns_are_added(
    tmp_path, older
) -> None:
    old = made(tmp_path, older)
    assert (opened(old), columns(old), version(old)) == (
        RUN,
        {name: set(table) for name, table in TABLES.items()},
        SCHEMA,
    )


def test_of_the_counting_before_only_trials_with_sub_agents_are_counted_anew(tmp_path):
    helped = trial("ls", agents=(sub_agent("helper", denied("ls")),))
    path = str(tmp_path / "runs.db")
    made = run(helped, trial("ls", number=2))
    stored(path, made)
    asked(path, "UPDATE trial SET counting = 3, crashed = 9, agent_errors = '{}'")
    asked(path, "PRAGMA user_version = 18")
    with summaries.opened(path) as query:
        found = summaries_summaries.summaries(query, made.id)
    assert [(one.crashed, dict(one.agent_errors)) for one in found] == [
        (0, {"bare-binary": 1}),
        (9, {}),
    ]


QUICK = {"trial_counting", "turn_garbled"}


@pytest.mark.parametrize("older", [OLDEST, SCHEMA - 1])
def test_what_every_reading_asks_first_has_an_index_in_an_older_file_too(tmp_path, older) -> None:
    old = made(tmp_path, older)
    named = "SELECT name FROM sqlite_master WHERE type = 'index'"
    assert not QUICK & {name for (name,) in asked(old, named)}
    opened(old)
    assert {name for (name,) in asked(old, named)} > QUICK
    with closing(sqlite3.connect(old)) as connection:
        for sql, index in ((_UNCOUNTED, "trial_counting"), (_GARBLED, "turn_garbled")):
            plan = connection.execute(f"EXPLAIN QUERY PLAN {sql}", {"counting": 1, "run": "r1"})
            assert f"USING INDEX {index}" in " ".join(row[3] for row in plan)


def test_a_widening_that_was_cut_short_goes_on_at_the_next_opening(old) -> None:
    asked(old, "ALTER TABLE turn ADD COLUMN pieces INTEGER NOT NULL DEFAULT 0")
    assert (opened(old), version(old)) == (RUN, SCHEMA)


def test_two_processes_may_open_it_at_once(old) -> None:
    seen: list[Run] = []
    threads = [threading.Thread(target=lambda: seen.append(opened(old))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [RUN] * 4


def test_a_trial_that_ran_out_of_time_has_the_outcome_of_that_name(old) -> None:
    asked(old, "UPDATE trial SET ending = 'time', outcome = 'out-of-turns'")
    (trial,) = opened(old).trials
    assert (trial.ending, trial.outcome) == (Ending.TIME, Outcome.TIMED_OUT)


def test_a_summary_that_was_counted_otherwise_is_counted_anew_from_its_calls(tmp_path) -> None:
    path = made(tmp_path, 8)
    then = {"aftermaths": [{"turn": 0, "position": 0, "failure_class": "x", "recovery": "pivot"}]}
    asked(path, "UPDATE trial SET recovery = ?, calls = 7", json.dumps(then))
    asked(path, 'UPDATE run SET card = \'{"name": "m", "served_id": "m"}\'')
    with summaries.opened(path) as query:
        found = read.load_summary(query, "r1")
    assert found.trials == tuple(map(summarize, RUN.trials))


def test_a_schema_that_cannot_be_widened_is_refused_and_stays_as_it_is(old) -> None:
    asked(old, f"PRAGMA user_version={SCHEMA + 1}")
    before = columns(old)
    with pytest.raises(UsageError, match=f"written with schema {SCHEMA + 1}"):
        SqlStore(old)
    assert (columns(old), version(old)) == (before, SCHEMA + 1)
