"""`agenteval scenarios check` plays solutions for real, and says which one is no good and why."""

import itertools
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
from suite import SCENARIOS
from typer.testing import CliRunner

from agenteval.classes.catalogue import failure_classes
from agenteval.classes.judge import judge
from agenteval.cli.scenarios import app
from agenteval.config.allowlists import load_policy
from agenteval.config.scenarios import load_fixture, load_scenarios
from agenteval.models.oracle import as_tool_call
from agenteval.policy.policy import World
from agenteval.protocols import Sandbox, Stage
from agenteval.sandbox.backends import Namespaces
from agenteval.trial.trial import Scenario
from agenteval.workflows.prove import _Proof, _slips_of, prove

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

RULES = """
[read]
allow = ["**"]
[[bash.script]]
path = "scripts/note.py"
positionals = [{ name = "word", nargs = "?" }]
options = { "--word" = "str" }
"""
CHOICES = RULES.replace('"?" }', '"?", choices = ["over", "tea"] }')
COMMANDS = RULES.replace("positionals", "#") + "commands = { over = {}, tea = {} }\n"
OF = {"hallucinated-value": CHOICES, "hallucinated-sub-command": COMMANDS}


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
    return staged(project)


def staged(project: Path) -> Stage:
    (found,) = load_scenarios([], roots=[project])
    policy = load_policy("words", roots=[project])
    agents = {agent.name: policy for agent in found.agents}
    return Stage(found, policy, partial(load_fixture, found, roots=[project]), agents)


def inviting(stage: Stage, failure_class: str) -> Scenario:
    return replace(stage.scenario, invites=(failure_class,))


@dataclass
class OneForAll:
    """A backend that does not reset: every trial gets the same sandbox."""

    sandbox: Sandbox
    name: str = "one-for-all"

    @asynccontextmanager
    async def open(self, files, limits):
        yield self.sandbox


async def test_a_solution_that_reaches_goal_and_handshake_is_a_proof(tmp_path):
    proofs = await prove([build(tmp_path)], Namespaces())

    assert proofs == [_Proof("words", 1, 2, (), ())]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "world", "says"),
    [
        (
            ("note.py tea", "note.py tea | head"),
            "",
            (
                "seed 0: solution.1 `uv run scripts/note.py tea | head` is denied "
                "(pipe-to-filter): Permission denied: the rules do not allow `| head` here. "
                "Nothing was run."
            ),
        ),
        (("note.py tea", "note.py tea cup"), "", "fails: Traceback"),
        (
            ("note.py tea", "note.py rice"),
            "",
            "was played, and the goal is not reached: noted (expected 1, found 0)",
        ),
        (
            ("tools =", "max_turns = 1\ntools ="),
            "",
            "seed 0: max_turns = 1, and the solution has 2 steps: raise it",
        ),
        (("note.py over", "note.py uber"), "", "without the handshake's handed over"),
        (("tea'", "over'"), "", "seed 0: the goal is reached after 1 of 2 steps"),
        (
            ("tea", "tea"),
            "INSERT INTO words VALUES ('tea');",
            (
                "seed 0: the goal is reached before anything was done, by a player that does "
                "nothing: make a check of it fail at first"
            ),
        ),
        (
            ("tea", "tea"),
            "INSERT INTO words VALUES ('tea');",
            "by a player that only says 'Done, all is set.'",
        ),
        (("note.py tea", "note.py tea | head"), "", "under arm codex (pipe-to-filter)"),
        (
            ("tools =", 'invites = ["hallucinated-flag"]\ntools ='),
            "",
            (
                "invites hallucinated-flag, and nothing in the world leads to it: let the "
                "solution use a [[bash.script]] whose options are listed"
            ),
        ),
        (
            ("tools =", 'invites = ["bad-arguments", "pipe"]\nmax_turns = 3\ntools ='),
            "",
            "seed 1: after 2 slips the solution does not reach the goal (turns): raise",
        ),
    ],
)
async def test_what_is_wrong_with_a_scenario_is_said(change, world, says, tmp_path):
    stage = build(tmp_path, SCENARIO.replace(*change), world)

    (proof,) = await prove([stage], Namespaces())

    assert [fault for fault in proof.faults if says in fault] != [], proof.faults


LACKS = "the prompt names scripts/old.py, which the fixture lacks: add it, or mend the name"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "rules", "says"),
    [
        ("Run scripts/old.py.", "", LACKS),
        (
            "Run scripts/other.py.",
            "",
            (
                "the prompt names scripts/other.py, which allow list words does not allow: add a "
                "[[bash.script]], or leave it out"
            ),
        ),
        (
            "    uv run scripts/other.py --all [--limit N]",
            '[[bash.script]]\npath = "scripts/other.py"\noptions = { "--limit" = "int" }',
            (
                "the prompt's usage `uv run scripts/other.py --all [--limit N]` is no allowed "
                "command line (there is no option --all: use --limit): mend the line or "
                "allow list words"
            ),
        ),
        (
            "**bash** runs scripts.",
            "",
            (
                "the prompt names the tool bash, which arm claude-code does not have here: "
                "write {{ bash }}, {{ read }} or {{ write }}, one of tools"
            ),
        ),
    ],
)
async def test_a_prompt_may_name_only_what_there_is(said, rules, says, tmp_path):
    build(tmp_path)
    (tmp_path / "fixtures/words/files/scripts/other.py").write_text("")
    with (tmp_path / "allowlists/words.toml").open("a") as allowlist:
        allowlist.write(rules)
    instructions = f"# System\nNote.\n\n{said}\n\n# Task\nNote tea."
    (tmp_path / "scenarios/words/instructions.md").write_text(instructions)

    (proof,) = await prove([staged(tmp_path)], Namespaces())

    assert [fault.partition("seed 0: ")[2] for fault in proof.faults][:1] == [says]


