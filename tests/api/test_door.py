"""`import agenteval`: what a program gets, as a program gets it."""

import asyncio
import dataclasses
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import agenteval
from agenteval import errors
from agenteval.api import comparisons, runs

sys.path.insert(0, str(Path(__file__).parents[1] / "logs"))
from sample_logs import claude

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
SIM = "sim/qwen3.5-27b"


@pytest.mark.slow
def test_the_examples_of_the_page_are_true(project) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    known: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), known)
    assert len(blocks) == 10


def test_importing_the_package_imports_none_of_its_parts() -> None:
    probe = (
        "import sys; before = set(sys.modules); import agenteval; "
        "print(sorted(set(sys.modules) - before))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True
    )
    found = eval(ended.stdout)
    ours = {name for name in found if name.startswith("agenteval")}
    assert ours <= {"agenteval", "agenteval._version", "agenteval.lazily"}
    assert {"typing", "dataclasses", "asyncio", "inspect", "numpy", "typer"}.isdisjoint(found)


@pytest.mark.parametrize("name", agenteval.__all__)
def test_every_name_of_the_door_leads_somewhere(name) -> None:
    assert getattr(agenteval, name).__doc__


def test_a_name_that_is_none_is_no_attribute() -> None:
    assert not hasattr(agenteval, "no_such_name")


@pytest.fixture
def played(project) -> runs.RunResult:
    return runs.run(SIM, "notes/append", trials=2)


def test_a_run_tells_its_progress_and_is_what_is_stored(project) -> None:
    seen: list[runs.Progress] = []
    result = runs.run(SIM, ["notes/append"], trials=3, store="own.db", on_progress=seen.append)
    assert [one.finished for one in seen] == [1, 2, 3]
    assert (seen[-1].calls, seen[-1].denied) == (result.errors.n, result.errors.count)
    assert runs.load(store="own.db") == result
    assert sum(row.errors for row in result.classes) == result.errors.count


def test_a_run_goes_on_where_a_loop_is_running(project) -> None:
    async def cell() -> tuple[runs.RunResult, runs.RunResult]:
        here = runs.run(SIM, "notes/append", trials=1)
        return here, await runs.run_async(SIM, "notes/append", trials=1)

    blocked, awaited = asyncio.run(cell())
    assert blocked.trials == awaited.trials


STOPPED = """
import asyncio, os, signal, agenteval

def stop(progress):
    os.kill(os.getpid(), signal.SIGINT)

async def cell():
    return agenteval.run("sim/qwen3.5-27b", trials=50, concurrency=1, on_progress=stop)

try:
    asyncio.new_event_loop().run_until_complete(cell())
except KeyboardInterrupt:
    print("stopped", agenteval.load().complete)
"""


@pytest.mark.slow
def test_ctrl_c_in_a_notebook_ends_the_run_in_good_order(project) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", STOPPED],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.stdout == "stopped False\n", ended.stderr


def test_a_cancelled_run_is_stored_as_not_complete(project) -> None:
    async def cut_short() -> None:
        task: asyncio.Task[runs.RunResult]
        async with asyncio.TaskGroup() as group:
            task = group.create_task(
                runs.run_async(SIM, trials=50, on_progress=lambda _: task.cancel())
            )

    asyncio.run(cut_short())
    stored = runs.load()
    assert (stored.complete, len(stored.trials) < 50) == (False, True)


def test_results_are_frozen_and_their_rows_plain(played) -> None:
    compared = comparisons.compare(played, runs.run(SIM, "notes/append", trials=2, seed=2))
    judged = comparisons.gate(played, "last", allow_simulated=True)
    classified = comparisons.classify(["ls", "pwd | wc"])
    tables = (
        *(played.trials, played.classes, compared.models, compared.pairs, judged.criteria),
        classified,
    )
    plain = (str, int, float, bool, tuple, type(None))
    for table in tables:
        assert {type(value) for row in table.records() for value in row.values()} <= set(plain)
        assert [list(row) for row in zip(*table.columns().values(), strict=True)] == [
            list(row.values()) for row in table.records()
        ]
    with pytest.raises(dataclasses.FrozenInstanceError):
        judged.verdict = "PASS"
    assert judged.passed == (judged.verdict == "PASS")


def test_the_gate_says_what_the_command_says(played, cli_json) -> None:
    other = runs.run(SIM, "notes/append", trials=2, seed=2)
    judged = comparisons.gate(played, other, allow_simulated=True)
    shown = cli_json("gate", "--baseline", played.id, "--candidate", other.id, "--allow-simulated")
    criteria = [(row.name, row.verdict, row.estimate, row.n) for row in judged.criteria]
    told = [(one["name"], one["verdict"], one["estimate"], one["n"]) for one in shown["criteria"]]
    assert (judged.verdict, criteria[: len(told)]) == (shown["verdict"], told)


