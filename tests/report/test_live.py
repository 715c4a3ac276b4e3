"""The live display, fed as a run feeds it."""

import io

import pytest
from rich.console import Console

from agenteval.core.outcome import Ending, Outcome
from agenteval.protocols import TrialKey
from agenteval.report.live import Live
from agenteval.testing import card, denied, run, trial

LIST = "uv run notes.py list"


def play(live, number, *parts, **known):
    ended = trial(*parts, number=number, **known)
    key = TrialKey(ended.scenario, number, ended.seed)
    for record in ended.calls:
        live.called(key, record)
    live.finished(key, ended)


@pytest.fixture
def terminal():
    return Console(file=io.StringIO(), width=120, color_system=None)


def test_the_last_state_of_each_run_stays_on_the_screen(terminal):
    with Live(console=terminal) as live:
        live.start(run(model=card("sim/moe", simulated=True)), 3)
        play(live, 1, LIST, denied("ls"), LIST)
        play(live, 2, denied("ls"), ending=Ending.BROKEN, outcome=Outcome.VOID)
        live.start(run(model=card("local")), 2)
        play(live, 1, LIST, LIST)
    first, second = terminal.file.getvalue().splitlines()
    assert first.startswith("sim/moe SIMULATED")
    assert "1/2 trials errors 0.00 [0.0, " in second
    assert "2/3 trials errors 33.33 [" in first
    assert "] n=3, 1 void" in first


def test_a_quiet_display_draws_nothing(terminal):
    with Live(quiet=True, console=terminal) as live:
        live.start(run(), 1)
        play(live, 1, LIST)
    assert terminal.file.getvalue() == ""
