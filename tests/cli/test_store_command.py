"""`agenteval store`: damage is told, and a store gets small without losing a byte."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from agenteval.errors import HostError
from agenteval.protocols import TrialKey
from agenteval.store.location import PACKED
from agenteval.store.rows import TurnRow
from agenteval.store.sql import SqlStore
from agenteval.testing import run, trial

STORE = "reports/agenteval.db"
REPLY = 'data: {"choices": [{"delta": {"content": "a word, \ud83d"}}]}\n\n' * 200
NUMBERS = "SELECT count(*), sum(raw LIKE '\x02zlib:%'), max(length(raw)) FROM turn"


def filled(*, as_it_came: bool = False) -> None:
    """A store of one trial; `as_it_came` as one of before had its replies."""
    made = trial("ls")
    made = replace(made, turns=tuple(replace(turn, raw=REPLY) for turn in made.turns))
    value = run(run_id="r1")
    with closing(SqlStore(STORE)) as store:
        store.add(value)
        recorder = store.recorder(value, {made.scenario: "sha256:0"})
        recorder.begin(key := TrialKey(made.scenario, made.number, made.seed))
        for number, turn in enumerate(made.turns):
            recorder.turn(key, number, turn)
        for record in made.calls:
            recorder.call(key, record)
        recorder.finish(key, made)
    if as_it_came:
        with closing(sqlite3.connect(STORE)) as database, database:
            database.execute("UPDATE turn SET raw = ?", ["a" * 100_000])


def asked(sql: str) -> tuple[object, ...]:
    with closing(sqlite3.connect(STORE)) as database:
        return database.execute(sql).fetchone()


def raws() -> set[str]:
    with closing(SqlStore(STORE)) as store:
        return {turn.raw for one in store.load("r1").trials for turn in one.turns}


def test_a_reply_is_kept_compressed_and_comes_back_as_it_was(project) -> None:
    filled()
    turns, packed, longest = asked(NUMBERS)
    assert (raws(), packed, longest < len(REPLY) / 10) == ({REPLY}, turns, True)


@pytest.mark.parametrize("reply", ["", "short", PACKED, f"{PACKED}{'x' * 600}", "\0" * 600, REPLY])
def test_whatever_a_server_sent_comes_back(project, reply) -> None:
    filled()
    with closing(SqlStore(STORE)) as store, store.connect() as connection, connection.begin():
        connection.execute(update(TurnRow).values(raw=reply))
    assert raws() == {reply}


def test_replies_of_before_are_compressed_and_the_space_is_given_back(cli, project) -> None:
    filled(as_it_came=True)
    before = Path(STORE).stat().st_size
    said = cli("store", "vacuum")
    turns, packed, _ = asked(NUMBERS)
    assert (said.code, raws(), packed) == (0, {"a" * 100_000}, turns)
    assert Path(STORE).stat().st_size < before - 50_000
    assert " MB before, " in said.out


def test_a_sound_store_has_nothing_wrong(cli, project) -> None:
    filled()
    said = cli("store", "check")
    assert (said.code, said.out) == (0, "nothing is wrong\n")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("UPDATE turn SET trial_id = 99", "rows of turn belong to no row of trial"),
        ("UPDATE trial SET run_id = 'gone'", "1 rows of trial belong to no row of run"),
        ("DELETE FROM call", "1 trials have other calls than were counted when they ended"),
        ("DELETE FROM turn WHERE number = 0", "calls belong to no turn"),
    ],
)
def test_what_is_wrong_is_told_in_a_line_with_the_machine_s_exit_code(
    cli, project, damage, said
) -> None:
    filled()
    with closing(sqlite3.connect(STORE)) as database, database:
        database.execute(damage)
    found = cli("store", "check")
    assert (found.code, said in found.err) == (4, True)


def test_a_damaged_page_is_told(cli, project) -> None:
    filled()
    with closing(sqlite3.connect(STORE)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        page = database.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'trial_in_force'"
        ).fetchone()[0]
    with Path(STORE).open("r+b") as file:
        file.seek((page - 1) * 4096 + 8)
        file.write(b"\xff" * 64)
    found = cli("store", "check")
    assert (found.code, "damaged" in found.err or "malformed" in found.err) == (4, True)


@pytest.mark.parametrize("reply", [f"{PACKED}!", f"{PACKED}eJwLSY0w", '\x02json:"'])
def test_a_text_that_was_damaged_in_its_place_is_told_as_damage(project, reply) -> None:
    filled()
    with closing(sqlite3.connect(STORE)) as database, database:
        database.execute("UPDATE turn SET raw = ?", [reply])
    with pytest.raises(HostError, match="the file is damaged"):
        raws()


@pytest.mark.parametrize("what", ["check", "vacuum"])
def test_a_store_that_is_not_there_is_refused(cli, project, what) -> None:
    refused = cli("store", what, "--store", "none.db")
    assert (refused.code, "no such file" in refused.err, Path("none.db").exists()) == (
        2,
        True,
        False,
    )


def test_a_store_is_copied_whole_or_in_part_into_a_new_file(cli, project) -> None:
    for seed in ("1", "2"):
        cli("run", "-m", "sim/qwen3.6-35b", "--trials", "1", "--seed", seed, "data/pantry-audit")
    cli("store", "export", "--file", "whole.db")
    cli("store", "export", "last", "--file", "part.db")
    with closing(SqlStore(STORE)) as store, closing(SqlStore("whole.db")) as whole:
        runs = store.runs()
        assert (whole.runs(), whole.load(runs[0].id)) == (runs, store.load(runs[0].id))
    with closing(SqlStore("part.db")) as part:
        assert part.runs() == runs[:1]
    again = cli("store", "export", "--file", "part.db")
    assert (again.code, "is there already" in again.err) == (2, True)


def test_a_store_in_postgresql_is_looked_through_and_made_small_too(cli, project, postgres) -> None:
    url = postgres.url(postgres.new())
    SqlStore(url).close()
    codes = [cli("store", what, "--store", url).code for what in ("check", "vacuum")]
    assert codes == [0, 0]
