"""A run that was ended before its time, by kill -9 at any moment, and gone on with."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from agenteval.store.sql import SqlStore
from agenteval.trial.call import Outcome
from agenteval.trial.run import Run
from agenteval.trial.tally import score

STORE = "reports/agenteval.db"
ARGUMENTS = (
    *("run", "-m", "sim/qwen3.6-35b", "--trials", "3", "--seed", "5", "--concurrency", "2"),
    *("data/pantry-audit", "media/rendered-plot"),
)


def stored(project: Path, run_id: str = "last") -> Run:
    store = SqlStore(str(project / STORE))
    try:
        return store.load(run_id)
    finally:
        store.close()


def asked(project: Path, query: str) -> int:
    """A number out of the store; 0 while there is none."""
    try:
        with closing(sqlite3.connect(f"file:{project / STORE}?mode=ro", uri=True)) as database:
            return int(database.execute(query).fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def seen(run: Run) -> list[object]:
    """All that the statistics of a run come from."""
    return [
        (trial.scenario, trial.number, trial.seed, trial.outcome, trial.ending, trial.handshake,
         [(one.turn, one.position, one.call.raw, one.verdict, one.reply) for one in trial.calls])
        for trial in run.trials
    ]  # fmt: skip


@contextmanager
def begun(project: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A run in a process group of its own."""
    running = subprocess.Popen(
        [sys.executable, "-m", "agenteval", *(arguments or ARGUMENTS)],
        cwd=project,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def waited(project: Path, moment: str, least: int, running: subprocess.Popen[bytes]) -> None:
    """Until the store says so many, or what writes it has ended."""
    while asked(project, moment) < least and running.poll() is None:
        time.sleep(0.01)


def killed(project: Path, moment: str, least: int) -> None:
    """Begin a run and kill it as soon as the store says so many."""
    with begun(project) as running:
        waited(project, moment, least, running)
        os.kill(running.pid, signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL


CALLS, ENDED = "SELECT count(*) FROM call", "SELECT count(*) FROM trial WHERE outcome <> ''"
BEGUN = "SELECT count(*) FROM run"
MOMENTS = [(BEGUN, 1), (CALLS, 1), (CALLS, 9), (ENDED, 3)]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("unbroken")
    subprocess.run(
        [sys.executable, "-m", "agenteval", *ARGUMENTS], cwd=folder, check=True, capture_output=True
    )
    return stored(folder)


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "least"), MOMENTS)
def test_a_run_killed_at_any_moment_is_gone_on_with_as_if_nothing_had_been(
    cli, project, unbroken, moment, least
) -> None:
    killed(project, moment, least)
    before = asked(project, ENDED)
    rows = asked(project, CALLS)

    said = cli("run", "--resume", "last")

    run = stored(project)
    assert (said.code, run.complete) == (0, True)
    assert (seen(run), score(run.trials)) == (seen(unbroken), score(unbroken.trials))
    replaced = sum(run.replaced.values())
    assert before < len(run.trials)
    assert asked(project, "SELECT count(*) FROM trial") == len(run.trials) + replaced
    assert asked(project, CALLS) >= max(rows, sum(len(trial.calls) for trial in run.trials))
    assert set(run.replaced) <= {"interrupted"}


@pytest.mark.slow
def test_a_run_that_another_process_plays_is_refused_and_free_again_when_that_is_killed(
    cli, project, unbroken
) -> None:
    with begun(project) as running:
        waited(project, CALLS, 1, running)
        os.kill(running.pid, signal.SIGSTOP)  # it still holds its run
        refused = cli("run", "--resume", "last")
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    said = cli("run", "--resume", "last")
    why = "is being played by another process; wait until that has ended"
    last = refused.err.strip().splitlines()[-1]
    assert (refused.code, last) == (2, f"agenteval: run {stored(project).id} {why}")
    assert (said.code, seen(stored(project))) == (0, seen(unbroken))


VOIDS = "UPDATE trial SET outcome = 'void', ending = 'broken', cause = 'crashed' WHERE number > 1"


