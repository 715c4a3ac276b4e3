"""The live display, fed as a run feeds it."""

import io

import pytest
from rich.console import Console

from agenteval.protocols import TrialKey
from agenteval.report.live import live

LIST = "uv run notes.py list"


def play(line, number, calls, *, void=False):
    """A trial whose calls are written as letters: a for allowed, d for denied."""
    key = TrialKey("notes", number, 1000 + number)
    for call in calls:
        line.called(key, denied=call == "d")
    line.finished(key, void=void)


@pytest.fixture
def terminal():
    return Console(file=io.StringIO(), width=120, color_system=None)


def test_the_last_state_of_each_run_stays_on_the_screen(terminal):
    with live(terminal) as lines:
        line = lines.run("sim/moe", trials=3, simulated=True)
        play(line, 1, "ada")
        play(line, 2, "d", void=True)
        play(lines.run("local [a]", trials=2, simulated=False), 1, "aa")
    first, second = terminal.file.getvalue().splitlines()
    assert first.startswith("sim/moe SIMULATED ")
    assert "2/3 trials errors 33.33 [" in first
    assert "] n=3, 1 void" in first
    assert second.startswith("local [a]  ")
    assert "1/2 trials errors 0.00 [0.0, " in second


def test_a_quiet_console_shows_nothing():
    quiet = Console(file=io.StringIO(), quiet=True)
    with live(quiet) as lines:
        play(lines.run("local", trials=1, simulated=False), 1, "a")
    assert quiet.file.getvalue() == ""
