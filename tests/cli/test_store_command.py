"""`agenteval store`: damage is told, and a store gets small without losing a byte."""

import ctypes
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from program import agenteval
from scripted_server import scripted
from sqlalchemy import update
from stored import stored

from agenteval.errors import HostError
from agenteval.store.migration import METADATA
from agenteval.store.sql import SqlStore
from agenteval.store.texts import PACKED
from agenteval.testing import run, trial

STORE = "reports/agenteval.db"
REPLY = 'data: {"choices": [{"delta": {"content": "a word, \ud83d"}}]}\n\n' * 200
NUMBERS = "SELECT count(*), sum(raw LIKE '\x02zlib:%'), max(length(raw)) FROM turn"


def filled(*, as_it_came: bool = False) -> None:
    """A store of one trial; `as_it_came` as one of before had its replies."""
    made = trial("ls")
    made = replace(made, turns=tuple(replace(turn, raw=REPLY) for turn in made.turns))
    stored(STORE, run(made, run_id="r1"))
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
        connection.execute(update(METADATA.tables["turn"]).values(raw=reply))
    assert raws() == {reply}


def test_replies_of_before_are_compressed_and_the_space_is_given_back(cli, project) -> None:
    filled(as_it_came=True)
    before = Path(STORE).stat().st_size
    said = cli("store", "vacuum")
    turns, packed, _ = asked(NUMBERS)
    assert (said.code, raws(), packed) == (0, {"a" * 100_000}, turns)
    assert Path(STORE).stat().st_size < before - 50_000
    assert " MB before, " in said.out


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
    sound = cli("store", "check")
    with closing(sqlite3.connect(STORE)) as database, database:
        database.execute(damage)
    found = cli("store", "check")
    assert (sound.code, sound.out) == (0, "nothing is wrong\n")
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


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("run.card", '{"nbme": "m"}', ("show", "last", "--details")),
        ("run.card", '{"name": "m"', ("run", "--resume", "last")),
        ("run.second_reader", '{"agreed" 1}', ("rescore", "last")),
        ("turn.repairs", '[{"hint": ""}]', ("transcript", "last", "notes#1")),
        ("call.findings", "[{]", ("store", "export", "--file", "copy.db")),
        ("turn.garbles", '[{"kind": 1}]', ("transcript", "last", "notes#1")),
        ("trial.goal", '[{"held" true}]', ("show", "last")),
        ("trial.handshake", "[1]", ("show", "last")),
        ("trial.outcome", "compleued", ("compare", "last", "last")),
    ],
)
def test_a_value_that_was_damaged_in_its_place_is_one_line(
    cli, project, column, value, words
) -> None:
    filled()
    table, _, name = column.partition(".")
    with closing(sqlite3.connect(STORE)) as database, database:
        database.execute(f"UPDATE {table} SET {name} = ?", [value])
    told = cli(*words)
    assert (told.code, "the file is damaged (" in told.err, told.err.count("\n")) == (4, True, 1)


def test_values_that_were_damaged_in_their_place_are_found(cli, project) -> None:
    filled()
    with closing(sqlite3.connect(STORE)) as database, database:
        database.execute("UPDATE run SET card = '{'")
        database.execute("UPDATE turn SET raw = ?", [f"{PACKED}!"])
    found = cli("store", "check")
    said = [f"{at} has a value that cannot be read" for at in ("run.card", "turn.raw")]
    assert (found.code, [one in found.err for one in said]) == (4, [True, True])


def test_a_schema_that_is_no_text_is_damage(cli, project) -> None:
    filled()
    with closing(sqlite3.connect(STORE)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file = Path(STORE)
    file.write_bytes(
        file.read_bytes().replace(b"CREATE TABLE run (", b"CREATE \xce\xceBLE run (", 1)
    )
    for words in (("store", "check"), ("show",), ("finish", "last")):
        told = cli(*words)
        assert (told.code, "the file is damaged (" in told.err) == (4, True)


@pytest.mark.parametrize("what", ["check", "vacuum"])
def test_a_store_that_is_not_there_is_refused(cli, project, what) -> None:
    refused = cli("store", what, "--store", "none.db")
    assert (refused.code, "no such file" in refused.err) == (2, True)
    assert not Path("none.db").exists()


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


ASKED = {
    "show": ("show",),
    "check": ("store", "check"),
    "finish": ("finish", "last"),
    "gate": ("gate", "--baseline", "a", "--candidate", "b"),
    "run": ("run", "-m", "sim/qwen3.6-35b", "ralf/handshake", "--trials", "1"),
}


@pytest.mark.parametrize("words", ASKED.values(), ids=ASKED)
def test_nothing_is_added_to_the_database_of_another_program(cli, project, words) -> None:
    with closing(sqlite3.connect("places.sqlite")) as database:
        database.execute("CREATE TABLE moz_places (url TEXT)")
    before = Path("places.sqlite").read_bytes()
    refused = cli(*words, "--store", "places.sqlite")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "--store places.sqlite: a database of another program, with a table" in refused.err
    after = {path.name: path.read_bytes() for path in Path().glob("places*")}
    assert after == {"places.sqlite": before}


@pytest.mark.parametrize("store", ["", ":memory:", "sqlite://", "sqlite:///:memory:"])
def test_a_store_that_keeps_nothing_is_refused_before_a_trial_is_played(
    cli, project, store
) -> None:
    refused = cli(*ASKED["run"], "--store", store)
    told = f"agenteval: --store {store!r}: keeps no run; name a file, such as runs.db\n"
    assert (refused.code, refused.err) == (2, told)


@pytest.mark.parametrize("words", ASKED.values(), ids=ASKED)
def test_a_folder_is_no_store(cli, project, words) -> None:
    Path("kept").mkdir()
    refused = cli(*words, "--store", "kept")
    told = "agenteval: --store kept: a folder; name a file in it, such as kept/runs.db\n"
    assert (refused.code, refused.err) == (2, told)


def test_a_store_that_goes_away_while_a_run_is_played_is_the_machine_s_fault(cli, project) -> None:
    def answer(messages):
        for file in Path(STORE).parent.glob("agenteval.db*"):
            file.unlink()
        return "It is done."

    with scripted(answer) as url:
        words = ("run", "-m", "m", "--base-url", url, "ralf/handshake", "--trials", "1")
        ended = cli(*words)
    said = f"agenteval: --store {STORE}: it was removed, or moved, while the run was played. "
    assert (ended.code, ended.err.splitlines()[-1].startswith(said)) == (4, True)


def bound() -> None:
    """Root, too, may write only where its permissions say so."""
    for capability in (1, 2, 3):  # DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER
        ctypes.CDLL(None).prctl(24, capability)  # PR_CAPBSET_DROP


@pytest.mark.parametrize("words", [("show",), ("show", "r1", "--json")])
def test_a_store_in_a_folder_that_cannot_be_written_is_read(cli, project, words) -> None:
    filled()
    expected = cli(*words).out
    Path(STORE).chmod(0o444)
    Path(STORE).parent.chmod(0o555)
    told = agenteval(project, *words, preexec_fn=bound)
    Path(STORE).parent.chmod(0o755)
    assert (told.returncode, told.stderr, told.stdout) == (0, "", expected)