@pytest.mark.slow
def test_voids_that_were_set_aside_are_not_lost_when_their_second_play_is_killed(
    cli, project, unbroken
) -> None:
    cli(*ARGUMENTS)
    with closing(sqlite3.connect(project / STORE)) as database, database:
        database.execute(VOIDS)
    rows = asked(project, CALLS)
    with begun(project, "run", "--resume", "last", "--retry-void") as running:
        waited(project, CALLS, rows + 1, running)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    cli("run", "--resume", "last")
    assert seen(stored(project)) == seen(unbroken)


def test_a_run_that_is_complete_is_only_shown(cli, project) -> None:
    cli("run", "-m", "sim/qwen3.5-27b", "--trials", "1", "media/rendered-plot")
    first = stored(project)
    said = cli("run", "--resume", first.id)
    assert (said.code, stored(project)) == (0, first)


def break_one(project: Path) -> None:
    with closing(sqlite3.connect(project / STORE)) as database, database:
        database.execute(
            "UPDATE trial SET outcome = 'void', ending = 'broken', reason = 'it fell over',"
            " cause = 'crashed' WHERE number = 2"
        )


def test_a_void_trial_is_played_again_when_wanted_and_what_it_was_is_kept(cli, project) -> None:
    cli("run", "-m", "sim/qwen3.6-35b", "--trials", "2", "--seed", "5", "data/pantry-audit")
    whole = stored(project)
    break_one(project)

    cli("run", "--resume", "last")
    kept = [trial.outcome for trial in stored(project).trials]
    said = cli("run", "--resume", "last", "--retry-void")

    run = stored(project)
    assert (kept[1], said.code, seen(run)) == (Outcome.VOID, 0, seen(whole))
    aside = asked(project, "SELECT count(*) FROM trial WHERE replaced AND reason = 'it fell over'")
    shown = json.loads(cli("show", "last", "--json").out)["runs"][0]
    assert (aside, shown["replaced"]) == (1, {"crashed": 1})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--trials", "9"], "--trials 9 contradicts --resume"),
        (["--seed", "6"], "was begun with 5"),
        (["-m", "sim/qwen3.5-27b"], "--model sim/qwen3.5-27b contradicts"),
        (["--context", "4k"], "--context 4k contradicts"),
        (["ralf/handshake"], "targets ralf/handshake contradicts"),
        (["--gate", "gate.toml", "--baseline", "x"], "--gate and --baseline belong to a run"),
    ],
)
def test_an_option_that_contradicts_the_run_is_refused(cli, project, options, said) -> None:
    begin(cli)
    refused = cli("run", "--resume", "last", *options)
    assert (refused.code, said in refused.err) == (2, True)


def begin(cli) -> None:
    few = ("--trials", "1", "--seed", "5", "--max-turns", "3")
    cli("run", "-m", "sim/qwen3.6-35b", *few, "data/pantry-audit")


def change(file: Path) -> None:
    """Change the instructions of a scenario, or the pantry's allow list."""
    text = file.read_text()
    is_list = file.suffix == ".toml"
    file.write_text(text.replace('"kitchen", ', "", 1) if is_list else f"{text}\nBe quick.\n")


def test_options_that_say_the_same_again_are_welcome(cli) -> None:
    begin(cli)
    assert cli("run", "--resume", "last", "--seed", "5", "-m", "sim/qwen3.6-35b").code == 0


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("scenarios/data/pantry-audit/instructions.md", "scenario 'data/pantry-audit' has changed"),
        ("allowlists/{policy}.toml", "allow list '{policy}' has changed"),
    ],
)
def test_what_changed_meanwhile_is_refused_by_its_name(cli, own_project, path, said) -> None:
    begin(cli)
    (policy,) = stored(own_project).policies
    change(own_project / path.format(policy=policy))
    refused = cli("run", "--resume", "last")
    assert (refused.code, said.format(policy=policy) in refused.err) == (2, True)


def test_a_model_is_still_to_be_named_where_no_run_names_it(cli) -> None:
    refused = cli("run", "data/pantry-audit")
    assert (refused.code, "--model: name what is to be evaluated" in refused.err) == (2, True)
