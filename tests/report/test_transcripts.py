"""Trials as they are read."""

import pytest

from agenteval.report import html
from agenteval.report.build import build_view
from agenteval.report.details import _worst_first
from agenteval.report.tables import report_texts
from agenteval.report.transcripts import REPLY_SHOWN, marked_text, shown_trial
from agenteval.shell.gate import Span
from agenteval.testing import Made, denied, failing, run, says, sub_agent, tool, trial
from agenteval.trial.call import Allowed, Denied, Ending, Finding, Outcome, ToolCall


def verdict(evidence):
    return Denied((Finding("pipe-to-filter", evidence),))


def bash(command):
    return ToolCall("1", "bash", "{}", {"command": command})


@pytest.mark.parametrize(
    ("call", "given", "expected"),
    [
        (bash("ls | head -5"), verdict(Span(3, 9, "| head")), ("ls ", "| head", " -5")),
        (bash("ls"), Allowed(), ("ls", "", "")),
        (bash("ls | head"), verdict(Span(3, 9, "| tail")), ("ls | head", "", "")),
        (bash("ls"), verdict(Span(0, 0, "")), ("", "", "ls")),
        (ToolCall("1", "bash", '{"comm'), verdict(Span(2, 6, "comm")), ('{"', "comm", "")),
    ],
)
def test_a_call_is_cut_where_its_evidence_stands(call, given, expected):
    assert marked_text(call, given) == expected


def test_every_ending_has_its_words():
    assert {*report_texts()["ended"]} == {*Ending}


def test_a_turn_shows_its_text_and_its_calls():
    shown = shown_trial(trial(says("Hm."), (denied("ls"), "uv run notes.py list")))
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
    shown = shown_trial(trial(parts))
    states = [call.state for call in shown.turns[0].calls]
    assert states == ["allowed", "exit 1", "ended by memory", "denied", "allowed"]


def test_a_long_reply_is_cut_and_says_so(runs):
    made = failing("uv run notes.py")
    long = Made(made.name, made.arguments, execution=type(made.execution)(0, "x" * 2000, 0.1))
    shown = shown_trial(trial(long))
    (call,) = shown.turns[0].calls
    assert (len(call.reply), call.cut) == (REPLY_SHOWN, 2000 - REPLY_SHOWN)


def test_what_missed_its_goal_stands_before_the_void_and_these_before_what_completed():
    ends = [
        (Outcome.COMPLETED, 1),
        (Outcome.COMPLETED, 0),
        (Outcome.VOID, 0),
        (Outcome.CLAIMED_DONE, 0),
        (Outcome.GAVE_UP, 2),
        (Outcome.VOID, 1),
    ]
    played = [
        trial(*[denied("ls")] * times, number=at, outcome=end)
        for at, (end, times) in enumerate(ends)
    ]
    (view,) = build_view([run(*played)]).runs
    assert [one.trial.number for one in _worst_first(view, 0)] == [4, 3, 5, 2, 0, 1]


def test_a_denial_says_what_followed_it_and_a_made_up_tool_is_its_own_evidence():
    made_up = tool("emit_guidance", failure_class="hallucinated-tool", text="x")
    shown = shown_trial(trial(made_up, "uv run notes.py list"))
    first, second = (turn.calls[0] for turn in shown.turns)
    assert (first.named, first.followed) == (True, "sidestepped")
    assert (second.named, second.followed) == (False, "")


SPAWN = "uv run ralf.py ralf_spawn worker"


def nested():
    """A worker that the second call of the trial asked for, and what that one asked for."""
    worker = sub_agent("worker", denied("ls"), SPAWN, number=1, turn=0, position=1)
    deeper = sub_agent("judge", "uv run a.py", number=2, parent=1, depth=2, turn=1, position=0)
    older = sub_agent("worker", number=3, reason="more than 2 agents")
    return trial(("uv run a.py", SPAWN), says("Over."), agents=(worker, deeper, older))


def test_a_sub_agent_stands_under_the_call_that_asked_for_it_and_its_own_under_its_calls():
    shown = shown_trial(nested())
    first, second = shown.turns[0].calls
    (worker,) = second.agents
    (judge,) = worker.turns[1].calls[0].agents
    assert (first.agents, worker.part.label, worker.denials, judge.part.label) == (
        (),
        "worker/1",
        1,
        "judge/2",
    )
    assert [call.followed for turn in worker.turns for call in turn.calls] == ["sidestepped", ""]
    assert [one.part.label for one in shown.agents] == ["worker/3"]


def test_the_page_folds_sub_agents_under_their_calls_and_says_why_one_was_refused():
    page = html.page(build_view([run(nested())]))
    folded = page.split('<details class="agent">')
    assert [part.split("</span>")[0].rpartition(">")[2] for part in folded[1:]] == [
        "worker/1",
        "judge/2",
        "worker/3",
    ]
    assert "ralf_spawn worker" in folded[0].rpartition("<code>")[2]
    assert "0 turns, 0 calls, 0 denied; more than 2 agents" in folded[3]
