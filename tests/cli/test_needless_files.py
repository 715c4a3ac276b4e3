"""A file of the working folder that a command does not need never stops it."""

from pathlib import Path

import pytest
from old_stores import restored

from agenteval.store.location import SCHEMA

NO_TOML = "no TOML ["
NO_GATE = "agenteval: ./gate.toml: not valid TOML: Expected '=' after a key in a key/value pair"
BROKEN = {
    "an old gate.toml": ("gate.toml", "[plan]\nover = 3\n"),
    "a gate.toml that is none": ("gate.toml", NO_TOML),
    "a gate.toml about nothing known": ("gate.toml", 'about = "elsewhere"\n'),
    "a folder gate.toml": ("gate.toml/file", ""),
    "agenteval.toml": ("agenteval.toml", "[models.m]\nbase_url = 3\n"),
    "another allow list": ("allowlists/other.toml", NO_TOML),
    "another arm": ("arms/other.toml", NO_TOML),
    "another scenario": ("scenarios/other/one/scenario.toml", NO_TOML),
    "another fixture": ("fixtures/other/world.sql", "nonsense;"),
}
PLAY = ("--model", "sim/qwen3.5-27b", "--trials", "1", "--seed", "3", "notes/append")
COMMANDS = {
    "show": ("show", "--store", "runs.db"),
    "show last": ("show", "last", "--store", "runs.db"),
    "calls": ("calls", "last", "--store", "runs.db"),
    "transcript": ("transcript", "last", "ralf/handshake", "--store", "runs.db"),
    "trend": ("trend", "--store", "runs.db"),
    "suggest": ("suggest", "last", "--store", "runs.db"),
    "store check": ("store", "check", "--store", "runs.db"),
    "explain": ("explain", "bare-binary"),
    "classify": ("classify", "rm x", "--allowlist", "demo"),
    "lint": ("allowlist", "lint", "demo"),
    "scenarios show": ("scenarios", "show", "notes/append"),
    "compare": ("compare", "counts.csv"),
}
COUNTS = "model,errors,calls\na,3,100\nb,9,100\n"


def answers(cli, names=tuple(COMMANDS)) -> dict[str, tuple[int, str]]:
    said = {name: cli(*COMMANDS[name]) for name in names}
    return {name: (one.code, one.out) for name, one in said.items()}


@pytest.fixture
def place(project) -> Path:
    restored(SCHEMA, project)
    (project / "counts.csv").write_text(COUNTS)
    return project


def put(place: Path, what: str) -> None:
    name, text = BROKEN[what]
    file = place / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.slow
@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_that_a_command_does_not_need_changes_nothing_of_it(cli, place, what):
    before = answers(cli)
    put(place, what)
    assert answers(cli) == before


@pytest.mark.slow
@pytest.mark.parametrize("what", BROKEN)
def test_a_run_of_a_simulated_model_is_played_whatever_lies_beside_it(cli, place, what):
    put(place, what)
    said = cli("run", *PLAY, "--store", "new.db")
    assert (said.code, "completed" in said.out) == (0, True)


@pytest.mark.parametrize("what", ["an old gate.toml", "a gate.toml that is none"])
def test_what_shows_warns_of_a_gate_file_only_where_it_cannot_be_read(cli, place, caplog, what):
    put(place, what)
    cli(*COMMANDS["show last"])
    said = [one.replace(str(place), ".").partition(" (")[0] for one in caplog.messages]
    assert said == ([NO_GATE] if what == "a gate.toml that is none" else [])
