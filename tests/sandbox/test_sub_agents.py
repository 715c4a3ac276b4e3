"""Sub-agents before one is asked for: what they read, and by what they are recognised."""

import re
from dataclasses import replace

import pytest

from agenteval.prompt.prompt import Setting
from agenteval.sandbox.maker import outline, recognised, render_agent, requested
from agenteval.trial.trial import Agent, Scenario, SpawnLimits, Step

SPAWNED = "SELECT id, word AS said, {{ shelf }} AS place FROM asks"
AGENT = Agent(
    name="worker",
    spawned=SPAWNED,
    instructions="# System\nYou work at {{ shelf }}.\n\n# Task\nAsked: {{ said }} ({{ id }}). "
    "Again: {{ said }}.",
    policy="notes",
    tools=("bash",),
    solution=(Step("bash", {"command": "note {{ said }} {{ shelf }}"}),),
    closing=1,
)
SCENARIO = Scenario(
    name="notes",
    title="Note it",
    policy="notes",
    fixture="notes",
    instructions="",
    tools=("bash",),
    database="w.db",
    goal=(),
    solution=(),
    world="CREATE TABLE asks (id, word); CREATE TABLE old (id); INSERT INTO old VALUES (1);",
    agents=(AGENT,),
)
KNOWN = {"shelf": 7}


def test_a_request_has_the_columns_of_its_query():
    assert requested(SCENARIO, AGENT, 0, KNOWN) == ("id", "said", "place")


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT colour FROM asks", "no such column: colour, in `SELECT colour FROM asks`"),
        ("SELECT id FROM old", "the fresh world has rows for it already, in `SELECT id FROM old`"),
        ("SELECT count(*) FROM asks WHERE 0 GROUP BY id", "every column needs a name"),
        ("DELETE FROM asks", "every column needs a name"),
    ],
)
def test_a_query_that_cannot_ask_for_agents_is_told(query, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        requested(SCENARIO, replace(AGENT, spawned=query), 0, KNOWN)


def test_an_outline_names_the_columns_where_their_values_will_stand():
    prompt = outline(SCENARIO, AGENT, 0, KNOWN)

    assert (prompt.system, prompt.task) == (
        "You work at 7.",
        "Asked: <said> (<id>). Again: <said>.",
    )


@pytest.mark.parametrize("place", ["start", "both"])
def test_an_agent_is_recognised_by_its_task_and_its_request_read_from_it(place):
    row = {"id": 3, "said": "tea (green)\nand more", "place": 1}
    task = render_agent(AGENT, {**KNOWN, **row}, Setting(place=place)).task

    found = recognised(SCENARIO, AGENT, 0, KNOWN, f"Hello.\n{task}")

    assert found is not None
    assert (found.variables, found.solution, task.startswith(found.task)) == (
        {"shelf": 7, "said": "tea (green)\nand more", "id": "3"},
        (Step("bash", {"command": "note tea (green)\nand more 7"}),),
        True,
    )


@pytest.mark.parametrize("said", ["Asked: tea (3). Again: rice.", "Asked: tea", ""])
def test_another_text_is_none_of_its_tasks(said):
    assert recognised(SCENARIO, AGENT, 0, KNOWN, said) is None


@pytest.mark.parametrize(
    ("depth", "started", "refused"),
    [(0, 0, ""), (1, 7, ""), (2, 0, "deeper than 2"), (0, 8, "more than 8 agents")],
)
def test_an_agent_is_refused_beyond_the_limits_of_its_scenario(depth, started, refused) -> None:
    assert SpawnLimits().refused(depth, started) == refused