def test_ingested_logs_are_what_the_command_takes_in(project, cli_json) -> None:
    Path("claude.jsonl").write_text(claude())
    ingestion = runs.ingest("claude-code", Path("claude.jsonl"), store="own.db")
    again = runs.ingest("claude-code", ["claude.jsonl"], store="own.db")
    shown = cli_json("ingest", "claude-code", "claude.jsonl")
    (row,), (told,) = ingestion.runs, shown["runs"]
    assert (row.added, row.calls) == (told["sessions"]["added"], sum(told["recorded"].values()))
    assert (row.model, row.format) == (told["model"], told["format"])
    assert (again.runs, again.unchanged) == ((), 1)
    assert runs.load(row.id, store="own.db").model == row.model


def test_the_parts_of_logs_that_cannot_be_read_are_named(project) -> None:
    Path("claude.jsonl").write_text(f"{claude()}{{\n")
    (part,) = runs.ingest("claude-code", "claude.jsonl").skipped
    assert (part.path, bool(part.reason)) == ("claude.jsonl", True)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (lambda: runs.run("nobody"), "no model 'nobody'"),
        (lambda: runs.run(SIM, "no-such-scenario"), "'no-such-scenario'"),
        (lambda: runs.run(SIM, trials=0), "trials=0: at least 1"),
        (lambda: runs.run(SIM, trials=1.5), "trials=1.5: a whole number, at least 1"),
        (lambda: runs.run(SIM, trials=True), "trials=True: a whole number, at least 1"),
        (lambda: runs.run("m", base_url=[]), r"base_url=\[\]: no server"),
        (lambda: runs.run(SIM, rules="middle"), "rules='middle': one of start, end, both"),
        (lambda: runs.load("x", about="all"), "about='all': one of these, like-these"),
        (lambda: comparisons.gate("x", "y", about="all"), "about='all': one of these, like-these"),
        (
            lambda: runs.run("m", base_url=["http://a/v1", "http://a/v1"]),
            "'http://a/v1 http://a/v1': each URL once",
        ),
        (lambda: comparisons.classify([3]), "3: not one tool call; give a command"),
        (lambda: comparisons.classify(None), "None: no tool call; give a command"),
        (lambda: comparisons.classify(b"ls"), "b'ls': no tool call; give a command"),
        (lambda: runs.load("x", store="typo.db"), r"typo\.db: no such file"),
        (lambda: comparisons.compare("a", "b", store="typo.db"), r"typo\.db: no such file"),
        (lambda: comparisons.gate("a", "b", store="typo.db"), r"typo\.db: no such file"),
        (lambda: comparisons.classify("ls", allowlist="none"), "'none'"),
        (lambda: comparisons.classify({"neither": 1}), "not one tool call"),
        (lambda: comparisons.classify("ls", allowlist=5), "allowlist=5: must be a str"),
        (lambda: runs.load(None), "run=None: must be a str"),
        (lambda: runs.load(store=3), "store=3: must be a str"),
        (lambda: runs.run(["a"], ["notes/append"]), r"model=\['a'\]: must be a str"),
        (lambda: runs.run(SIM, 5), "scenarios=5: must be a str, or several"),
        (lambda: runs.run(SIM, [5]), "scenarios=5: must be a str"),
        (lambda: runs.run(SIM, base_url=5), "base_url=5: must be a str, or several"),
        (lambda: runs.run(SIM, arm=5), "arm=5: must be a str"),
        (lambda: runs.run(SIM, on_progress=5), "on_progress=5: must be a function"),
        (lambda: comparisons.gate("a", "b", rules=5), "rules=5: must be a str or a Path"),
        (lambda: comparisons.gate("a", None), "run=None: must be a str"),
        (lambda: comparisons.compare("a", 5), "run=5: must be a str"),
        (lambda: runs.rescore(allowlist=5), "allowlist=5: must be a str"),
        (lambda: runs.ingest(5), "format_name=5: must be a str"),
        (lambda: runs.ingest("nothing", "."), "'nothing': no format of logs"),
        (lambda: runs.ingest("codex", [5]), "paths=5: must be a str"),
        (lambda: runs.ingest("codex", "."), r"\.: no log of codex in it"),
        (lambda: runs.ingest("codex", ".", since="today"), "today: no day or time"),
    ],
)
def test_what_the_caller_must_mend_is_a_usage_error(project, wrong, complaint) -> None:
    with pytest.raises(errors.UsageError, match=complaint):
        wrong()


def test_a_setting_that_is_none_is_a_type_error(project) -> None:
    with pytest.raises(TypeError, match=r"no setting trails; there are trials, seed"):
        runs.run(SIM, trails=3)


def test_the_door_is_typed() -> None:
    from agenteval.api.runs import Settings  # noqa: PLC0415 -- what `run` unpacks

    assert typing.get_type_hints(runs.load)["return"] is runs.RunResult
    assert "trials" in typing.get_type_hints(Settings)
    assert Path(agenteval.__file__).with_name("py.typed").exists()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_table_becomes_a_data_frame(played, library) -> None:
    frames = pytest.importorskip(library)
    frame = frames.DataFrame(played.trials)
    assert (list(frame.columns)[:2], frame.shape) == (["scenario", "number"], (2, 10))
