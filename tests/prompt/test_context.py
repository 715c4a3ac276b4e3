"""What goes before a task: its length, its seed, its denials; and never the task itself."""

from dataclasses import replace
from pathlib import Path

import pytest

from agenteval.config.scenarios import load_scenarios
from agenteval.prompt.prompt import CUT, DEFAULT, Earlier
from agenteval.sandbox.maker import posed, render
from agenteval.trial.call import ToolCall
from agenteval.trial.trial import Message

ROOT = Path(__file__).resolve().parents[2]
(SCENARIO,) = load_scenarios(["ralf/handshake"], roots=[ROOT])


def task(number: int, *, fixture: str = "ralf", denied: int = 0, agent: str = "") -> Earlier:
    """Four calls in two turns, as a trial left them."""
    messages = [Message("user", f"Task {number}.")]
    for turn in range(2):
        calls = tuple(ToolCall(f"c{at}", "bash", f'{{"command": "{number}"}}') for at in (0, 1))
        messages.append(Message("assistant", "", calls))
        messages += [Message("tool", f"{turn} " * 150, call_id=call.id) for call in calls]
    messages.append(Message("assistant", f"Task {number} is done."))
    return Earlier(f"group/{number}", fixture, tuple(messages), 4, denied, agent)


TASKS = tuple(
    task(n, fixture=("ralf", "other")[n % 2], denied=n % 3, agent="a" * (n % 5 == 0))
    for n in range(60)
)
LONG = replace(DEFAULT, context=8000, earlier={SCENARIO.name: TASKS})


def length(messages) -> int:
    return sum(len(message.content) for message in messages)


def shown(prompt) -> set[int]:
    """Which of the tasks went before."""
    return {n for n in range(60) if any(f"Task {n}." in one.content for one in prompt.history)}


@pytest.mark.parametrize("tokens", [2000, 8000, 12_000])
def test_a_prompt_has_the_asked_length(tokens):
    prompt = posed(SCENARIO, 7, replace(LONG, context=tokens, per_token=3.5))

    assert length(prompt.messages) == round(tokens * 3.5)


@pytest.mark.parametrize("context", [0, 10])
def test_without_a_length_or_beyond_it_nothing_is_added(context):
    assert posed(SCENARIO, 7, replace(LONG, context=context)) == render(SCENARIO, 7)


def test_a_gap_that_is_too_small_for_anything_stays_open():
    bare = length(render(SCENARIO, 7).messages)
    tight = replace(LONG, context=(bare + 30) // 4 + 1)

    assert posed(SCENARIO, 7, tight).history == ()


def test_where_all_that_was_played_is_told_the_prompt_is_as_long_as_that():
    few = replace(LONG, context=40_000, earlier={SCENARIO.name: TASKS[:3]})

    prompt = posed(SCENARIO, 7, few)

    assert (shown(prompt), length(prompt.messages) < 40_000) == ({0, 1, 2}, True)


def test_each_seed_has_tasks_of_its_own_and_always_the_same():
    first, again, other = (posed(SCENARIO, seed, LONG).history for seed in (1, 1, 4))

    assert (first == again, first == other) == (True, False)


def test_the_instructions_come_first_and_the_task_last():
    prompt, bare = posed(SCENARIO, 7, LONG), render(SCENARIO, 7)

    assert (prompt.messages[0].content, prompt.messages[-1].content) == (bare.system, bare.task)


def test_each_call_has_its_own_id_and_its_reply():
    history = posed(SCENARIO, 7, LONG).history
    calls = [call.id for message in history for call in message.calls]
    answers = [message.call_id for message in history if message.role == "tool"]

    assert len(calls) >= 8
    assert (answers, len(set(calls))) == (calls, len(calls))


def test_tasks_of_another_fixture_and_of_sub_agents_are_reports():
    history = posed(SCENARIO, 7, LONG).history
    turns = {m.content for m in history if m.role == "user" and m.content.startswith("Task ")}
    reports = [m for m in history if "has ended. Its task was:" in m.content]

    assert turns <= {f"Task {n}." for n in range(60) if n % 2 == 0 and n % 5}
    assert reports
    assert all("> bash {" in one.content and "0 0 0" in one.content for one in reports)
    assert history[0].content.startswith(CUT)


@pytest.mark.parametrize("share", [0, 10, 25])
def test_so_many_of_the_calls_were_denied_as_is_wanted(share):
    prompt = posed(SCENARIO, 7, replace(LONG, context=10_000, denied=share))
    told = [TASKS[n] for n in shown(prompt)]
    calls, denied = sum(one.calls for one in told), sum(one.denied for one in told)

    assert calls >= 40
    assert abs(denied / calls - share / 100) <= 0.05
    assert share or not denied


def test_a_setting_tells_what_goes_before():
    said = LONG.protocol

    assert "context 8000 of tasks played before/1, 10 of 100 calls denied" in said
    assert "context" not in DEFAULT.protocol
