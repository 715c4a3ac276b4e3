"""The upgrade contract: what reads an older store changes no byte; what writes copies it first."""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from old_stores import OLDER, contents, counts, restored
from program import PROGRAM, agenteval

from agenteval.store.location import SCHEMA

READING = (
    ("show",),
    ("show", "--json"),
    ("show", "last"),
    ("show", "last", "--json"),
    ("show", "last", "--report", "../report.html"),
    ("calls", "last"),
    ("calls", "last", "--json"),
    ("transcript", "last", "{scenario}"),
    ("export", "calls", "last", "--file", "../calls.csv"),
    ("export", "trials", "last", "--file", "../trials.csv"),
    ("speed", "last"),
    ("trend",),
    ("whatif", "last"),
    ("suggest", "last"),
    ("store", "check"),
    ("store", "export", "--file", "../copy.db"),
    ("runs", "export", "last", "--file", "../run.db"),
    ("view", "--export", "../pages"),
)
# Of a run of before its conditions were kept, some answers are refusals, in a line.
MAY_REFUSE = {"whatif", "suggest", "speed"}


@pytest.fixture
def folder(project) -> Path:
    """A folder with the store alone, which the commands are called in."""
    place = project / "old"
    place.mkdir()
    os.chdir(place)
    return place


def scenario(schema: int) -> str:
    return "ralf-handshake" if schema == 1 else "ralf/handshake"


@pytest.mark.slow
@pytest.mark.parametrize("schema", OLDER)
def test_no_command_that_reads_changes_a_byte_of_an_older_store(cli, folder, schema):
    restored(schema, folder)
    before = contents(folder)
    ends = {}
    for words in READING:
        said = cli(
            *(word.format(scenario=scenario(schema)) for word in words), "--store", "runs.db"
        )
        ends[words] = (said.code, contents(folder) == before)
    assert {words: end for words, end in ends.items() if end != (0, True)} == {
        words: (2, True) for words in ends if ends[words][0] == 2 and words[0] in MAY_REFUSE
    }


@pytest.mark.parametrize("schema", OLDER)
def test_an_upgraded_store_shows_what_it_showed_before_and_its_copy_is_as_it_was(
    cli, folder, schema
):
    file = restored(schema, folder)
    rows, shown = counts(file), cli("show", "last", "--json", "--store", "runs.db").out
    said = cli("store", "upgrade", "--store", "runs.db")
    copy = folder / f"runs.db.schema{schema}"
    again = [cli("show", "last", "--json", "--store", str(one)).out for one in (file, copy)]
    assert (said.code, said.err, again, counts(file), counts(copy), sorted(contents(folder))) == (
        *(0, "", [shown, shown], rows, rows),
        sorted(["runs.db", copy.name]),
    )


def test_the_store_of_today_is_not_upgraded(cli, folder):
    restored(SCHEMA, folder)
    before = contents(folder)
    said = cli("store", "upgrade", "--store", "runs.db")
    told = f"--store runs.db: has schema {SCHEMA}, which is today's; nothing is changed\n"
    assert (said.code, said.out, contents(folder)) == (0, told, before)


def test_the_first_write_names_the_copy_in_one_line(folder):
    file = restored(7, folder)
    done = agenteval(folder, "runs", "label", "last", "mine", "--store", "runs.db")
    upgraded = f"agenteval: --store runs.db: upgraded from schema 7 to {SCHEMA}"
    told = f"{upgraded}; as it was, it is kept in {file}.schema7\n"
    assert (done.returncode, done.stderr) == (0, told)
    assert counts(folder / "runs.db.schema7") == counts(file)


def test_a_gate_keeps_no_look_in_an_older_store_and_says_so(cli, folder, tmp_path):
    base = restored(16, tmp_path)
    with closing(sqlite3.connect(base)) as connection, connection:
        connection.execute("UPDATE run SET id = 'base'")
        connection.execute("UPDATE trial SET run_id = 'base'")
    restored(16, folder)
    before = contents(folder)
    runs = ("--baseline", str(base), "--candidate", "last", "--store", "runs.db")
    said = cli("gate", *runs, "--allow-simulated", "--json")
    assert ("`agenteval store upgrade` changes" in said.out, contents(folder)) == (True, before)


