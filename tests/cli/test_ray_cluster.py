"""One run over a real Ray cluster: several nodes on this machine, killed and refused."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from shutil import copytree

import pytest
from ray_place import PLACE, Cluster, cluster, kill_all
from scripted_server import answers, bash, scripted
from test_resume import ARGUMENTS, asked, begun, seen, stored

from agenteval import __version__
from agenteval.errors import UsageError
from agenteval.store.sql import Part, SqlStore
from agenteval.trial.run import Options
from agenteval.workflows.evaluate import session_of
from agenteval.workflows.ray import Shown, Worker, _suite_of, shares
from agenteval.workflows.stages import options_of, plan_of

pytestmark = pytest.mark.xdist_group("ray")  # one cluster serves all

OVER = ("--executor", "ray", "--lease", "3")
ENDED = "SELECT count(*) FROM trial WHERE outcome != '' AND NOT replaced"
ROWS = "SELECT count(*) FROM trial WHERE NOT replaced"
BOTH_PLAY = """SELECT count(DISTINCT shard) > 1 FROM trial
    WHERE NOT replaced AND outcome = '' AND id IN (SELECT trial_id FROM call)"""


@pytest.fixture(scope="module")
def ray() -> Iterator[Cluster]:
    if not (PLACE / "bin/ray").exists():
        pytest.skip("Ray is not there: `make ray` gets it")
    with cluster() as there:
        yield there


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> list[object]:
    return played_alone(tmp_path_factory.mktemp("alone"), ARGUMENTS)


def played_alone(folder: Path, words: Sequence[str]) -> list[object]:
    """What one process plays of it."""
    with begun(folder, *words) as running:
        assert running.wait(200) == 0
    return seen(stored(folder))


@contextmanager
def driving(ray: Cluster, folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [PLACE / "bin/python", "-m", "agenteval", *(words or (*ARGUMENTS, *OVER))],
        cwd=folder, env=ray.environment, text=True, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as running:  # fmt: skip
        try:
            yield running
        finally:
            kill_all(running.pid)


def until_calls(folder: Path, running: subprocess.Popen[str], calls: str) -> None:
    while not asked(folder, calls):
        assert running.poll() is None, running.stderr.read()
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_over_a_cluster_the_same_calls_are_made_and_told_in_one_place(project, ray, alone) -> None:
    with driving(ray, project) as running:
        said = running.communicate()[1]
    told = re.findall(r"(\d+)/6 trials .*?(\d+) calls", said)
    run = stored(project)
    calls = sum(len(trial.calls) for trial in run.trials)
    assert (running.returncode, seen(run), run.complete) == (0, alone, True), said
    assert told[-1:] == [("6", str(calls))]


@contextmanager
def held() -> Iterator[tuple[tuple[str, ...], threading.Event]]:
    """A run of a model that waits for a word from the test after the first call of a trial."""
    go = threading.Event()

    def model(messages):
        if messages[0]["role"] != "system":
            return "ok"  # asked before the run what the server does to calls
        if answers(messages):
            go.wait(200)
        return bash("ls") if answers(messages) < 3 else "It is done."

    at = ARGUMENTS.index("sim/qwen3.6-35b")
    with scripted(model) as url:
        yield (*ARGUMENTS[:at], "m", "--base-url", url, *ARGUMENTS[at + 1 :]), go


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> list[object]:
    with held() as (words, go):
        go.set()
        return played_alone(tmp_path_factory.mktemp("undisturbed"), words)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_node_that_is_killed_in_a_run_loses_and_doubles_no_trial(
    ray, undisturbed, tmp_path
) -> None:
    with held() as (words, go), driving(ray, tmp_path, *words, *OVER) as running:
        until_calls(tmp_path, running, BOTH_PLAY)
        kill_all([one.pid for one in ray.nodes if one.poll() is None][-1])
        go.set()
        said = running.communicate()[1]
    ray.node()
    run = stored(tmp_path)
    assert (running.returncode, seen(run), run.complete) == (0, undisturbed, True), said
    assert (asked(tmp_path, ROWS), set(run.replaced)) == (len(run.trials), {"interrupted"})


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_whose_driver_is_killed_goes_on_over_the_cluster(ray, undisturbed, tmp_path) -> None:
    with held() as (words, go):
        with driving(ray, tmp_path, *words, *OVER) as running:
            until_calls(tmp_path, running, BOTH_PLAY)
            running.send_signal(signal.SIGKILL)
            running.wait()
        go.set()
        with driving(ray, tmp_path, "run", "--resume", "last", *OVER) as running:
            said = running.communicate()[1]
    run = stored(tmp_path)
    assert (running.returncode, seen(run), run.complete) == (0, undisturbed, True), said
    assert asked(tmp_path, ROWS) == len(run.trials)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_concurrency_is_that_of_the_cluster_and_shared_by_its_endpoints(project, ray) -> None:
    under_way, most, lock = Counter(), Counter(), threading.Lock()

    def at(place):
        def model(messages):
            if messages[0]["role"] != "system":
                return "ok"  # asked before the run what the server does to calls
            with lock:
                under_way[place] += 1
                most[place] = max(most[place], under_way[place])
                most["both"] = max(most["both"], under_way.total())
            time.sleep(0.1)
            with lock:
                under_way[place] -= 1
            return bash("ls") if answers(messages) < 3 else "It is done."

        return model

    with scripted(at(1)) as one, scripted(at(2)) as two:
        urls = ("--base-url", one, "--base-url", two)
        words = ("run", "-m", "m", *urls, "--trials", "8", "--concurrency", "4")
        with driving(ray, project, *words, "data/pantry-audit", *OVER) as running:
            said = running.communicate()[1]
    assert (running.returncode, len(stored(project).trials)) == (0, 8), said
    assert (most["both"] <= 4, 0 < most[1] <= 2, 0 < most[2] <= 2) == (True,) * 3, most


NO_NAMESPACE = "echo 0 > /proc/sys/user/max_user_namespaces"
OTHER_SUITE = "mount --bind {other} {project}"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("first", "said"),
    [
        (NO_NAMESPACE, "sandbox"),
        (OTHER_SUITE, "scenario 'data/pantry-audit' is another one than where the run was begun"),
    ],
)
def test_a_worker_that_may_not_play_is_left_out_by_name_and_the_others_play(
    own_project, ray, undisturbed, first, said, tmp_path_factory
) -> None:
    other = tmp_path_factory.mktemp("other") / "project"
    copytree(own_project, other)
    instructions = other / "scenarios/data/pantry-audit/instructions.md"
    instructions.write_text(f"{instructions.read_text()}\nBe quick.\n")
    does = first.format(other=other, project=own_project)
    if os.geteuid() or subprocess.run(["unshare", "-Urm", "true"], check=False).returncode:
        pytest.skip("needs root, and a namespace of its own")
    node = ray.node("unshare", "-Urm", "sh", "-c", f'{does} && exec "$@"', "sh")
    try:
        with held() as (words, go):
            concurrent = (*words, *OVER, "--concurrency", "3")
            with driving(ray, own_project, *concurrent) as running:
                told = ""
                for line in running.stderr:
                    told += line
                    if "It is left out" in line:
                        go.set()
    finally:
        kill_all(node.pid)
    assert (running.returncode, seen(stored(own_project))) == (0, undisturbed), told
    (line,) = [one for one in told.splitlines() if "It is left out" in one]
    observed = (line.startswith("worker "), f" on {os.uname().nodename}: " in line, said in line)
    assert observed == (True, True, True), line


# Without a cluster: what a worker is told and says, and what goes with no cluster.


class Told(list):
    """As Ray's queue, for one."""

    put_nowait_batch = list.extend


