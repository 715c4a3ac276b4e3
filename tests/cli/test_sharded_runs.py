"""One run that several processes play into one store, as a scheduler starts them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from test_resume import ARGUMENTS, change, seen

from agenteval.store.sql import SqlStore
from agenteval.trial.run import Run

STORE = "reports/agenteval.db"
PROGRAM = [sys.executable, "-m", "agenteval"]
FEW = (
    *("run", "-m", "sim/qwen3.6-35b", "--trials", "1", "--seed", "5", "--max-turns", "2"),
    "data/pantry-audit",
)


def stored(url: str = STORE) -> Run:
    with closing(SqlStore(url)) as store:
        return store.load("last")


def is_closed() -> bool:
    with closing(SqlStore(STORE)) as store:
        return store.runs()[0].complete


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> list[object]:
    """What one process plays of it."""
    folder = tmp_path_factory.mktemp("alone")
    subprocess.run([*PROGRAM, *ARGUMENTS], cwd=folder, check=True, capture_output=True)
    return seen(stored(str(folder / STORE)))


def test_a_run_of_a_store_that_is_not_there_is_not_closed_and_makes_none(cli, project) -> None:
    refused = cli("finish", "last", "--store", "typo.db")
    there = Path("typo.db").exists()
    assert (refused.code, "no such file" in refused.err, there) == (2, True, False)


@contextmanager
def shard(folder: Path, which: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [*PROGRAM, *ARGUMENTS, "--shard", which, "--lease", "2", *words]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            yield running
        finally:
            running.kill()


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", [["xargs", "-P", "3", "-I{}"], ["parallel", "-q", "-j", "3"]])
def test_whatever_starts_three_shards_they_play_what_one_process_would(
    project, alone, scheduler
) -> None:
    program = " ".join([*PROGRAM, *ARGUMENTS])
    try:
        played = subprocess.run(
            [*scheduler, "sh", "-c", f"{program} --shard {{}}/3 > told-{{}} 2>&1"],
            input="1\n2\n3\n",
            cwd=project,
            text=True,
            check=False,
        )
    except FileNotFoundError as absent:
        pytest.skip(str(absent))
    run = stored()
    told = [(project / f"told-{at}").read_text().count(run.id) > 0 for at in (1, 2, 3)]
    with closing(SqlStore(STORE)) as store, store.connect() as connection:
        shards = connection.exec_driver_sql("SELECT count(DISTINCT shard) FROM trial").scalar_one()
        runs = connection.exec_driver_sql("SELECT count(*) FROM run").scalar_one()
    assert (played.returncode, seen(run), run.complete, told) == (0, alone, True, [True] * 3)
    assert (runs, shards > 1) == (1, True)


CALLS = "SELECT count(*) FROM call"
BOTH = "SELECT (SELECT count(*) FROM call) > 0 AND (SELECT count(*) FROM shard) = 2"
OF_TWO = """SELECT count(*) FROM call JOIN trial ON trial.id = trial_id
    JOIN shard ON shard.id = shard WHERE shard.number = 2"""
ROWS = "SELECT count(*), count(*) FILTER (WHERE replaced) FROM trial"


@pytest.mark.slow
def test_one_of_three_that_is_killed_loses_and_doubles_no_trial(project, alone, postgres) -> None:
    database = postgres.new()
    url = postgres.url(database)
    with closing(SqlStore(url)), postgres.asks(database) as asking:
        with shard(project, "2/3", "--store", url) as two:
            while not asking.execute(OF_TWO).fetchone()[0]:
                assert two.poll() is None
                time.sleep(0.01)
            # the others come now: on a busy machine they could play all before it begins
            with (
                shard(project, "1/3", "--store", url) as one,
                shard(project, "3/3", "--store", url) as three,
            ):
                two.send_signal(signal.SIGKILL)
                codes = [one.wait(120), two.wait(), three.wait(120)]
        rows, replaced = asking.execute(ROWS).fetchone()
        left = asking.execute("SELECT count(*) FROM trial WHERE outcome = ''").fetchone()[0]
    run = stored(url)
    assert (codes, seen(run), run.complete) == ([0, -signal.SIGKILL, 0], alone, True)
    assert (rows - replaced, left, set(run.replaced)) == (len(run.trials), 0, {"interrupted"})


@pytest.mark.slow
def test_a_store_that_goes_away_is_exit_4_and_the_shards_started_again_go_on(
    project, alone, postgres
) -> None:
    database = postgres.new()
    url = postgres.url(database)
    gone = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
    with closing(SqlStore(url)), postgres.asks(database) as asking, postgres.asks() as ending:
        with (
            shard(project, "1/2", "--store", url) as one,
            shard(project, "2/2", "--store", url) as two,
        ):
            while not asking.execute(BOTH).fetchone()[0]:
                assert one.poll() is None
                time.sleep(0.01)
            ending.execute(gone, [database])
            said = [each.communicate()[1] for each in (one, two)]
            told = [each.strip().splitlines()[-1] for each in said]
            codes = [each.returncode for each in (one, two)]
    assert (codes, ["Traceback" in one for one in said]) == ([4, 4], [False, False])
    assert all("What was stored before is intact" in line for line in told)
    with shard(project, "2/2", "--store", url) as two, shard(project, "1/2", "--store", url) as one:
        again = [one.wait(120), two.wait(120)]
    assert (again, seen(stored(url))) == ([0, 0], alone)


@pytest.mark.slow
def test_shards_that_are_cut_off_leave_their_trials_to_the_others_at_once(project, alone) -> None:
    """With a lease that would keep them waiting."""
    with shard(project, "1/2", "--lease", "600") as one:
        database = project / STORE
        while one.poll() is None and not _calls(database):
            time.sleep(0.01)
        one.send_signal(signal.SIGTERM)
        code = one.wait(60)
    assert (code, is_closed()) == (143, False)
    with shard(project, "2/2", "--lease", "600") as two:
        assert two.wait(120) == 0
    assert (seen(stored()), stored().complete) == (alone, True)


def _calls(database: Path) -> int:
    if not database.exists():
        return 0
    with suppress(Exception), closing(SqlStore(str(database))) as store, store.connect() as asked:
        return int(asked.exec_driver_sql(CALLS).scalar_one())
    return 0


def test_a_shard_without_others_plays_it_all_and_a_late_one_plays_nothing(cli) -> None:
    assert cli(*FEW, "--shard", "1/2").code == 0
    first = stored()
    late = cli(*FEW, "--shard", "2/2")
    assert (first.complete, late.code, first.id in late.out, stored()) == (True, 0, True, first)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--seed", "6"], "--seed 6 contradicts --shard 2/2 on {host}, run {run}, which was begun"),
        (["--trials", "2"], "--trials 2 contradicts"),
        (["--arm", "strict"], "--arm strict contradicts"),
        (["ralf/handshake"], "targets data/pantry-audit ralf/handshake contradicts"),
        (["--concurrency", "1"], "--concurrency 1 contradicts"),
        (["--shard", "2/3"], "--shard 2/3 on {host}: run {run} is played by 2 shards"),
        (["--sandbox", "none"], "--sandbox none contradicts"),
        (["--sandbox", "nowhere"], "--shard 2/2 on {host}: --sandbox nowhere: no such sandbox"),
        (["--concurrency", "1,2"], "--concurrency and --shard: give one level"),
        (["--resume", "last"], "--resume and --shard: the same shards, started again"),
        (["--retry-void"], "--retry-void and --shard: when the run is closed"),
        (["--gate", "gate.toml", "--baseline", "x"], "--gate and --shard: no shard sees the whole"),
        (["--shard", "3/2"], "--shard '3/2': K/N, such as 1/3"),
        (["--shard", "one"], "--shard 'one': K/N, such as 1/3"),
        (["--shard", ""], "--shard '': K/N, such as 1/3"),
        (["--allowlist", "demo"], "which was begun with none; ask for the same"),
    ],
)
def test_a_shard_that_would_play_another_run_is_refused_in_one_line(cli, options, said) -> None:
    cli(*FEW, "--shard", "1/2")
    refused = cli(*FEW, "--shard", "2/2", *options)
    told = said.format(host=os.uname().nodename, run=stored().id)
    assert (refused.code, refused.err.count("\n"), told in refused.err) == (2, 1, True)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("scenarios/data/pantry-audit/instructions.md", "scenario 'data/pantry-audit' has changed"),
        ("allowlists/{policy}.toml", "allow list '{policy}' has changed"),
    ],
)
def test_a_shard_with_another_suite_or_allow_list_is_refused_by_its_name(
    cli, own_project, path, said
) -> None:
    cli(*FEW, "--shard", "1/2")
    (policy,) = stored().policies
    change(own_project / path.format(policy=policy))
    refused = cli(*FEW, "--shard", "2/2")
    assert (refused.code, said.format(policy=policy) in refused.err) == (2, True)


def test_jobs_of_two_names_are_two_runs_and_the_same_name_is_the_same_run(cli) -> None:
    for job in ("7", "8", "7"):
        cli(*FEW, "--shard", "1/1", "--job", job)
    with closing(SqlStore(STORE)) as store:
        assert len(store.runs()) == 2


OPEN = "UPDATE run SET complete = false"
MISSING = "DELETE FROM trial"


@pytest.mark.parametrize(
    ("left", "code", "said"),
    [
        ([OPEN], 0, "closed, with all that was planned: 1 trial"),
        (
            [OPEN, "DELETE FROM call", "DELETE FROM turn", MISSING],
            2,
            "1 of 1 trials have not ended",
        ),
    ],
)
def test_a_run_that_nobody_closed_is_closed_by_hand_if_its_trials_have_ended(
    cli, left, code, said
) -> None:
    cli(*FEW, "--shard", "1/2")
    with closing(SqlStore(STORE)) as store, store.connect() as connection, connection.begin():
        for one in left:
            connection.exec_driver_sql(one)
    closed = cli("finish", "last")
    assert (closed.code, said in closed.out + closed.err) == (code, True)
    assert is_closed() == (code == 0)
