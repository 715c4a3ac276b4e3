"""Filling a prompt up: its length, its seed, its profile; and never the way to the goal."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agenteval.config.arms import arms
from agenteval.config.scenario_files import load_scenarios
from agenteval.core.prompt.context import posed
from agenteval.core.prompt.prompt import render
from agenteval.core.prompt.setting import DEFAULT

ROOT = Path(__file__).resolve().parents[2]
(SCENARIO,) = load_scenarios(["ralf/handshake"], roots=[ROOT])
LONG = replace(DEFAULT, context=8000)


def length(messages) -> int:
    return sum(len(message.content) for message in messages)


@pytest.mark.parametrize("tokens", [2000, 8000, 40_000])
def test_a_prompt_has_the_asked_length_within_one_exchange(tokens):
    prompt = posed(SCENARIO, 7, replace(DEFAULT, context=tokens, per_token=3.5))

    assert 0 <= length(prompt.messages) - tokens * 3.5 < 1500


def test_without_a_length_or_beyond_it_nothing_is_added():
    assert posed(SCENARIO, 7, DEFAULT) == render(SCENARIO, 7)
    assert posed(SCENARIO, 7, replace(DEFAULT, context=10)) == render(SCENARIO, 7)


def test_each_seed_has_material_of_its_own_and_always_the_same():
    systems = [posed(SCENARIO, seed, LONG).system for seed in (1, 1, 4)]

    assert (systems[0] == systems[1], systems[0] == systems[2]) == (True, False)


def test_the_instructions_come_first_and_the_task_last():
    prompt, bare = posed(SCENARIO, 7, LONG), render(SCENARIO, 7)

    assert prompt.messages[0].content.startswith(bare.system)
    assert prompt.messages[-1].content == bare.task


@pytest.mark.parametrize("arm", arms().values(), ids=list(arms()))
def test_earlier_calls_only_ask_for_help_and_each_is_answered(arm):
    history = posed(SCENARIO, 7, replace(LONG, arm=arm, context=2 * LONG.context)).history
    calls = [call for message in history for call in message.calls]
    answers = [message.call_id for message in history if message.role == "tool"]
    meant = [
        arm.profile.meant(replace(call, arguments=json.loads(call.raw)), ("bash",))
        for call in calls
    ]

    assert len(calls) >= 3
    assert answers == [call.id for call in calls]
    assert {call.command.split(" ", 3)[3] for call in meant} == {"--help"}


def test_a_scenario_without_scripts_gets_a_chat_without_calls():
    silent = replace(SCENARIO, solution=())

    assert not any(message.calls for message in posed(silent, 7, LONG).history)
