"""`[[agent]]` of a scenario: what the loader takes, and its one line about everything else."""

from pathlib import Path

import pytest

from agenteval.config.scenarios import load_scenarios
from agenteval.errors import UsageError
from agenteval.trial.trial import Agent, CodeTest, SpawnLimits, Step

FILES = {
    "scenarios/tea/instructions.md": "# System\nx\n\n# Task\nNote {{ word }}.",
    "scenarios/tea/worker.md": "# System\ny\n\n# Task\nRequest {{ request }}, {{ word }}.",
    "scenarios/tea/checks/judge.py": "pass",
    "fixtures/notes/files/a.txt": "a",
    "fixtures/notes/world.sql": "CREATE TABLE asks (id, kind);",
}
GOOD = """
title = "Note something"
policy = "demo"
fixture = "notes"
tools = ["bash"]
database = "data/notes.db"
closing = 2

[spawn]
depth = 3

[[variant]]
word = "tea"

[[goal]]
name = "noted"
query = "SELECT id FROM asks"
expect = "tea"

[[solution]]
tool = "bash"
arguments = { command = "note" }

[[agent]]
name = "worker"
instructions = "worker.md"
policy = "other"
tools = ["bash"]
spawned = "SELECT id AS request FROM asks WHERE kind = 'work'"
[[agent.solution]]
tool = "bash"
arguments = { command = "note {{ request }}" }

[[agent]]
name = "judge"
evaluator = "fixed"
program = "checks/judge.py"
spawned = "SELECT id FROM asks WHERE kind = 'judge'"
"""


def build(project: Path, scenario: str = GOOD, **files: str) -> None:
    for name, text in {**FILES, "scenarios/tea/scenario.toml": scenario, **files}.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_agents_become_those_of_the_scenario(tmp_path):
    build(tmp_path)

    (scenario,) = load_scenarios([], roots=[tmp_path])

    assert (scenario.agents, scenario.spawn, scenario.closing) == (
        (
            Agent(
                name="worker",
                spawned="SELECT id AS request FROM asks WHERE kind = 'work'",
                instructions=FILES["scenarios/tea/worker.md"],
                policy="other",
                tools=("bash",),
                solution=(Step("bash", {"command": "note {{ request }}"}),),
            ),
            Agent(
                name="judge",
                spawned="SELECT id FROM asks WHERE kind = 'judge'",
                program=CodeTest("judge", "pass"),
            ),
        ),
        SpawnLimits(depth=3, count=8),
        2,
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("closing = 2", "closing = 0"), "closing: input should be greater than 0"),
        (("depth = 3", "depth = 0"), "spawn.depth: input should be greater than or equal to 1"),
        (("depth = 3", "deep = 3"), "unknown key spawn.deep"),
        (('name = "judge"', 'name = "worker"'), "agent.1.name: 'worker' is taken"),
        (('name = "judge"', 'name = "Judge/1"'), "agent.1.name: string should match pattern"),
        (('instructions = "worker.md"\n', ""), "evaluator = 'model' needs `instructions`"),
        (('program = "checks/judge.py"\n', ""), "evaluator = 'fixed' needs `program`"),
        (('evaluator = "fixed"\n', ""), "evaluator = 'model' has no `program`"),
        (('evaluator = "fixed"\n', 'evaluator = "fixed"\npolicy = "x"\n'), "has no `policy`"),
        (('"fixed"', '"human"'), "agent.1.evaluator: input should be 'model' or 'fixed'"),
        (('"checks/judge.py"', '"../judge.py"'), "agent.1.program: must be a path inside"),
        (('"checks/judge.py"', '"checks/no.py"'), "no.py: cannot be read"),
        (('"worker.md"', '"no.md"'), "agent 'worker' reads it"),
        (
            ('[[agent.solution]]\ntool = "bash"', '[[agent.solution]]\ntool = "read"'),
            "not in its to",
        ),
        (("WHERE kind = 'judge'", "WHERE mind = 1"), "agent.1.spawned: no such column: mind"),
        (
            ("note {{ request }}", "note {{ id }}"),
            "agent.0: 'id' is undefined. Known variables: rul",
        ),
        (("kind = 'work'", "kind = {{ work }}"), "agent.0.spawned: 'work' is undefined"),
    ],
)
def test_a_faulty_agent_is_one_line_with_its_place_and_the_cure(change, says, tmp_path):
    build(tmp_path, GOOD.replace(*change))

    with pytest.raises(UsageError) as caught:
        load_scenarios([], roots=[tmp_path])

    (line,) = str(caught.value).splitlines()
    assert (line.startswith(str(tmp_path)), says in line) == (True, True), line


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (
            "scenarios/tea/worker.md",
            "# System\nno task",
            "agent.0.instructions: it must begin with",
        ),
        (
            "fixtures/notes/world.sql",
            "CREATE TABLE asks (id, kind); INSERT INTO asks VALUES (1, 'judge');",
            "agent.1.spawned: the fresh world has rows for it already",
        ),
    ],
)
def test_what_an_agent_reads_and_where_it_comes_from_is_read_once(name, text, says, tmp_path):
    build(tmp_path, **{name: text})

    with pytest.raises(UsageError, match=says):
        load_scenarios([], roots=[tmp_path])


def test_agents_need_a_world_that_can_be_asked(tmp_path):
    build(tmp_path)
    (tmp_path / "fixtures/notes/world.sql").unlink()

    with pytest.raises(UsageError, match=r"agent: no fixture 'notes' with a world\.sql"):
        load_scenarios([], roots=[tmp_path])