def test_without_room_for_the_copy_nothing_is_changed(folder):
    file = restored(7, folder)
    before = contents(folder)
    limit = file.stat().st_size // 2

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = agenteval(folder, "store", "upgrade", "--store", "runs.db", preexec_fn=small_files)
    assert (done.returncode, done.stderr.count("\n"), contents(folder)) == (4, 1, before)
    assert "not upgraded, as the copy" in done.stderr


def test_the_log_that_a_killed_process_left_beside_an_older_store_stays_there(cli, folder):
    restored(7, folder)
    killed = (
        "import os, sqlite3; c = sqlite3.connect('runs.db');"
        "c.execute('UPDATE run SET complete = 0'); c.commit(); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", killed], check=False)
    kept = ("runs.db", "runs.db-wal")
    before = [contents(folder)[name] for name in kept]
    said = cli("show", "--store", "runs.db")
    assert (said.code, [contents(folder)[name] for name in kept]) == (0, before)


def test_two_processes_that_upgrade_at_once_make_one_copy(folder):
    file = restored(7, folder)
    rows = counts(file)
    command = [*PROGRAM, "store", "upgrade", "--store", "runs.db"]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    ends = [(one.communicate()[1], one.returncode) for one in both]
    assert (ends, counts(file)) == ([(b"", 0)] * 2, rows)
    assert sorted(contents(folder)) == ["runs.db", "runs.db.schema7"]


# Kills its process at the Nth call of a function of the copy, or statement to the database.
STRIKE = """
import os, signal, sys
from sqlalchemy import event
from sqlalchemy.engine import Engine
left = int(sys.argv.pop(1))
def step(*_):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
event.listen(Engine, "before_cursor_execute", step)
event.listen(Engine, "commit", step)
def called(frame, what, _):
    if what == "call" and frame.f_code.co_filename.endswith("store/older.py"):
        step()
sys.setprofile(called)
from agenteval.cli.app import main
sys.argv[0] = "agenteval"
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "strikes"), [(2, (*range(1, 200, 17), 1000)), (15, (*range(2, 120, 13), 1000))]
)
def test_a_kill_at_any_step_of_an_upgrade_leaves_the_old_store_or_the_new_one(
    cli, folder, tmp_path, schema, strikes
):
    file = restored(schema, folder)
    rows, shown = counts(file), cli("show", "last", "--json", "--store", "runs.db").out
    strike = tmp_path / "strike.py"
    strike.write_text(STRIKE)
    ends = set()
    for step in strikes:
        for old in folder.iterdir():
            old.unlink()
        restored(schema, folder)
        words = ("store", "upgrade", "--store", "runs.db")
        done = subprocess.run([sys.executable, strike, str(step), *words], check=False)
        left = (counts(file), cli("show", "last", "--json", "--store", "runs.db").out)
        again = cli("store", "upgrade", "--store", "runs.db").code
        killed = done.returncode == -signal.SIGKILL
        ends.add((killed, left == (rows, shown), again, counts(file) == rows))
    assert ends == {(True, True, 0, True), (False, True, 0, True)}


def test_a_store_of_a_newer_schema_is_refused_with_the_cure(cli, folder):
    file = restored(SCHEMA, folder)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version={SCHEMA + 1}")
    before = contents(folder)
    told = {cli(*words, "--store", "runs.db").err for words in (("show",), ("store", "upgrade"))}
    newer = f"agenteval: --store runs.db: written with schema {SCHEMA + 1}, this agenteval has "
    cure = "use the agenteval that wrote it, or give another --store\n"
    assert (told, contents(folder)) == ({f"{newer}{SCHEMA}; {cure}"}, before)
