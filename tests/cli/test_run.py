"""The main job, end to end: a simulated model over real HTTP, in a real sandbox."""

import json
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from program import PROGRAM
from stored import stored as keep
from test_resume import stored

from agenteval import _version
from agenteval.errors import UsageError
from agenteval.play.trial import TrialRunner
from agenteval.sandbox.session import Session
from agenteval.testing import card, run, trial
from agenteval.trial.run import Run

STORE = "reports/agenteval.db"


def calls(run: Run) -> list[object]:
    return [
        (trial.scenario, trial.number, trial.seed, call.turn, call.call.name, call.call.raw,
         call.verdict, call.execution and call.execution.exit_code)
        for trial in run.trials
        for call in trial.calls
    ]  # fmt: skip


@pytest.mark.slow
def test_the_same_seed_gives_the_same_calls_and_another_seed_others(cli, project) -> None:
    runs = []
    for seed in ("7", "7", "8"):
        cli("run", "-m", "sim/qwen3.6-35b", "--trials", "2", "--seed", seed, "ralf/handshake")
        runs.append(calls(stored(project)))
    assert (runs[0] == runs[1], runs[0] == runs[2], len(runs[0]) > 10) == (True, False, True)


@pytest.mark.parametrize("option", [(), ("--report", "mine.html")])
def test_a_run_prints_its_table_and_writes_its_report(cli, project, option) -> None:
    said = cli("run", "-m", "sim/qwen3.5-27b", "--trials", "1", "media/rendered-plot", *option)
    report = said.out.rsplit("Report: ", 1)[1].strip()
    page = (project / report).read_text()
    assert (said.code, "SIMULATED" in said.out, page[:15]) == (0, True, "<!doctype html>")
    assert option[1:] in {(), (report,)}


def test_the_published_comparison_makes_a_page_when_one_is_asked_for(cli, project) -> None:
    cli("show", "article", "--report", "article.html")
    assert "12.03" in (project / "article.html").read_text()


def test_what_a_run_depends_on_is_stored_with_it(cli, project) -> None:
    few = ("--trials", "1", "--seed", "3", "--max-turns", "4")
    cli("run", "-m", "sim/qwen3.5-122b", *few, "ralf/handshake", "media/rendered-plot")
    run = stored(project)
    assert (
        run.model.simulated,
        run.model.architecture,
        run.seed,
        run.max_turns,
        run.complete,
        sorted(run.policies),
        max(len(trial.turns) for trial in run.trials) <= 4,
        run.second_reader["agreed"] > 0,
    ) == (True, "moe", 3, 4, True, ["boiler", "ralf"], True, True)


def test_two_runs_are_shown_side_by_side_as_json(cli, project) -> None:
    ids = []
    for model in ("sim/qwen3.6-35b", "sim/qwen3.5-27b"):
        cli("run", "-m", model, "--trials", "1", "data/pantry-audit")
        ids.append(stored(project).id)
    shown = json.loads(cli("show", *ids, "--json", "--taxonomy", "article").out)
    assert [run["id"] for run in shown["runs"]] == ids
    assert (len(shown["pairs"]), len(shown["classes"])) == (1, 11)


def test_a_run_of_two_models_says_as_json_what_their_comparison_says(cli) -> None:
    models = ("-m", "sim/qwen3.6-35b", "-m", "sim/qwen3.5-27b")
    said = cli("run", *models, "--trials", "2", "--json", "data/pantry-audit", "mail/draft")
    ids = [run["id"] for run in json.loads(said.out)["runs"]]
    assert len(ids) == 2
    assert cli("compare", *ids, "--json").out == said.out


def test_models_lists_the_configured_with_what_is_wrong_and_the_simulated(cli, project) -> None:
    (project / "agenteval.toml").write_text(
        "[models.mine]\nbase_url = 'http://127.0.0.1:9/v1'\nmodel = 'm'\narchitecture = 'moe'\n"
    )
    said = cli("models", "--json")
    listed = {row["name"]: row for row in json.loads(said.out)}
    assert (
        said.code,
        "no OpenAI-compatible server answers" in listed["mine"]["problem"],
        listed["sim/qwen3.5-27b"]["simulated"],
    ) == (0, True, True)


def test_models_asks_the_server_that_is_named(cli, answering, reply) -> None:
    body = '{"data": [{"id": "org/served"}]}'
    with answering(reply("200 OK", "application/json", body)) as url:
        assert "org/served" in cli("models", "--base-url", url).out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ended_by", "at_ctrl_c"),
    [
        (signal.SIGINT, signal.SIG_DFL),
        (signal.SIGTERM, signal.SIG_DFL),
        (signal.SIGTERM, signal.SIG_IGN),  # as a script starts it with `&`
    ],
)
def test_what_ends_a_run_leaves_a_store_that_can_be_read(project, ended_by, at_ctrl_c) -> None:
    running = subprocess.Popen(
        [*PROGRAM, "run", "-m", "sim/qwen3.5-27b", "--trials", "500", "ralf"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, at_ctrl_c),  # noqa: PLW1509 -- no thread
    )
    try:
        wait_for_calls(project, running)
        running.send_signal(ended_by)
        out, _ = running.communicate(timeout=120)
    finally:
        running.kill()
    run = stored(project)
    assert (running.returncode, b"Report: " in out) == (128 + ended_by, True)
    assert (run.complete, bool(run.trials)) == (False, True)