@dataclass
class Counted:
    """A display that counts."""

    runs: list[str] = field(default_factory=list)
    calls: int = 0
    trials: int = 0

    def run(self, model, *, trials, simulated):
        self.runs.append(model)
        return self

    def note(self, line): ...

    def wrote(self, trial, tokens): ...

    def called(self, trial, *, failure_class):
        self.calls += 1

    def finished(self, trial, *, void):
        self.trials += 1


def order(project: Path, **other: object) -> dict[str, object]:
    given = dict.fromkeys(
        ("targets", "model", "base_url", "max_turns", "prompt_variant", "sandbox", "harness")
    )
    given |= {"targets": ["data/pantry-audit"], "model": ["sim/qwen3.6-35b"], "trials": 2}
    given |= {"seed": 5, "concurrency": "2", "rules": "start", "context": "0", "prefork": True}
    given["allowlist"] = ""
    part = Part(1, 1, job="j", version=__version__, trials=2)
    return {
        "version": __version__,
        "folder": str(project),
        "options": asdict(options_of(given | {"arm": "taught/tools"})),
        "store": str(project / "reports/agenteval.db"),
        "host": os.uname().nodename,
        "suite": {},
        "part": asdict(part),
    } | other


def test_a_worker_plays_what_is_left_and_tells_its_driver(project) -> None:
    asks = order(project)
    part, told = Part(**asks["part"]), Told()
    with closing(SqlStore(asks["store"])) as store:
        plan = plan_of(Options(**asks["options"]), asks["store"], part=part)
        suite = _suite_of(session_of(plan, store))
    Worker().play({**asks, "suite": suite}, told)
    calls = sum(len(trial.calls) for trial in stored(project).trials)
    kinds = Counter(what for what, _ in told)
    shown = Counted()
    Shown(shown).all([*told, *told[:1]])
    assert (kinds["run"], kinds["finished"], kinds["called"]) == (1, 2, calls)
    assert (shown.runs, shown.calls, shown.trials) == (["sim/qwen3.6-35b"], calls, 2)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"version": "0"}, f"this is agenteval {re.escape(__version__)}, and the driver's is 0"),
        ({"host": "elsewhere"}, "is a file of elsewhere. Workers on several machines need a data"),
        ({}, "allow list 'pantry' is another one than where the run was begun"),
    ],
)
def test_a_worker_that_would_play_another_run_is_refused_by_its_name(project, other, said) -> None:
    with pytest.raises(UsageError, match=rf"^worker 1/1 on {os.uname().nodename}: .*{said}"):
        Worker().play(order(project, **other), Told())


