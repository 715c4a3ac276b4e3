"""`agenteval scenarios check` plays solutions for real, and says which one is no good and why."""

import json
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agenteval.cli.checking import Proof, prove
from agenteval.cli.scenarios import app
from agenteval.config.allowlists import load_policy
from agenteval.config.fixtures import load_fixture
from agenteval.config.scenarios import load_scenarios
from agenteval.engine.orchestrator import Stage
from agenteval.sandbox.namespaces import Namespaces

PROJECT = Path(__file__).resolve().parents[2]
SCENARIO = """
title = "Note a word"
policy = "words"
fixture = "words"
tools = ["bash"]
database = "words.db"

[[goal]]
name = "noted"
query = "SELECT count(*) FROM words WHERE word = 'tea'"
expect = 1

[[handshake]]
name = "handed over"
query = "SELECT count(*) FROM words WHERE word = 'over'"
expect = 1

[[solution]]
tool = "bash"
arguments = { command = "uv run scripts/note.py over" }

[[solution]]
tool = "bash"
arguments = { command = "uv run scripts/note.py tea" }
"""
NOTE = """
import sqlite3, sys
with sqlite3.connect("words.db") as words:
    words.execute("INSERT INTO words VALUES (?)", sys.argv[1:])
print("noted", *sys.argv[1:])
"""


def build(project: Path, scenario: str = SCENARIO, world: str = "") -> Stage:
    files = {
        "scenarios/words/scenario.toml": scenario,
        "scenarios/words/instructions.md": "# System\nNote.\n\n# Task\nNote tea.",
        "fixtures/words/files/scripts/note.py": NOTE,
        "fixtures/words/world.sql": f"CREATE TABLE words (word TEXT); {world}",
        "allowlists/words.toml": '[bash]\nallow = ["uv run scripts/note.py *"]\n',
    }
    files["scenarios/words/judge.py"] = "1 / 0"
    files["scenarios/words/worker.md"] = "# System\nNote.\n\n# Task\nGo on from {{ request }}."
    for name, text in files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (found,) = load_scenarios([], roots=[project])
    policy = load_policy("words", roots=[project])
    agents = {agent.name: policy for agent in found.agents}
    return Stage(found, policy, partial(load_fixture, found, roots=[project]), agents)


async def test_a_solution_that_reaches_goal_and_handshake_is_a_proof(tmp_path):
    proofs = await prove([build(tmp_path)], Namespaces())

    assert proofs == [Proof("words", 0, 2, "")]


@pytest.mark.parametrize(
    ("change", "world", "says"),
    [
        (
            ("note.py tea", "note.py tea | head"),
            "",
            "solution.1 `uv run scripts/note.py tea | head",
        ),
        (
            ("note.py tea", "note.py tea | head"),
            "",
            "is denied (pipe-to-filter): Permission denied",
        ),
        (("note.py tea", "note.py tea cup"), "", "fails: Traceback"),
        (("note.py tea", "note.py rice"), "", "was played, and the goal is not reached"),
        (("note.py over", "note.py uber"), "", "without the handshake's handed over"),
        (("tea'", "over'"), "", "the goal is reached after 1 of 2 steps"),
        (("tea", "tea"), "INSERT INTO words VALUES ('tea');", "reached before anything was done"),
    ],
)
async def test_what_is_wrong_with_a_scenario_is_said(change, world, says, tmp_path):
    stage = build(tmp_path, SCENARIO.replace(*change), world)

    (proof,) = await prove([stage], Namespaces())

    assert says in proof.fault


WORKER = """
[[agent]]
name = "worker"
instructions = "worker.md"
policy = "words"
tools = ["bash"]
spawned = "SELECT word AS request FROM words WHERE word = 'over'"
[[agent.solution]]
tool = "bash"
arguments = { command = "uv run scripts/note.py tea" }
"""
JUDGE = """
[[agent]]
name = "judge"
evaluator = "fixed"
program = "judge.py"
spawned = "SELECT word AS request FROM words WHERE word = 'over'"
"""
HANDED_OVER = SCENARIO.rpartition("\n[[solution]]")[0]


async def test_the_solution_of_a_sub_agent_is_proven_with_that_of_who_asks_for_it(tmp_path):
    proofs = await prove([build(tmp_path, HANDED_OVER + WORKER)], Namespaces())

    assert proofs == [Proof("words", 0, 2, "")]


@pytest.mark.parametrize(
    ("agent", "change", "says"),
    [
        (
            WORKER,
            ("note.py tea", "note.py tea | head"),
            "agent worker/1: solution.0 `uv run scripts/note.py tea | head` is denied",
        ),
        (WORKER, ("note.py tea", "note.py a b"), "agent worker/1: solution.0"),
        (WORKER, ("word = 'over'", "word = 'on'"), "agent worker: the solution never leads to it"),
        (
            f"{WORKER}{WORKER[WORKER.index('[[agent.sol') :]}",
            ("'over'", "'over'"),
            "agent worker/1: ended after 1 of 2 steps of its solution",
        ),
        (JUDGE, ("'over'", "'over'"), "agent judge/1: judge: Traceback"),
    ],
)
async def test_what_is_wrong_with_a_sub_agent_is_said(agent, change, says, tmp_path):
    stage = build(tmp_path, HANDED_OVER + agent.replace(*change))

    (proof,) = await prove([stage], Namespaces())

    assert says in proof.fault


def test_the_shipped_scenarios_pass_and_a_faulty_one_makes_exit_code_1(tmp_path, monkeypatch):
    shipped = CliRunner().invoke(app, ["check", "--json"], catch_exceptions=False)
    build(tmp_path, SCENARIO.replace("note.py tea", "note.py rice"))
    monkeypatch.chdir(tmp_path)
    faulty = CliRunner().invoke(app, ["check", "words"], catch_exceptions=False)

    proofs = json.loads(shipped.output)
    names = {scenario.name for scenario in load_scenarios([], roots=[PROJECT])}
    assert (shipped.exit_code, {proof["scenario"] for proof in proofs}) == (0, names)
    assert {proof["fault"] for proof in proofs} == {""}
    assert (faulty.exit_code, faulty.output) == (
        1,
        "words, seed 0: the solution was played, and the goal is not reached\n",
    )