@pytest.mark.slow
async def test_the_prompt_of_a_sub_agent_may_name_only_what_there_is(tmp_path):
    build(tmp_path, HANDED_OVER + WORKER)
    worker = tmp_path / "scenarios/words/worker.md"
    worker.write_text(worker.read_text().replace("Note.", "Run scripts/old.py."))

    (proof,) = await prove([staged(tmp_path)], Namespaces())

    assert proof.faults == (f"seed 0: agent worker: {LACKS}",)


# It takes two calls: one that writes it, and one that runs it.
SELF_WRITTEN = "self-written-script"


@pytest.mark.parametrize(
    "failure_class", [each.id for each in failure_classes() if each.id != SELF_WRITTEN]
)
def test_every_failure_class_can_be_slipped_into_from_a_right_call(failure_class, tmp_path):
    build(tmp_path, SCENARIO.replace("py tea", 'py --word \\"tea\\"'))
    files = tmp_path / "fixtures/words/files"
    (files / "scripts/other_one.py").write_text("if __name__ == '__main__': pass")
    (files / "readme.md").write_text("The plan lies in /srv/plans/tea.md.")
    (tmp_path / "allowlists/words.toml").write_text(OF.get(failure_class, RULES))
    stage = staged(tmp_path)

    ((_, written),) = _slips_of(replace(stage, scenario=inviting(stage, failure_class)), 0)

    verdict = judge(as_tool_call(written), stage.policy, World(frozenset(stage.files(0))))
    assert [found.failure_class for found in verdict.findings][:1] == [failure_class]


@pytest.mark.slow
async def test_a_slip_that_is_allowed_is_a_fault(tmp_path):
    scenario = SCENARIO.replace("tools =", 'invites = ["bare-binary"]\ntools =')
    build(tmp_path, scenario)
    (tmp_path / "allowlists/words.toml").write_text(
        '[bash]\nallow = ["uv run scripts/note.py *", "ls -la scripts/"]\n'
    )

    (proof,) = await prove([staged(tmp_path)], Namespaces())

    allowed = "the slip `ls -la scripts/` is allowed: mend the allow list, or do not invite it"
    assert proof.faults == (f"invites bare-binary, but {allowed}",)


@pytest.mark.slow
async def test_a_world_that_differs_from_one_making_to_the_next_is_a_fault(tmp_path):
    stage = build(tmp_path)
    made_before = itertools.count()

    def changing(seed):
        return {**stage.files(seed), "stamp": str(next(made_before)).encode()}

    (proof,) = await prove([replace(stage, files=changing)], Namespaces())

    assert proof.faults == (
        "stamp differs between two makings of seed 0: take clock and chance out of it",
    )


@pytest.mark.slow
async def test_what_one_trial_leaves_to_the_next_is_a_fault(tmp_path):
    """Played in a backend of one folder for all: the second solver finds the first one's words."""
    stage = build(tmp_path)

    async with Namespaces().open(stage.files(0), stage.scenario.limits) as sandbox:
        (proof,) = await prove([stage], OneForAll(sandbox))

    assert [fault for fault in proof.faults if "another trial wrote it" in fault] == [
        "words.db of a new trial is not as its fixture has it: another trial wrote it"
    ]


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


@pytest.mark.slow
async def test_the_solution_of_a_sub_agent_is_proven_with_that_of_who_asks_for_it(tmp_path):
    proofs = await prove([build(tmp_path, HANDED_OVER + WORKER)], Namespaces())

    assert proofs == [_Proof("words", 1, 2, (), ())]


@pytest.mark.slow
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
            ("spawned", "max_turns = 1\nspawned"),
            "agent worker/1: ended after 1 of 2 steps of its solution",
        ),
        (JUDGE, ("'over'", "'over'"), "agent judge/1: judge: Traceback"),
    ],
)
async def test_what_is_wrong_with_a_sub_agent_is_said(agent, change, says, tmp_path):
    stage = build(tmp_path, HANDED_OVER + agent.replace(*change))

    (proof,) = await prove([stage], Namespaces())

    assert [fault for fault in proof.faults if says in fault] != [], proof.faults


@pytest.mark.slow
@pytest.mark.timeout(900)  # all scenarios, two minutes where nobody else wants the processor
def test_the_shipped_scenarios_pass_and_a_faulty_one_makes_exit_code_1(tmp_path, monkeypatch):
    shipped = CliRunner().invoke(app, ["check", "--json"], catch_exceptions=False)
    build(tmp_path, SCENARIO.replace("note.py tea", "note.py rice"))
    monkeypatch.chdir(tmp_path)
    faulty = CliRunner().invoke(app, ["check", "words"], catch_exceptions=False)

    proofs = json.loads(shipped.output)
    names = {scenario.name for scenario in SCENARIOS}
    assert {proof["scenario"]: proof["faults"] for proof in proofs} == {name: [] for name in names}
    assert shipped.exit_code == 0
    told = "the solution was played, and the goal is not reached: noted (expected 1, found 0)"
    assert (faulty.exit_code, faulty.output.splitlines()[0]) == (1, f"words: seed 0: {told}")


@pytest.mark.slow
def test_a_scenario_that_works_is_one_line(tmp_path, monkeypatch):
    build(tmp_path, SCENARIO.replace("tools =", 'invites = ["pipe", "heredoc"]\ntools ='))
    monkeypatch.chdir(tmp_path)

    result = CliRunner().invoke(app, ["check", "words"], catch_exceptions=False)

    assert result.output == "words: solved in 2 calls, 1 world; slips: pipe, heredoc\n"
