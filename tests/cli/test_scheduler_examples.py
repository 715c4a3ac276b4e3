"""The files of examples/shards, each played as its scheduler would, as far as it can be here.

Only what the files leave to others is put in: a simulated model for the served one, the address of
a store, and what the scheduler sets for each part.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_resume import seen

from agenteval.store.sql import SqlStore

PROJECT = Path(__file__).parents[2]
EXAMPLES = PROJECT / "examples" / "shards"
MODEL = "sim/qwen3.6-35b"
TRIALS = 12
OPTIONS = ("data/pantry-audit", "--trials", str(TRIALS), "--concurrency", "1", "--max-turns", "4")
GIVEN = ("--model", MODEL, *OPTIONS)
UID = "metadata.labels['batch.kubernetes.io/controller-uid']"
JOINED = "SELECT DISTINCT number FROM shard"
PLAYED = "SELECT DISTINCT shard.number FROM shard JOIN trial ON trial.shard = shard.id"


def environment(**those: str) -> dict[str, str]:
    """Where `agenteval` is this one, and no scheduler of the machine is seen."""
    ours = ("SLURM_", "GITHUB_", "AGENTEVAL_", "PARALLEL")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"} | those


def codes(parts: Sequence[tuple[Sequence[str], Mapping[str, str]]]) -> list[int]:
    """The exit codes of commands that run at the same time, each in its environment."""
    running = [
        subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) for command, env in parts
    ]
    return [one.wait(240) for one in running]


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> list[object]:
    """What one process plays of it."""
    folder = tmp_path_factory.mktemp("alone")
    command = ["agenteval", "run", *GIVEN, "--store", str(folder / "runs.db")]
    subprocess.run(command, cwd=folder, env=environment(), check=True, capture_output=True)
    with closing(SqlStore(str(folder / "runs.db"))) as store:
        return seen(store.load("last"))


def assert_played(url: str, alone: list[object], shards: int) -> None:
    """One run that all parts joined and several played, and which is what one process plays."""
    finish = ["agenteval", "finish", "last", "--store", url]
    told = subprocess.run(finish, env=environment(), capture_output=True, text=True, check=False)
    with closing(SqlStore(url)) as store, store.connect() as asked:
        (run,) = store.runs()
        whole = store.load(run.id)
        rows = asked.exec_driver_sql("SELECT count(*) FROM trial").scalar_one()
        joined = {number for (number,) in asked.exec_driver_sql(JOINED)}
        played = {number for (number,) in asked.exec_driver_sql(PLAYED)}
    assert (joined, rows, run.complete) == ({*range(1, shards + 1)}, TRIALS, True)
    assert len(played) > 1, "on a busy machine the last to join may find nothing left, and no other"
    assert seen(whole) == alone
    assert (told.returncode, f"all that was planned: {TRIALS} trials" in told.stdout) == (0, True)


@pytest.mark.slow
def test_an_array_of_slurm_plays_one_run(project, alone) -> None:
    command = ["bash", str(EXAMPLES / "slurm.sbatch"), *GIVEN]
    array = {"AGENTEVAL_STORE": "runs.db", "SLURM_ARRAY_JOB_ID": "71"}
    tasks = [
        environment(**array, SLURM_ARRAY_TASK_ID=task, SLURM_ARRAY_TASK_COUNT="2")
        for task in ("1", "2")
    ]
    assert codes([(command, task) for task in tasks]) == [0, 0]
    assert_played("runs.db", alone, 2)


@pytest.mark.slow
def test_gnu_parallel_plays_one_run(project, alone) -> None:
    if not shutil.which("parallel"):
        pytest.skip("no GNU parallel here; `apt-get install parallel` brings it")
    given = environment(AGENTEVAL_STORE="runs.db", SHARDS="2")
    assert codes([([str(EXAMPLES / "parallel.sh"), *GIVEN], given)]) == [0]
    assert_played("runs.db", alone, 2)


def test_gnu_parallel_ends_with_the_number_of_parts_that_failed(project) -> None:
    if not shutil.which("parallel"):
        pytest.skip("no GNU parallel here; `apt-get install parallel` brings it")
    command = [str(EXAMPLES / "parallel.sh"), "--model", MODEL, "no/such-scenario"]
    given = environment(AGENTEVAL_STORE="runs.db", SHARDS="3")
    told = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr.count("no/such-scenario")) == (3, 3)


@pytest.mark.parametrize("name", ["slurm.sbatch", "parallel.sh"])
def test_without_the_address_of_a_store_nothing_is_played(project, name) -> None:
    """Each node would play a run of its own, into a file of its own."""
    command = ["bash", str(EXAMPLES / name), *GIVEN]
    told = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert told.returncode != 0
    assert "AGENTEVAL_STORE: is not set" in told.stderr
    assert [*project.iterdir()] == [project / "agenteval.toml"]


def job_of_kubernetes() -> dict[str, Any]:
    return yaml.safe_load((EXAMPLES / "kubernetes.yaml").read_text())["spec"]


def of_an_index(index: int, uid: str, store: str) -> tuple[list[str], dict[str, str]]:
    """The command of the container and what it finds, as the cluster sets it for one of two."""
    (container,) = job_of_kubernetes()["template"]["spec"]["containers"]
    found = {}
    for one in container["env"]:
        match one:
            case {"value": value}:
                found[one["name"]] = value
            case {"valueFrom": {"secretKeyRef": {"name": "agenteval", "key": "store"}}}:
                found[one["name"]] = store
            case {"valueFrom": {"fieldRef": {"fieldPath": path}}}:
                found[one["name"]] = {UID: uid}[path]
    given = found | {"SHARDS": "2", "JOB_COMPLETION_INDEX": str(index)}
    return [*container["command"], *GIVEN], environment(**given)


@pytest.mark.slow
def test_an_indexed_job_of_kubernetes_plays_one_run(project, alone, postgres) -> None:
    url = postgres.url(postgres.new())
    assert codes([of_an_index(index, "a8f3", url) for index in (0, 1)]) == [0, 0]
    assert_played(url, alone, 2)


@pytest.mark.slow
def test_a_job_of_kubernetes_that_is_applied_again_plays_a_run_of_its_own(project) -> None:
    for uid in ("a8f3", "a8f3", "b771"):
        assert codes([of_an_index(0, uid, "runs.db")]) == [0]
    with closing(SqlStore("runs.db")) as store:
        assert len(store.runs()) == 2


def test_the_job_of_kubernetes_agrees_with_itself_and_starts_nothing_again_in_vain() -> None:
    job = job_of_kubernetes()
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    values = {one["name"]: one.get("value") for one in container["env"]}
    ended = [rule for rule in job["podFailurePolicy"]["rules"] if rule["action"] == "FailIndex"]
    assert values["SHARDS"] == str(job["completions"]) == str(job["parallelism"])
    assert [rule["onExitCodes"]["values"] for rule in ended] == [[2, 5]]
    assert ended[0]["onExitCodes"]["containerName"] == container["name"]
    # What the API server asks of these fields.
    assert (pod["restartPolicy"], "backoffLimitPerIndex" in job) == ("Never", True)
    assert (container["securityContext"]["procMount"], pod["hostUsers"]) == ("Unmasked", False)


def matrix_of_github() -> dict[str, Any]:
    return yaml.safe_load((EXAMPLES / "github-matrix.yml").read_text())["jobs"]["play"]


def put_in(text: str, contexts: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda found: contexts[found[1]], text)


def of_a_shard(shard: int, shards: int, store: str) -> tuple[list[str], dict[str, str]]:
    """What GitHub's runner does with the last step, in one job of the matrix."""
    contexts = {
        "matrix.shard": str(shard),
        "strategy.job-total": str(shards),
        "secrets.AGENTEVAL_BASE_URL": "",
        "secrets.AGENTEVAL_STORE": store,
        "inputs.model": MODEL,
        "inputs.options": " ".join(OPTIONS),
    }
    (step,) = [
        step for step in matrix_of_github()["steps"] if "agenteval run" in step.get("run", "")
    ]
    given = {name: put_in(value, contexts) for name, value in step["env"].items()}
    command = ["bash", "-e", "-c", put_in(step["run"], contexts)]
    return command, environment(**given, GITHUB_RUN_ID="1804")


@pytest.mark.slow
def test_a_matrix_of_github_plays_one_run(project, alone, postgres) -> None:
    url = postgres.url(postgres.new())
    shards = matrix_of_github()["strategy"]["matrix"]["shard"]
    parts = [of_a_shard(shard, len(shards), url) for shard in shards]
    assert codes(parts) == [0] * len(shards)
    assert_played(url, alone, len(shards))


def test_the_runner_of_github_is_made_ready_as_our_own_is() -> None:
    """Without these steps no sandbox works there."""
    workflow = yaml.safe_load((PROJECT / ".github" / "workflows" / "tests.yml").read_text())
    ours = workflow["jobs"]["pythons"]
    example = matrix_of_github()
    needed = [step["run"] for step in ours["steps"] if step.get("run", "").startswith("sudo ")]
    steps = [step.get("run") for step in example["steps"]]
    used = {step["uses"] for step in ours["steps"] if "uses" in step}
    assert len(needed) == 2
    assert [step for step in steps if step in needed] == needed
    assert example["runs-on"] == ours["runs-on"]
    assert {step["uses"] for step in example["steps"] if "uses" in step} <= used
