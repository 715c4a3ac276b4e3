"""action.yml, each of its scripts played as GitHub's runner would, with simulated models."""

import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_host_faults import ROOM
from test_scheduler_examples import PROJECT, environment, put_in

from agenteval import _version

ACTION = yaml.safe_load((PROJECT / "action.yml").read_text())
STEPS: list[Mapping[str, Any]] = ACTION["runs"]["steps"]
PAGE = (PROJECT / "docs" / "ci.md").read_text()
SHELL = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]
SCENARIO = "data/pantry-audit"
TRIALS = "6"
CANDIDATE = {"model": "sim/qwen3.6-35b", "baseline": "baseline.db", "trials": TRIALS}
GIVEN = {**CANDIDATE, "scenarios": SCENARIO, "allow-simulated": "true"}
WIDE = "[margin]\npoints = 99\ncompleted = 99\n"
NARROW = "[margin]\npoints = 99\n[budgets]\nerrors = 0.001\n"


@dataclass(frozen=True)
class Played:
    """What a step left: its exit code, what it put out, and the job's summary."""

    code: int
    outputs: Mapping[str, str]
    summary: str
    told: str

    @property
    def folder(self) -> set[str]:
        return {path.name for path in Path(self.outputs["folder"]).iterdir()}


def step_with(words: str) -> Mapping[str, Any]:
    (step,) = [one for one in STEPS if words in one.get("run", "")]
    return step


def bounded(room: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]  # sandboxes set their own
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))


def played(words: str, place: Path, *, action: Path = PROJECT, room: int = 0, **given: str):
    """The step in whose script these words stand; its files may not grow beyond `room`."""
    step, inputs = step_with(words), ACTION["inputs"]
    contexts = {f"inputs.{name}": one.get("default", "") for name, one in inputs.items()}
    contexts |= {f"inputs.{name}": text for name, text in given.items()}
    contexts |= {"github.action_path": str(action)}
    files = {name: place / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    for file in files.values():
        file.write_text("")
    env = {name: put_in(text, contexts) for name, text in step["env"].items()}
    env |= {"RUNNER_TEMP": str(place), **{name: str(file) for name, file in files.items()}}
    done = subprocess.run(
        [*SHELL, step["run"]],
        cwd=place,
        env=environment(**env),
        preexec_fn=partial(bounded, room) if room else None,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    said = files["GITHUB_OUTPUT"].read_text().splitlines()
    outputs = dict(line.split("=", 1) for line in said)
    summary = files["GITHUB_STEP_SUMMARY"].read_text()
    return Played(done.returncode, outputs, summary, done.stdout + done.stderr)


@pytest.fixture
def place(project) -> Path:
    """Where a job is, behind the step that installs: this program stands for what that brings."""
    (project / "agenteval-venv").mkdir()
    (project / "agenteval-venv" / "bin").symlink_to(Path(sys.executable).parent)
    return project


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Path:
    """The baseline's run, in a store of its own."""
    folder = tmp_path_factory.mktemp("baseline")
    command = ["agenteval", "run", "--model", "sim/qwen3.5-27b", SCENARIO, "--trials", TRIALS]
    command += ["--store", "baseline.db"]
    subprocess.run(command, cwd=folder, env=environment(), check=True, capture_output=True)
    return folder / "baseline.db"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "inconclusive", "verdict", "code"),
    [
        (WIDE, "fail", "PASS", 0),
        (NARROW, "fail", "FAIL", 1),
        ("", "fail", "INCONCLUSIVE", 3),
        ("", "pass", "INCONCLUSIVE", 0),
        (NARROW, "pass", "FAIL", 1),
    ],
)
def test_the_verdict_is_the_exit_code_the_output_and_the_summary(
    place, measured, rules, inconclusive, verdict, code
) -> None:
    shutil.copy(measured, place)
    (place / "gate.toml").write_text(rules or (PROJECT / "gate.toml").read_text())
    done = played(".ci/gate", place, **GIVEN, rules="gate.toml", inconclusive=inconclusive)
    assert (done.code, done.outputs["verdict"]) == (code, verdict)
    assert done.summary.startswith(f"# {verdict} (SIMULATED)\n")
    assert {"gate.json", "gate.md", "gate.xml", "report.html", "candidate.db"} <= done.folder


@pytest.mark.slow
def test_a_second_step_of_a_job_judges_its_own_model_and_scenarios_over_lines(
    place, measured
) -> None:
    shutil.copy(measured, place)
    several = {"scenarios": f"{SCENARIO}\n  notes/append\n", "trials": "1"}
    first = played(".ci/gate", place, **GIVEN)
    second = played(".ci/gate", place, **GIVEN | several | {"model": "sim/qwen3.5-122b"})
    assert ("sim/qwen3.5-122b" in first.summary, "sim/qwen3.5-122b" in second.summary) == (
        False,
        True,
    )
    assert "2/2 trials" in second.told


