"""`agenteval transcript` and `calls`: from a run to its calls, and why a trial failed."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from stored import stored

from agenteval.testing import card, denied, failing, run, says, sub_agent, tool, trial
from agenteval.trial.call import Outcome
from agenteval.trial.trial import GoalCheck, HandshakeStep, Message, Usage

PROMPT = (Message("system", "Rules:\nonly listed ones"), Message("user", "Record the month."))
HELPER = replace(sub_agent("helper", denied("ls -la"), "uv run notes.py list"), prompt=(PROMPT[1],))
MISSED = trial(
    says("Hm."),
    denied("uv run notes.py list | head -5", "pipe-to-filter", evidence="| head -5"),
    (failing("uv run notes.py show 1"), tool("read", path="notes.md")),
    number=2,
    outcome=Outcome.GAVE_UP,
    reason="not met: the month is recorded (expected '2026-07', found None)",
    goal=(
        GoalCheck("the month is recorded", held=False, expected="2026-07"),
        GoalCheck("nothing else changed", held=True, expected=0, found=0),
    ),
    goal_turn=1,
    prompt=PROMPT,
    agents=(HELPER,),
)
STEPS = (
    HandshakeStep("ask", reached=True, agent="", turn=1, position=0, in_order=True),
    HandshakeStep("close", reached=False),
)
THINKS = replace(
    MISSED.turns[0], usage=Usage(1200, 34), seconds=1.5, reasoning="First I look.\x1b[2J"
)
MISSED = replace(MISSED, handshake=STEPS, turns=(THINKS, *MISSED.turns[1:]))
RUN = run(trial("uv run notes.py list"), MISSED, trial(scenario="mail"), model=card("sim/m"))


@pytest.fixture
def store(tmp_path):
    return stored(str(tmp_path / "runs.db"), RUN)


@pytest.fixture
def told(cli, store):
    return lambda *words: cli(*words, "--store", store)


def test_a_transcript_says_what_was_asked_what_was_done_and_why_it_ended(told):
    said = told("transcript", "last", "notes#2")
    assert said.code == 0
    assert said.out.splitlines()[:41] == [
        "notes #2 of sim/m",
        "run r1, seed 1002, 3.0 s of the model's",
        "gave-up: it replied without a tool call",
        "    missed: the month is recorded (expected '2026-07', found None)",
        "    held: nothing else changed (found 0)",
        "    the goal first held after turn 2",
        "    handshake, reached: ask (turn 2, call 1)",
        "    handshake, not reached: close",
        "",
        "system: 23 characters, with --whole",
        "",
        "user:",
        "    Record the month.",
        "",
        "turn 1: 1.5 s; 1,200 tokens read, 34 written",
        "    thought:",
        "        First I look.\u241b[2J",
        "    Hm.",
        "",
        "turn 2: 1.0 s; 100 tokens read, 20 written",
        "    denied",
        "        uv run notes.py list | head -5",
        "        ^ pipe-to-filter at '| head -5', then sidestepped",
        "        | Denied. Not like this.",
        "",
        "turn 3: 1.0 s; 100 tokens read, 20 written",
        "    exit 1",
        "        uv run notes.py show 1",
        "        | error: no such note",
        "    allowed read",
        '        {"path": "notes.md"}',
        "        | ok",
        "",
        "sub-agent helper/1, 1 denied; it replied without a tool call",
        "",
        "user:",
        "    Record the month.",
        "",
        "turn 1: 1.0 s; 100 tokens read, 20 written",
        "    denied",
        "        ls -la",
    ]
    assert "    Rules:\n    only listed ones" in told("transcript", "r1", "notes#2", "--whole").out


def test_the_part_of_a_sub_agent_is_shown_alone(told):
    text = told("transcript", "last", "notes#2", "--agent", "helper").out
    part = json.loads(told("transcript", "last", "notes#2", "--agent", "helper/1", "--json").out)
    assert ("sub-agent helper/1" in text, "notes.py show" in text) == (True, False)
    assert (part["name"], [len(turn["calls"]) for turn in part["turns"]]) == ("helper/1", [1, 1])


def test_a_transcript_as_json_cuts_nothing(told):
    found = json.loads(told("transcript", "last", "notes#2", "--json").out)
    assert (found["schema"], found["outcome"]) == ("agenteval.transcript/1", "gave-up")
    assert found["goal"][0] == {
        "name": "the month is recorded",
        "held": False,
        "expected": "2026-07",
        "found": None,
        "said": "",
    }
    assert found["prompt"][0] == {"role": "system", "content": "Rules:\nonly listed ones"}
    assert found["turns"][0]["reasoning"] == "First I look.\x1b[2J"
    assert found["turns"][1]["calls"][0]["findings"][0]["class"] == "pipe-to-filter"


@pytest.mark.parametrize(
    ("wanted", "more", "line"),
    [
        ("notes", (), "notes: which trial? r1 has notes#1, notes#2"),
        ("notes#7", (), "notes#7: which trial? r1 has notes#1, notes#2"),
        ("other#1", (), "other#1: r1 played no scenario 'other'; it has mail, notes"),
        ("notes#1", ("--agent", "x"), "--agent x: no sub-agent of this trial; it has none"),
        ("notes#2", ("--agent", "x"), "--agent x: no sub-agent of this trial; it has helper/1"),
    ],
)
def test_a_trial_that_is_not_there_is_one_line_with_those_that_are(told, wanted, more, line):
    said = told("transcript", "last", wanted, *more)
    assert (said.code, said.err) == (2, f"agenteval: {line}\n")


def test_a_scenario_that_was_played_once_needs_no_number(told):
    assert told("transcript", "last", "mail").out.startswith("mail #1 of sim/m\n")


def test_calls_are_listed_one_a_line_by_what_they_are(told):
    every = told("calls", "last").out.splitlines()
    assert every == [
        "notes#1 1.1  allowed  uv run notes.py list",
        "notes#2 2.1  pipe-to-filter  uv run notes.py list | head -5",
        "notes#2 3.1  exit 1  uv run notes.py show 1",
        'notes#2 3.2  allowed  read {"path": "notes.md"}',
        "notes#2 helper/1 1.1  bare-binary  ls -la",
        "notes#2 helper/1 2.1  allowed  uv run notes.py list",
    ]
    for words, at in (
        (("--class", "pipe-to-filter"), [1]),
        (("--denied",), [1, 4]),
        (("--allowed", "--agent", "helper"), [5]),
        (("--outcome", "completed"), [0]),
        (("--scenario", "notes", "--text", "LIST"), [0, 1, 5]),
    ):
        assert told("calls", "last", *words).out.splitlines() == [every[one] for one in at]
    found = json.loads(told("calls", "last", "--class", "pipe-to-filter", "--json").out)
    assert [(one["number"], one["class"], one["cut"]) for one in found["calls"]] == [
        (2, "pipe-to-filter", False)
    ]
    assert json.loads(told("calls", "last", "--scenario", "mail", "--json").out)["calls"] == []


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ("--class", "pipe-to-fliter"),
            "--class pipe-to-fliter: no such failure class; pipe-to-filter?",
        ),
        (
            ("--class", "zzz"),
            "--class zzz: no such failure class; `agenteval explain` lists all",
        ),
        (("--scenario", "nots"), "--scenario nots: r1 played no such; it has mail, notes"),
        (
            ("--class", "heredoc", "--allowed"),
            "--allowed: no call of a class is; leave out --class heredoc",
        ),
    ],
)
def test_a_name_that_nothing_has_is_told(told, words, line):
    said = told("calls", "last", *words)
    assert (said.code, said.out, said.err) == (2, "", f"agenteval: {line}\n")


def test_no_such_calls_is_no_failure(told):
    said = told("calls", "last", "--class", "heredoc")
    assert (said.code, said.out, said.err) == (0, "", "No such calls.\n")


def test_who_reads_the_first_line_only_ends_it_without_a_word(tmp_path):
    many = run(trial(*(["uv run notes.py list"] * 3000)))
    store = stored(str(tmp_path / "many.db"), many)
    asked = [sys.executable, "-m", "agenteval", "calls", "last", "--store", store]
    with subprocess.Popen(
        asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "COLUMNS": "80"}
    ) as running:
        first = running.stdout.readline()
        running.stdout.close()
        said = running.stderr.read()
    assert (first, said, running.returncode) == (
        b"notes#1 1.1  allowed  uv run notes.py list\n",
        b"",
        0,
    )


@pytest.mark.parametrize("levels", [990, 20_000])
def test_arguments_that_nest_without_end_are_shown_as_written(levels, cli, tmp_path):
    """Python's reader of JSON gives up on them by an error of its own."""
    arguments = f'{{"command": "git status", "x": {"[" * levels}{"]" * levels}}}'
    function = {"name": "bash", "arguments": arguments}
    said = {"role": "assistant", "tool_calls": [{"id": "a", "function": function}]}
    log, store = tmp_path / "deep.jsonl", str(tmp_path / "deep.db")
    log.write_text(json.dumps({"model": "m", "messages": [said]}) + "\n")
    taken = cli("ingest", "openai", str(log), "--store", store)
    assert taken.code == 0, taken.err
    listed = cli("calls", "last", "--store", store)
    assert (listed.code, '{"command": "git status", "x": [[' in listed.out) == (0, True)
    whole = json.loads(cli("calls", "last", "--store", store, "--json").out)
    assert whole["calls"][0]["arguments"] == arguments[:2000]