def wait_for_calls(project: Path, running: subprocess.Popen[bytes]) -> None:
    while running.poll() is None:
        time.sleep(0.2)
        with suppress(UsageError):  # no run is stored yet
            if any(trial.calls for trial in stored(project).trials):
                return
    pytest.fail("it ended before a call was stored")


RUNS_ONLY = {"scipy", "statsmodels", "sqlmodel", "openai", "pandas", "numpy", "uvicorn"}
CHECKED = RUNS_ONLY | {"pydantic", "tree_sitter"}


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], CHECKED | {"rich", "jinja2"}),
        (["gate", "--help"], CHECKED | {"rich", "jinja2"}),
        (["ingest", "--help"], CHECKED | {"rich", "jinja2"}),
        (["classify", "ls"], CHECKED | {"rich", "jinja2"}),
        (["explain", "heredoc"], RUNS_ONLY),
        (["models"], RUNS_ONLY | {"rich", "jinja2", "agenteval.models.probe"}),
        (["show"], CHECKED | {"rich", "jinja2"}),
        (["show", "last", "--json"], CHECKED),
        (["compare", "last", "last-1", "--json"], CHECKED - {"numpy"}),
        (
            ["gate", "--baseline", "last-1", "--candidate", "last", "--allow-simulated"],
            RUNS_ONLY | {"tree_sitter"},
        ),
    ],
)
def test_start_up_does_not_import_what_only_runs_need(project, arguments, heavy) -> None:
    keep(STORE, run(trial("ls"), run_id="one"), run(trial("ls"), run_id="two", model=card("b")))
    probe = (
        "import sys; from agenteval.cli.app import app\n"
        f"try: app({arguments!r})\n"
        "except SystemExit: pass\n"
        f"print(sorted({heavy!r} & set(sys.modules)), file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True
    )
    assert ended.stderr.strip().splitlines()[-1] == "[]"


def test_the_list_tells_runs_apart_and_takes_a_part_of_them(cli) -> None:
    assert cli("show").out.startswith("No runs yet")
    cli("run", "-m", "sim/qwen3.5-27b", "--trials", "2", "--seed", "7", "media/rendered-plot")
    cli("run", "-m", "sim/qwen3.6-35b", "--trials", "1", "mail")
    both, one = cli("show"), cli("show", "--model", "27b")
    none = cli("show", "--since", "2999-01-01")
    assert "media/rendered-plot, taught/tools, seed 7; goal reached in " in one.out
    assert re.search(r"errors per 100 calls: \d+\.\d\d \[.*\] n=\d+", one.out)
    assert "sim/qwen3.5-27b SIMULATED  2 of 2 trials" in one.out
    assert [text.count("SIMULATED") for text in (both.out, one.out, none.out)] == [2, 1, 0]
    assert none.out.startswith("No such runs in ")


@pytest.mark.slow
def test_the_list_and_a_run_tell_one_interval(cli) -> None:
    cli("run", "-m", "sim/qwen3.6-35b", "--trials", "3", "mail", "media/rendered-plot")
    (listed,) = json.loads(cli("show", "--json").out)["runs"]
    (shown,) = json.loads(cli("show", "last", "--json").out)["models"]
    assert {key: shown["errors"][key] for key in listed["errors"]} == listed["errors"]


def test_a_model_names_its_last_run_and_what_last_means_is_told(cli) -> None:
    for model in ("sim/qwen3.5-27b", "sim/qwen3.6-35b"):
        cli("run", "-m", model, "--trials", "1", "media/rendered-plot")
    pair = json.loads(cli("compare", "sim/qwen3.5-27b", "last", "--json").out)["models"]
    assert [one["model"] for one in pair] == ["sim/qwen3.5-27b", "sim/qwen3.6-35b"]


def test_the_version_is_printed(cli) -> None:
    assert cli("--version").out == f"agenteval {_version.__version__}\n"


COMMANDS = ("run", "show", "models", "scenarios", "classify", "explain", "gate", "plan", "doctor")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(cli, command) -> None:
    said = cli(command, "--help")
    assert (said.code, "Examples" in said.out) == (0, True)


@pytest.mark.slow
def test_the_median_turn_of_the_shipped_scenarios_asks_no_world(cli, monkeypatch) -> None:
    asks, turns, ask, ended = [], [], Session.ask, TrialRunner.ended
    monkeypatch.setattr(Session, "ask", lambda *given: asks.append(given) or ask(*given))
    monkeypatch.setattr(TrialRunner, "ended", lambda runner: turns.append(runner) or ended(runner))
    cli("run", "-m", "sim/qwen3.6-35b", "--trials", "1")
    assert (len(turns) > 250, 0 < 2 * len(asks) < len(turns)) == (True, True), len(asks)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "Cut off: `agenteval run --resume last` goes on where a run had begun; else start it"),
        (("--resume", "last"), "Cut off: the same command goes on"),
    ],
)
def test_cut_off_before_a_run_plays_it_says_how_to_go_on(cli, monkeypatch, words, told):
    def cut(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("agenteval.workflows.gate.declared", cut)
    monkeypatch.setattr("agenteval.workflows.stages.plan_of", cut)
    said = cli("run", *(words or ("--model", "sim/qwen3.6-35b")))
    assert (said.code, said.out, said.err.startswith(told)) == (130, "", True), said.err