def without_verdict(done: Played) -> tuple[int, str, list[str]]:
    """Its code, the outputs' names, and the head and the last told line of the summary."""
    head, _, sentence, _, _, *told, _ = done.summary.splitlines()
    return done.code, ",".join(done.outputs), [head, sentence, told[-1]]


@pytest.mark.slow
def test_bad_input_of_a_run_is_told_in_the_summary(place) -> None:
    code, outputs, told = without_verdict(played(".ci/gate", place, **CANDIDATE | {"model": "m"}))
    assert (code, outputs, told[:2]) == (
        2,
        "folder",
        ["## agenteval: no verdict", "`agenteval run` ended with exit code 2: bad input."],
    )
    assert told[2].startswith("agenteval: no model 'm' (known: none).")


@pytest.mark.slow
def test_a_baseline_that_is_not_there_is_told_in_the_summary(place) -> None:
    done = played(".ci/gate", place, **GIVEN | {"trials": "1"})
    code, outputs, told = without_verdict(done)
    assert (code, outputs) == (2, "folder")
    assert told[1] == "`agenteval gate` ended with exit code 2: bad input."
    assert "baseline.db" in told[2]


@pytest.mark.slow
def test_a_server_that_breaks_the_trials_is_told_in_the_summary(place, answering, reply) -> None:
    page, models = reply("200 OK", "text/html", "<html>"), '{"data": []}'
    with answering(page, models=reply("200 OK", "application/json", models)) as url:
        given = GIVEN | {"model": "m", "base-url": url, "trials": "2"}
        code, outputs, told = without_verdict(played(".ci/gate", place, **given))
    why = "`agenteval run` ended with exit code 5: the server broke too many trials."
    assert (code, outputs, told[1]) == (5, "folder", why)


@pytest.mark.slow
def test_a_machine_that_cannot_go_on_is_told_in_the_summary(place) -> None:
    given = GIVEN | {"scenarios": "ralf/handshake", "trials": "12"}
    code, outputs, told = without_verdict(played(".ci/gate", place, room=ROOM, **given))
    assert (code, outputs) == (4, "folder")
    assert "ended with exit code 4: a defect of agenteval or of a scenario, or this" in told[1]
    assert "What was stored before is intact" in told[2]


def test_a_runner_of_githubs_is_made_ready_as_our_own_is_and_no_other() -> None:
    workflow = yaml.safe_load((PROJECT / ".github" / "workflows" / "tests.yml").read_text())
    ours = [step.get("run", "") for step in workflow["jobs"]["pythons"]["steps"]]
    needed = [script for script in ours if script.startswith("sudo ")]
    ready = [step for step in STEPS if step.get("run", "").startswith("sudo ")]
    assert len(needed) == 2
    assert [step["run"].replace(" --ignore", "") for step in ready] == needed
    assert {step["if"] for step in ready} == {"runner.environment == 'github-hosted'"}
    assert STEPS.index(ready[-1]) < STEPS.index(step_with(".ci/gate"))


def test_each_input_reaches_a_step_and_is_told_in_the_page() -> None:
    used = {*re.findall(r"inputs\.([\w-]+)", yaml.dump(STEPS))}
    told = {*re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE)}
    assert used == {*ACTION["inputs"]}
    assert told == {*ACTION["inputs"], *ACTION["outputs"]}


def test_the_example_gives_the_action_what_it_takes() -> None:
    example = yaml.safe_load((PROJECT / "examples" / "gate" / "github.yml").read_text())
    steps = example["jobs"]["gate"]["steps"]
    (step,) = [one for one in steps if "/agenteval@" in one.get("uses", "")]
    required = {name for name, one in ACTION["inputs"].items() if one.get("required")}
    assert required <= {*step["with"]} <= {*ACTION["inputs"]}
    told = re.findall(r"steps\.([\w-]+)\.outputs\.([\w-]+)", yaml.dump(steps))
    assert {*told} <= {(step["id"], name) for name in ACTION["outputs"]} != set()


@pytest.fixture
def archive(tmp_path_factory) -> Path:
    """This project without git, tests, and dependencies, which would take minutes to get."""
    if not (PROJECT / ".git").exists():
        pytest.skip("no repository here, as in an sdist")
    folder = tmp_path_factory.mktemp("archive")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", ".", ":!tests"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(PROJECT / name):
            shutil.copy2(PROJECT / name, folder / name, follow_symlinks=False)
    project = folder / "pyproject.toml"
    project.write_text(re.sub(r"(?ms)^dependencies = \[$.*?^\]$", "", project.read_text()))
    return folder


@pytest.mark.slow
def test_an_archive_of_the_action_installs_the_version_that_its_files_say(place, archive) -> None:
    """The runner gets an archive of the action, without git."""
    (place / "agenteval-venv" / "bin").unlink()
    done = played("pip", place, action=archive)
    if "No matching distribution found for hatchling" in done.told:
        pytest.skip("the package index cannot be reached")
    code = "import importlib.metadata as m; print(m.version('agenteval-gate'))"
    python = place / "agenteval-venv" / "bin" / "python"
    printed = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    assert (done.code, printed.stdout.strip()) == (0, _version.__version__), done.told
