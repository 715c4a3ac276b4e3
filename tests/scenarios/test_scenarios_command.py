"""`agenteval scenarios`, as a user calls it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agenteval.cli.scenarios import app
from agenteval.errors import UsageError

FOLDER = Path(__file__).resolve().parents[2] / "scenarios"
SHIPPED = sorted(
    file.parent.relative_to(FOLDER).as_posix() for file in FOLDER.rglob("scenario.toml")
)


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_the_list_has_every_scenario_with_its_allow_list_and_what_it_invites():
    listed = {entry["name"]: entry for entry in json.loads(printed("--json"))}

    assert [name for name in SHIPPED if name not in listed] == []
    assert listed["ralf/handshake"] == {
        "name": "ralf/handshake",
        "title": "Close one stage of a research loop",
        "policy": "ralf",
        "fixture": "ralf",
        "tools": ["bash", "read"],
        "variants": 3,
        "steps": 11,
        "handshake": [
            "update-attempt-outcome",
            "update-stage-status awaiting_eval",
            "ralf_spawn step_evaluator",
        ],
        "invites": [
            "pipe-to-filter",
            "hallucinated-tool",
            "hallucinated-script",
            "heredoc",
            "hallucinated-flag",
        ],
        "agents": [],
        "max_turns": 24,
    }


def test_the_table_names_every_scenario():
    table = printed()

    assert [name for name in SHIPPED if name not in table] == []


def test_show_prints_what_the_sub_agents_read_too():
    shown = printed("show", "ralf/evaluated-by-model")

    heads = [line for line in shown.splitlines() if line.startswith("-----")]
    assert heads == [
        f"----- ralf/evaluated-by-model{agent}, {part} -----"
        for agent in ("", ", sub-agent step_evaluator", ", sub-agent step_worker")
        for part in ("system message", "first message of the user")
    ]
    assert "Judge attempt <attempt> of stage <stage> in loop " in shown


def test_show_prints_both_messages_of_the_seeds_variant():
    one, two = printed("show", "ralf/handshake"), printed("show", "ralf/handshake", "--seed", "1")

    assert one.startswith("----- ralf/handshake, system message -----\n")
    assert "You are a step worker" in one
    assert (
        "The dearest month of the heat pump" in one,
        "The weakest month of the battery" in two,
    ) == (
        True,
        True,
    )
    assert "{{" not in one + two


def test_show_refuses_what_is_not_there():
    with pytest.raises(UsageError, match="no scenario or folder 'milk'"):
        printed("show", "milk")
