"""The live display, fed as a run feeds it."""

import io
import re

import pytest
from rich.console import Console

from agenteval.protocols import TrialKey
from agenteval.report.console import live

LIST = "uv run notes.py list"


def play(line, number, calls, *, void=""):
    """A trial whose calls are written as letters: a for allowed, d for denied."""
    key = TrialKey("notes", number, 1000 + number)
    for call in calls:
        line.wrote(key, 30)
        line.called(key, failure_class={"d": "bare-binary", "p": "pipe-to-filter"}.get(call, ""))
    line.finished(key, void=void)


@pytest.fixture
def terminal():
    return Console(file=io.StringIO(), width=120, color_system=None)


def test_the_last_state_of_each_run_stays_on_the_screen(terminal):
    with live(terminal) as lines:
        line = lines.run("sim/moe", trials=3, simulated=True)
        play(line, 1, "ada")
        play(line, 2, "d", void="timeout")
        play(lines.run("local [a]", trials=2, simulated=False), 1, "aa")
    first, second, *_ = terminal.file.getvalue().splitlines()
    assert first.startswith("sim/moe ")
    assert " SIMULATED " in first
    assert "2/3 trials 1 error, 3 calls, 1 void " in first
    assert second.startswith("local [a]  ")
    assert "1/2 trials 0 errors, 2 calls " in second


def test_a_line_stays_one_line_on_a_narrow_terminal():
    narrow = Console(file=io.StringIO(), width=80, color_system=None)
    with live(narrow) as lines:
        name = "qwen3-coder-480b-a35b-instruct-fp8"
        play(lines.run(name, trials=1_000, simulated=True), 1, "ad" * 5_000)
        lines.run("finished", trials=0, simulated=False)
    line, below = narrow.file.getvalue().splitlines()
    assert (len(below) <= 80, "bare-binary 5000" in below) == (True, True)
    assert line.startswith("qwen3-coder")
    assert "… SIMULATED " in line
    assert "1/1000 trials 5000 errors, 10000 calls" in line


def test_a_quiet_console_shows_nothing():
    quiet = Console(file=io.StringIO(), quiet=True)
    with live(quiet) as lines:
        play(lines.run("local", trials=1, simulated=False), 1, "a")
    assert quiet.file.getvalue() == ""


def test_below_a_run_that_goes_on_stands_what_is_happening(terminal):
    with live(terminal) as lines:
        line = lines.run("sim/moe", trials=4, simulated=False)
        play(line, 1, "adpp")
        play(line, 2, "d", void="timeout")
        play(line, 3, "", void="timeout")
    told = terminal.file.getvalue().splitlines()[1]
    assert re.fullmatch(
        r" +[\d,]+ tokens/s; void by timeout 2; pipe-to-filter 2, bare-binary 1 *", told
    )


def test_before_the_first_reply_it_says_what_it_waits_for(terminal):
    with live(terminal) as lines:
        lines.run("m", trials=2, simulated=False)
    assert terminal.file.getvalue().splitlines()[1].strip() == "waiting for the first reply, 0 s"


def test_a_run_that_is_over_has_one_line(terminal):
    with live(terminal) as lines:
        play(lines.run("m", trials=1, simulated=False), 1, "ad")
    assert len(terminal.file.getvalue().splitlines()) == 1


def test_many_classes_keep_to_one_row_of_80_columns():
    narrow = Console(file=io.StringIO(), width=80, color_system=None)
    with live(narrow) as lines:
        line = lines.run("m", trials=9, simulated=False)
        for at in range(40):
            line.called(TrialKey("notes", 1, 1), failure_class=f"a-class-of-that-number-{at}")
    first, second = narrow.file.getvalue().splitlines()
    assert (len(first) <= 80, len(second) <= 80, second.rstrip()[-1]) == (True, True, "\u2026")


def test_a_note_stands_above_the_lines_of_a_terminal_and_is_broken_between_words():
    drawn = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    note = "local: look 1 of 5 after 8 trials: INCONCLUSIVE; " + "twelve letters " * 4 + "[bold]"
    with live(drawn) as lines:
        play(lines.run("local", trials=1, simulated=False), 1, "a")
        assert lines.above(note)
    told = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", drawn.file.getvalue()).splitlines()
    joined = " ".join(line.strip() for line in told)
    assert f"{note} local " in joined  # no word of it is broken, and the lines are drawn below it


@pytest.mark.parametrize("settings", [{"quiet": True, "force_terminal": True}, {}])
def test_where_nothing_is_drawn_a_note_is_left_to_its_writer(settings):
    plain = Console(file=io.StringIO(), **settings)
    with live(plain) as lines:
        assert not lines.above("look 1 of 5")
    assert plain.file.getvalue() == ""
