"""Trials as they are read."""

import pytest

from agenteval.core.call import Evidence, Finding, ToolCall, Verdict
from agenteval.report.transcripts import REPLY_SHOWN, TRIALS_SHOWN, marked_text, shown_trials
from agenteval.testing import Made, denied, failing, says, tool, trial


def verdict(evidence):
    return Verdict(findings=(Finding("pipe-to-filter", evidence),))


def bash(command):
    return ToolCall("1", "bash", "{}", {"command": command})


@pytest.mark.parametrize(
    ("call", "given", "expected"),
    [
        (bash("ls | head -5"), verdict(Evidence("| head", 3, 9)), ("ls ", "| head", " -5")),
        (bash("ls"), Verdict(), ("ls", "", "")),
        (bash("ls | head"), verdict(Evidence("| tail", 3, 9)), ("ls | head", "", "")),
        (bash("ls"), verdict(Evidence("")), ("", "", "ls")),
        (ToolCall("1", "bash", '{"comm'), verdict(Evidence("comm", 2, 6)), ('{"', "comm", "")),
    ],
)
def test_a_call_is_cut_where_its_evidence_stands(call, given, expected):
    assert marked_text(call, given) == expected


def test_a_turn_shows_its_text_and_its_calls():
    (shown,) = shown_trials([trial(says("Hm."), (denied("ls"), "uv run notes.py list"))])
    assert shown.denials == 1
    assert [(turn.number, turn.text, len(turn.calls)) for turn in shown.turns] == [
        (1, "Hm.", 0),
        (2, "", 2),
    ]
    assert [call.classes for call in shown.turns[1].calls] == [("bare-binary",), ()]


def test_a_call_says_how_it_ended():
    read = Made("read", {"path": "notes.md"})
    parts = (
        "uv run a.py",
        failing("uv run b.py"),
        failing("c", limit="memory"),
        denied("ls"),
        read,
    )
    (shown,) = shown_trials([trial(parts)])
    states = [call.state for call in shown.turns[0].calls]
    assert states == ["allowed", "exit 1", "ended by memory", "denied", "allowed"]


def test_a_long_reply_is_cut_and_says_so(runs):
    made = failing("uv run notes.py")
    long = Made(made.name, made.arguments, execution=type(made.execution)(0, "x" * 2000, 0.1))
    (shown,) = shown_trials([trial(long)])
    (call,) = shown.turns[0].calls
    assert (len(call.reply), call.cut) == (REPLY_SHOWN, 2000 - REPLY_SHOWN)


def test_of_a_long_run_the_trials_with_most_denials_are_shown_in_their_order():
    clean = [trial("uv run a.py", number=number) for number in range(1, TRIALS_SHOWN + 10)]
    bad = [trial(denied("ls"), number=number) for number in (1000, 1001)]
    shown = shown_trials([*clean, *bad])
    assert len(shown) == TRIALS_SHOWN
    numbers = [one.trial.number for one in shown]
    assert numbers == sorted(numbers)
    assert numbers[-2:] == [1000, 1001]


def test_a_denial_says_what_followed_it_and_a_made_up_tool_is_its_own_evidence():
    made_up = tool("emit_guidance", failure_class="hallucinated-tool", text="x")
    (shown,) = shown_trials([trial(made_up, "uv run notes.py list")])
    first, second = (turn.calls[0] for turn in shown.turns)
    assert (first.named, first.followed) == (True, "pivot")
    assert (second.named, second.followed) == (False, "")
