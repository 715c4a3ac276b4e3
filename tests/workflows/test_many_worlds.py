"""`agenteval scenarios check --worlds N`: many worlds, other honest players, and adversaries."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agenteval.cli.scenarios import app

SCENARIO = """
title = "Say the word"
policy = "words"
fixture = "words"
tools = ["bash", "write"]
database = "words.db"

[draw]
number = { from = 100, to = 99999 }

[ask]
word = "SELECT word FROM secret"

[[goal]]
name = "said"
query = "SELECT group_concat(word) FROM words"
expect = "{{ word }}"

[[solution]]
tool = "bash"
arguments = { command = "uv run scripts/note.py --ask" }

[[solution]]
tool = "bash"
arguments = { command = "uv run scripts/note.py --say '{{ word }}'" }
"""
ANOTHER = """
[[another]]
tool = "bash"
arguments = {{ command = "uv run scripts/note.py {}" }}

"""
NOTE = """
import argparse, sqlite3
parser = argparse.ArgumentParser()
parser.add_argument("--say")
parser.add_argument("--ask", action="store_true")
given = parser.parse_args()
with sqlite3.connect("words.db") as words:
    if given.say:
        words.execute("INSERT INTO words VALUES (?)", [given.say])
    print(*words.execute("SELECT word FROM secret").fetchone())
"""
RULES = """
[write]
allow = ["*"]
[[bash.script]]
path = "scripts/note.py"
options = { "--say" = "str", "--ask" = "flag" }
"""
WORLD = """CREATE TABLE words (word TEXT);
CREATE TABLE secret (word TEXT); INSERT INTO secret VALUES ('w{{ number }}');"""


def checked(project: Path, *changes: tuple[str, str], world: str = WORLD, worlds: int = 12):
    """What `check --worlds` says of the scenario with these changes."""
    scenario = SCENARIO
    for before, after in changes:
        assert before in scenario
        scenario = scenario.replace(before, after)
    files = {
        "agenteval.toml": "",
        "scenarios/words/scenario.toml": scenario,
        "scenarios/words/instructions.md": "# System\nSay it.\n\n# Task\nCase {{ number }}.",
        "scenarios/words/known.py": "assert True",
        "fixtures/words/files/scripts/note.py": NOTE,
        "fixtures/words/files/examples.txt": "w",
        "fixtures/words/world.sql": world,
        "allowlists/words.toml": RULES,
    }
    for name, text in files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    options = ["check", str(project / "scenarios/words"), "--worlds", str(worlds), "--json"]
    result = CliRunner().invoke(app, options, catch_exceptions=False)
    (proof,) = json.loads(result.output)
    assert result.exit_code == (1 if proof["faults"] else 0)
    return proof


@pytest.fixture(autouse=True)
def there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_a_sound_scenario_withstands_them_all(tmp_path):
    proof = checked(tmp_path, ("[draw]", ANOTHER.format("--ask --say {{ word }}") + "[draw]"))
    assert (proof["faults"], proof["tried"], proof["answers"]) == ([], 12, 12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            [("group_concat(word) FROM words", "word FROM words WHERE word = '{{ word }}'")],
            "guesses on, before and after the right answer reaches the goal",
        ),
        (
            [
                ("group_concat(word)", "instr(group_concat(word), '{{ word }}') > 0"),
                ('expect = "{{ word }}"', "expect = 1"),
            ],
            "lists every answer reaches the goal",
        ),
        (
            [
                ("SELECT group_concat(word) FROM words", "SELECT count(*) FROM words"),
                ('expect = "{{ word }}"', "expect = 1"),
            ],
            "looks at nothing and answers by the prompt alone reaches the goal",
        ),
        (
            [("[draw]", ANOTHER.format("--say tea") + "[draw]")],
            "a player that takes the way of [[another]] does not reach the goal",
        ),
    ],
)
def test_what_a_player_can_get_without_the_work_is_a_fault(changes, says, tmp_path):
    faults = checked(tmp_path, *changes, worlds=2)["faults"]
    assert any(says in fault for fault in faults), faults


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "says"),
    [
        (
            WORLD.replace("w{{ number }}", "tea"),
            "12 worlds have one answer: whoever has seen one knows all",
        ),
        (
            WORLD + "INSERT INTO words SELECT word FROM secret WHERE {{ number }} % 4 = 1;",
            "the goal is reached before anything was done",
        ),
        (
            WORLD + "DELETE FROM secret WHERE {{ number }} % 4 = 1;",
            "ask.word: the fresh world has no answer to",
        ),
    ],
)
def test_a_world_of_one_seed_that_is_no_good_is_found(world, says, tmp_path):
    faults = checked(tmp_path, world=world)["faults"]
    assert any(says in fault for fault in faults), faults
