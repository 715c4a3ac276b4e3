"""Programs that crash, hang, fall silent or are told nonsense: who is to blame, and what is kept.

A script stands where Claude Code would: how it behaves is the question, not what it is.
"""

import json
import sys
from pathlib import Path

import pytest
from scripted_server import bash, scripted

from agenteval.cli.app import main
from agenteval.harness import play, wires
from agenteval.harness.install import MARK
from agenteval.harness.recipes import programs
from agenteval.store.sql import SqlStore

CLAUDE = programs()["claude-code"]
ASKS = """\
#!/usr/bin/env python3
import json, os, sys, time, urllib.request
messages = [{"role": "user", "content": sys.stdin.read()}]
def ask():
    body = {"model": "m", "stream": False, "messages": messages, "tools": [
        {"name": "Bash", "input_schema": {"type": "object"}}]}
    url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    said = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())))
    messages.append({"role": "assistant", "content": said["content"]})
    return [one for one in said["content"] if one["type"] == "tool_use"]
def answer(calls):
    messages.append({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": one["id"], "content": "it ran"} for one in calls]})
"""


@pytest.fixture
def played(tmp_path, monkeypatch):
    """Play one trial by this program on this model: the trial, and the exit code of the run."""

    def run(program: str, script, *, window=None):
        folder = tmp_path / "harness" / f"{CLAUDE.name}@{CLAUDE.version}"
        folder.mkdir(parents=True)
        (folder / "program").write_text(ASKS + program)
        (folder / "program").chmod(0o755)
        (folder / MARK).write_text(json.dumps({"binary": "program", "sha256": "0" * 64}))
        monkeypatch.setenv("AGENTEVAL_DATA", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        with scripted(script, window=window) as url:
            words = ("run", "-m", "m", "--base-url", url, "--harness", "claude-code", "mail/draft")
            monkeypatch.setattr(sys, "argv", ["agenteval", *words, "--trials", "1"])
            with pytest.raises(SystemExit) as ended:
                main()
        (page,) = Path("reports").glob("*.html")
        (trial,) = SqlStore("reports/agenteval.db").load(page.stem).trials
        return trial, ended.value.code or 0

    return run


def once(messages):
    return "All is done." if len(messages) > 2 else bash("ls")


def test_a_program_that_ends_after_its_models_last_word_ended_the_trial(played) -> None:
    trial, code = played("while calls := ask():\n    answer(calls)\n", once)
    assert (trial.outcome, code, len(trial.turns)) == ("claimed-done", 0, 2)


def test_what_a_program_played_is_judged_again_by_the_names_of_its_own_tools(
    played, monkeypatch, capsys
) -> None:
    def script(messages):
        return "All is done." if len(messages) > 2 else ("Bash", {"command": "ls | nl"})

    trial, _ = played("while calls := ask():\n    answer(calls)\n", script)
    (call,) = trial.calls
    (page,) = Path("reports").glob("*.html")
    monkeypatch.setattr(sys, "argv", ["agenteval", "rescore", page.stem])
    with pytest.raises(SystemExit):
        main()
    (again,) = SqlStore("reports/agenteval.db").load(page.stem).trials
    assert again.calls[0].verdict == call.verdict
    assert call.verdict.primary.failure_class == "pipe-to-filter"


@pytest.mark.parametrize(("window", "outcome"), [(4096, "out-of-context"), (None, "stalled")])
def test_a_program_whose_models_last_word_filled_its_context_ended_so(
    played, window, outcome
) -> None:
    cut = {"message": {"role": "assistant", "content": "First I"}, "finish_reason": "length"}
    used = {"prompt_tokens": 4000, "completion_tokens": 96}
    trial, _ = played("ask()\n", lambda _: {"choices": [cut], "usage": used}, window=window)
    assert trial.outcome == outcome
    assert "4000 tokens of prompt and 96 of reply" in trial.reason


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("sys.exit('log in')\n", "asked its model nothing (exit code 1): log in; remove "),
        ("answer(ask())\nsys.exit('out of luck')\n", "in the middle of its work (exit code 1)"),
        ("os.kill(os.getpid(), 9)\n", "asked its model nothing"),
        ("while True:\n    ask()\n    messages.pop()\n", "took none of 30 replies"),
        ("time.sleep(60)\n", "asked its model nothing for 2 s, and was ended"),
        ("answer(ask())\ntime.sleep(60)\n", "asked nothing more for 2 s, and was ended"),
        ("import signal\nsignal.signal(15, signal.SIG_IGN)\nanswer(ask())\ntime.sleep(60)\n",
         "asked nothing more for 2 s, and was ended"),
    ],
    ids=["no-start", "crash", "killed", "deaf", "silent", "hung", "stubborn"],
)  # fmt: skip
def test_a_program_that_fails_makes_its_trial_void_and_is_named(
    played, monkeypatch, program, said
) -> None:
    monkeypatch.setattr(play, "FIRST", 2.0)
    monkeypatch.setattr(play, "QUIET", 2.0)
    trial, code = played(program, once)
    assert (trial.outcome, trial.cause, said in trial.reason) == ("void", "harness", True), trial
    assert code == 5  # of one trial, all are void


def test_a_model_that_makes_its_program_hang_is_stopped_by_the_trials_end(played) -> None:
    """One that asks for the same for ever."""
    trial, _ = played("while calls := ask():\n    answer(calls)\n", lambda _: bash("ls"))
    assert (trial.outcome, trial.cause) == ("looped", None)


UNREAD = {"status": 500, "error": "Failed to parse tool call arguments as JSON: unexpected end"}


def test_a_call_that_the_server_could_not_read_is_the_models_and_told_as_an_error(played) -> None:
    first = []

    def script(messages):
        if first or "(played)" not in messages[-1]["content"]:  # the server is asked before, too
            return once(messages)
        first.append(messages)
        return UNREAD

    tries = """
messages[0]["content"] += "(played)"
try:
    ask()
except urllib.error.HTTPError as error:
    assert (error.code, b"Failed to parse" in error.read()) == (500, True)
while calls := ask():
    answer(calls)
"""
    trial, code = played(f"import urllib.error{tries}", script)
    assert (trial.outcome, code, len(trial.turns)) == ("claimed-done", 0, 3), trial.reason
    assert [call.harness for call in trial.calls] == ["refused", "ran"]
    assert "the server could not read the call" in trial.calls[0].call.malformed
    assert [one.position for one in trial.turns[0].malformed] == [0]


def test_a_program_that_gives_up_on_its_models_unreadable_calls_makes_no_trial_void(played) -> None:
    def script(messages):
        return UNREAD if "(played)" in messages[-1]["content"] else "Hm."

    trial, code = played('messages[0]["content"] += "(played)"\nask()\n', script)
    assert (trial.outcome, trial.cause, code, len(trial.turns)) == ("gave-up", None, 0, 1)


def test_what_nobody_foresaw_while_answering_costs_the_trial_and_says_where(
    played, monkeypatch
) -> None:
    def wrong(self, reply):
        raise ZeroDivisionError("in the teller")

    monkeypatch.setattr(wires.Messages, "whole", wrong)
    trial, _ = played("while calls := ask():\n    answer(calls)\n", once)
    assert (trial.outcome, trial.cause) == ("void", "agenteval")
    assert trial.reason.startswith("ZeroDivisionError: in the teller\n")