def test_an_order_of_a_newer_version_is_refused_and_not_misread(project) -> None:
    newer = order(project, version="99")
    newer["part"]["pace"] = 2.0
    with pytest.raises(UsageError, match="and the driver's is 99"):
        Worker().play(newer, Told())


def test_the_workers_share_what_is_played_at_a_time_and_start_behind_one_another() -> None:
    parts = shares(Part(1, 1), 4, 6)
    observed = [(one.number, one.of, one.trials, one.before) for one in parts]
    assert observed == [(1, 4, 2, 0), (2, 4, 2, 2), (3, 4, 1, 4), (4, 4, 1, 5)]
    assert [one.trials for one in shares(Part(1, 1), 4, 2)] == [1, 1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gate", "gate.toml", "--baseline", "x"), "--gate and --executor ray: no worker sees"),
        (("--shard", "1/2"), "--shard and --executor ray: the cluster says who plays what"),
        (("--retry-void",), "--retry-void and --executor ray: when the run is closed"),
    ],
)
def test_what_goes_with_no_cluster_is_refused_in_one_line(cli, words, said) -> None:
    refused = cli(*ARGUMENTS, "--executor", "ray", *words)
    assert (refused.code, refused.err.count("\n"), said in refused.err) == (2, 1, True)


def test_without_ray_one_line_says_what_to_install(cli, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    refused = cli(*ARGUMENTS, "--executor", "ray")
    assert (refused.code, "install agenteval-gate[ray]" in refused.err) == (2, True)
