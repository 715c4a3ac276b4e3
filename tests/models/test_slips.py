"""Every slip that a persona can make is denied, as the class it is meant to be."""

import json
import re
from functools import cache
from itertools import product
from random import Random

import pytest
from suite import PROJECT, SCENARIOS

from agenteval.classes.catalogue import article_row
from agenteval.classes.judge import judge
from agenteval.config.allowlists import load_policy
from agenteval.config.scenarios import load_fixture
from agenteval.models.oracle import as_tool_call
from agenteval.models.persona import NAMES, Right, load_persona, slips
from agenteval.models.player import Player
from agenteval.models.simulated import _past_calls
from agenteval.play import tools
from agenteval.policy.policy import World
from agenteval.prompt.arm import STRICT
from agenteval.sandbox.maker import render

TOOLS = frozenset({"bash", "read"})
CLASSES = {
    "pipe-head": "pipe-to-filter",
    "pipe-tail": "pipe-to-filter",
    "pipe-grep": "pipe-to-filter",
    "pipe-jq": "pipe-to-filter",
    "pipe-sed": "pipe-to-filter",
    "listing-grep": "pipe-to-filter",
    "stderr-to-stdout": "stderr-redirect",
    "stderr-to-null": "stderr-redirect",
    "cd-chain": "shell-chain",
    "or-true": "shell-chain",
    "or-echo": "shell-chain",
    "and-chain": "shell-chain",
    "kill-or-true": "shell-chain",
    "heredoc": "heredoc",
    "timeout-prefix": "wrapper-prefix",
    "bare-ls": "bare-binary",
    "bare-cat": "bare-binary",
    "bare-find": "bare-binary",
    "bare-curl": "bare-binary",
    "python-c": "inline-code",
    "plausible-script": "hallucinated-script",
    "invented-flag": "hallucinated-flag",
    "invented-command": "hallucinated-flag",
    "lost-quote": "shell-syntax-error",
    "read-rendered": "blocked-path",
    "guidance-tool": "hallucinated-tool",
    "search-tool": "hallucinated-tool",
    "broken-json": "malformed-arguments",
}


@cache
def world(number: int):
    scenario = SCENARIOS[number]
    files = frozenset(load_fixture(scenario, 0, roots=[PROJECT]))
    return load_policy(scenario.policy, roots=[PROJECT]), World(files)


@cache
def prompt(number: int):
    return render(SCENARIOS[number], 0)


def judged(number: int, kind: str, place: int, draw: int) -> tuple[str, str]:
    """One slip before one step of a solution: its text, and the class that it is given."""
    player = Player(load_persona(NAMES[0]), prompt(number), TOOLS, Random(0))
    written = slips()[kind](player.right(prompt(number).solution, place), Random(draw))
    policy, files = world(number)
    verdict = judge(as_tool_call(written), policy, files)
    return written.arguments, verdict.primary.failure_class if verdict.primary else "allowed"


def test_every_kind_has_the_class_it_is_meant_to_be():
    assert set(CLASSES) == set(slips())


@pytest.mark.parametrize("number", range(len(SCENARIOS)), ids=lambda n: SCENARIOS[n].name)
def test_a_slip_before_any_step_is_judged_as_its_class(number):
    _, files = world(number)
    wrong = []
    for kind, failure_class in CLASSES.items():
        for place, draw in product(range(len(SCENARIOS[number].solution)), range(3)):
            text, judged_as = judged(number, kind, place, draw)
            there = kind == "plausible-script" and any(script in text for script in files.files)
            if judged_as != ("unlisted-script" if there else failure_class):
                wrong.append((kind, text, judged_as))
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_a_personas_rows_are_the_articles(name):
    """What a row of the data file makes is counted in the article's row of the same class."""
    rows = {
        row: {article_row(CLASSES[kind]) for kind in row_of_slips.kinds}
        for row, row_of_slips in load_persona(name).slips.items()
    }
    assert rows == {row: {article_row(row)} for row in rows}


def test_a_slip_names_the_image_of_its_task():
    (number,) = (
        n for n, scenario in enumerate(SCENARIOS) if scenario.name == "media/rendered-plot"
    )
    (image,) = re.findall(r"/data/\S+png", render(SCENARIOS[number], 0).task)
    paths = {json.loads(judged(number, "read-rendered", 0, draw)[0])["path"] for draw in range(9)}
    assert paths == {image, "/data/rendered/overview.png"}


@pytest.mark.parametrize("kind", slips())
def test_the_engines_denial_of_a_slip_is_read_as_one(kind):
    policy, files = world(0)
    player = Player(load_persona(NAMES[0]), prompt(0), TOOLS, Random(0))
    right = player.right(prompt(0).solution, 1)
    written = slips()[kind](right, Random(0))
    call = as_tool_call(written)
    denial = tools.denial(call, judge(call, policy, files), STRICT, policy)
    (read,) = _past_calls(
        [
            {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": call.name}}]},
            {"role": "tool", "tool_call_id": "a", "content": denial},
        ]
    )
    assert read.denied


def test_a_slip_where_no_task_names_an_image_guesses_where_a_script_lies():
    right = Right("uv run scripts/notes.py list", "")
    (path,) = {
        json.loads(slips()["read-rendered"](right, Random(n)).arguments)["path"] for n in (1, 2)
    }
    assert path == "/home/user/scripts/notes.py"
    assert "no-agent" not in {
        slips()["invented-flag"](right, Random(n)).arguments for n in range(9)
    }
