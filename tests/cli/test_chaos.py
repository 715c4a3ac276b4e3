"""Whatever befalls a run: no answered call is lost or doubled, nothing is left, no figure differs.

Each fault strikes at one moment here; `make chaos` strikes at random ones.
"""

import os
import shutil
import sqlite3
import subprocess
from contextlib import ExitStack, closing
from dataclasses import replace

import chaos
import disturbed
import pytest
from faults import FAULTS, Machines, damage, settled
from postgres import AbsentError
from scripted_server import scripted

from agenteval.store.sql import SqlStore

# Ray has tests of its own; a cluster for each worker of these would be too many.
HERE = tuple(name for name in FAULTS if name != "Ray node")
MOMENT = chaos.Moment(after=3, late=True, pause=0.05, backend=chaos.working()[0])


@pytest.fixture(scope="module")
def machines():
    with ExitStack() as stack:
        yield Machines(stack)


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_a_run_that_a_fault_befalls_ends_as_if_nothing_had_been(name, machines) -> None:
    try:
        seen = chaos.round_of(name, MOMENT, machines)
    except AbsentError as absent:
        pytest.skip(str(absent))
    assert (seen.faults, seen.hit) == ([], True)


@pytest.mark.slow
def test_a_network_that_is_cut_before_anything_of_a_reply_came_makes_no_trial_void(
    machines,
) -> None:
    quiet = replace(MOMENT, late=False, pause=0.1)  # both trials wait for a reply then
    seen = chaos.round_of("network cut before a reply", quiet, machines)
    assert (seen.faults, seen.hit, seen.code) == ([], True, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "hours"), [("clock ten years ahead", 24 * 3653), ("clock an hour back", 1)]
)
def test_a_clock_that_was_stepped_is_what_the_run_saw(name, hours, machines, tmp_path) -> None:
    if not shutil.which("cc"):
        pytest.skip("no C compiler here, to stand between a process and its clock")
    (tmp_path / "tmp").mkdir()
    model = disturbed.Struck()
    with scripted(model) as url, FAULTS[name](tmp_path, url, machines) as fault:
        disturbed.played(fault, tmp_path, model, 0.05)
    with closing(SqlStore(str(tmp_path / disturbed.STORE))) as opened:
        ended = [turn.ended for trial in opened.load("last").trials for turn in trial.turns]
    assert round((max(ended) - min(ended)) / 3600) == hours


def test_a_fault_that_never_struck_fails_its_campaign(monkeypatch, capsys) -> None:
    nothing = disturbed.Seen((), frozenset(), ended=True)
    monkeypatch.setattr(chaos, "round_of", lambda name, *_: replace(nothing, hit=name == "runner"))
    assert chaos.main(4, "runner", "shard") == 1
    told = capsys.readouterr().out
    assert "struck: 2 runner; nobody to strike: 2" in told
    assert "never struck, so nothing is shown of it: shard" in told
    assert chaos.main(4, "runner") == 0
    lost = replace(nothing, lost=frozenset(("call-1",)))
    monkeypatch.setattr(chaos, "round_of", lambda *_: lost)
    assert (chaos.main(1, "runner"), "lost call-1" in capsys.readouterr().out) == (1, True)


def test_a_fault_that_cannot_be_had_here_is_left_out_and_said(monkeypatch, capsys) -> None:
    def absent(*_):
        raise AbsentError("no such database here")

    monkeypatch.setattr(chaos, "round_of", absent)
    assert chaos.main(3, "database") == 0
    assert capsys.readouterr().out.count("database: left out: no such database here") == 1


def test_how_a_run_may_not_end_is_seen() -> None:
    fault = disturbed.Fault("http://here/v1", (4,), lambda _: True)
    intact = f"a full disk. {disturbed.INTACT}: make room\n"
    assert [*disturbed.ending_faults(fault, 4, intact, hit=True)] == []
    assert [*disturbed.ending_faults(fault, 0, "", hit=True)] == ["ended with 0: "]
    assert [*disturbed.ending_faults(fault, 0, "", hit=False)] == []
    (told,) = disturbed.ending_faults(fault, 4, "a full disk\n", hit=True)
    assert told.startswith("not told that what was stored is intact")
    assert len([*disturbed.ending_faults(fault, 1, "Traceback (...)", hit=True)]) == 2
    damaged = replace(fault, says="the file is damaged")
    assert [*disturbed.resuming_faults(damaged, "x: the file is damaged\n", ended=False)] == []
    assert len([*disturbed.resuming_faults(damaged, "it is gone\n", ended=False)]) == 1
    assert [*disturbed.resuming_faults(damaged, "", ended=True)] == []


@pytest.mark.slow
def test_other_figures_and_a_damaged_store_would_be_seen(tmp_path) -> None:
    store = tmp_path / "runs.db"
    (tmp_path / "tmp").mkdir()
    with scripted(disturbed.Model()) as url:
        words = (*disturbed.RUN, "--base-url", url, "--store", str(store))
        with disturbed.begun(tmp_path, *words) as running:
            disturbed.ending(running)
    assert disturbed.damage(str(store)) == []
    assert disturbed.figures(str(store)) == disturbed.undisturbed()
    with closing(sqlite3.connect(store)) as database, database:
        database.execute("DELETE FROM trial WHERE number = 1")
    assert disturbed.damage(str(store)) != []
    assert disturbed.figures(str(store)) != disturbed.undisturbed()


def test_a_process_a_mount_and_a_call_that_are_left_or_lost_would_be_seen(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(disturbed, "LEFT_AFTER", 0.2)
    mark = os.environ | {"AGENTEVAL_CHAOS": str(tmp_path)}
    with subprocess.Popen(["sleep", "60"], env=mark) as orphan:
        left = disturbed.remaining(tmp_path)
        orphan.kill()
    assert left == {orphan.pid}
    seen = disturbed.Seen(
        ("folder x",),
        frozenset(("call-1",)),
        ended=False,
        doubled=frozenset(("call-2",)),
        told="no run",
    )
    ended = "the run did not end: no run"
    assert seen.faults == ["folder x", "lost call-1", "doubled call-2", ended]


@pytest.mark.slow
def test_whichever_page_is_damaged_it_is_said_in_one_line_or_touches_nothing_that_is_shown(
    cli, project
) -> None:
    cli("run", "-m", "sim/qwen3.5-27b", "--trials", "1", "--max-turns", "3", "media/rendered-plot")
    store = project / disturbed.STORE
    pages, whole = settled(store), cli("show", "last", "--json").out
    assert pages > 1
    sound, other = store.read_bytes(), []
    for page in range(1, pages):  # without the first it is no database
        store.write_bytes(sound)
        damage(store, page)
        said = cli("show", "last", "--json")
        if (said.code, said.out) != (0, whole) and not is_told(said):
            other.append((page, said))
        checked = cli("store", "check")
        if checked.code and not (checked.code == 4 and "damaged" in checked.err):
            other.append((page, checked))
    assert other == []


def is_told(said) -> bool:
    return said.code == 4 and said.err.count("\n") == 1 and "the file is damaged" in said.err
