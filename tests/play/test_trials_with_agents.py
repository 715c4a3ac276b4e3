"""A trial with sub-agents: a mark `KIND:NAME` in its world asks for one of that kind."""

from dataclasses import replace

import pytest

from agenteval.errors import InfrastructureError
from agenteval.testing import ScriptedModel, says
from agenteval.trial.call import Ending, Outcome
from agenteval.trial.trial import (
    Agent,
    Check,
    CodeTest,
    HandshakeStep,
    Limits,
    Scenario,
    SpawnLimits,
    Step,
    Trial,
)

SPAWNED = """
SELECT rowid AS request, substr(name, {start}) AS word, name LIKE '%!' AS attached
FROM mark WHERE name LIKE '{kind}:%' ORDER BY rowid
"""
PROGRAM = """
import json, sqlite3, sys
given = json.loads(sys.argv[1])
assert given["word"] != "bad", "bad word"
with sqlite3.connect("w.db") as world:
    world.execute("INSERT INTO mark VALUES (?)", ["judged " + given["word"]])
    if given["word"] == "again":
        world.execute("INSERT INTO mark VALUES ('work:once more')")
"""
WORKER = Agent(
    name="worker",
    spawned=SPAWNED.format(kind="work", start=6),
    instructions="# System\nYou work.\n\n# Task\nYour word is {{ word }}, asked as {{ request }}.",
    policy="marks",
    tools=("bash",),
    solution=(Step("bash", {"command": "pwd"}),),
    max_turns=3,
)
JUDGE = Agent(
    name="judge", spawned=SPAWNED.format(kind="judge", start=7), program=CodeTest("judge", PROGRAM)
)
GOAL = (Check("b is marked", "SELECT count(*) FROM mark WHERE name = 'b'", 1),)
HANDSHAKE = (Check("judged", "SELECT count(*) FROM mark WHERE name LIKE 'judged %'", 1), *GOAL)


@pytest.fixture
def rig(play) -> Scenario:
    return replace(play.scenario, agents=(WORKER, JUDGE), goal=GOAL, handshake=HANDSHAKE)


def mark(name: str) -> str:
    return f"uv run scripts/mark.py '{name}'"


def reached(name: str, by: str) -> HandshakeStep:
    return HandshakeStep(name, reached=True, agent=by, turn=0, position=0, in_order=True)


def asked_by(trial: Trial) -> list[tuple[int, int | None, int | None]]:
    return [(part.parent, part.turn, part.position) for part in trial.agents]


def parts(trial: Trial) -> list[tuple[str, int, int, int, Ending]]:
    return [
        (part.label, part.parent, part.depth, len(part.calls), part.ending) for part in trial.agents
    ]


async def test_an_agent_that_nobody_waits_for_acts_when_who_asked_has_ended(play, rig) -> None:
    model = ScriptedModel(mark("work:tea"), "ls .", says("Over."), mark("b"))

    (trial,) = await play(model, scenario=rig)

    assert (
        [record.call.command for record in trial.calls],
        parts(trial),
        [record.reply for record in trial.agents[0].calls],
        [message.content for message in model.heard[3]],
        (trial.ending, trial.outcome),
    ) == (
        [mark("work:tea"), "ls ."],
        [("worker/1", 0, 1, 1, Ending.STOPPED)],
        ["marked b\n"],
        ["You work.", "Your word is tea, asked as 1."],
        (Ending.STOPPED, Outcome.COMPLETED),
    )


async def test_an_agent_that_is_waited_for_acts_before_the_next_call_of_who_asked(
    play, rig
) -> None:
    model = ScriptedModel(mark("work:tea!"), mark("a"), says("I am done."), "ls notes", says("Hm."))

    (trial,) = await play(model, scenario=rig)

    assert (
        [record.call.command for record in trial.calls],
        [record.call.command for record in trial.agents[0].calls],
        trial.outcome,
    ) == ([mark("work:tea!"), "ls notes"], [mark("a")], Outcome.STALLED)


async def test_a_program_stands_for_an_agent_and_what_it_writes_can_ask_for_another(
    play, rig
) -> None:
    model = ScriptedModel(mark("judge:again"), says("Over."), mark("b"))

    (trial,) = await play(model, scenario=rig)

    assert (parts(trial), asked_by(trial), trial.handshake, trial.outcome) == (
        [("judge/1", 0, 1, 0, Ending.STOPPED), ("worker/2", 1, 2, 1, Ending.STOPPED)],
        [(0, 0, 0), (1, 0, 0)],
        (reached("judged", by="judge/1"), reached("b is marked", by="worker/2")),
        Outcome.COMPLETED,
    )


async def test_a_program_that_fails_says_how(play, rig) -> None:
    model = ScriptedModel("ls .", ("ls notes", mark("judge:bad")), says("Over."))

    (trial,) = await play(model, scenario=rig)

    (part,) = trial.agents
    assert asked_by(trial) == [(0, 1, 1)]
    assert (part.ending, part.reason.startswith("judge: "), "bad word" in part.reason) == (
        Ending.STOPPED,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("limits", "refused"),
    [
        (SpawnLimits(depth=2, count=1), ["", "more than 1 agents"]),
        (SpawnLimits(depth=1, count=8), ["", "deeper than 1"]),
    ],
)
async def test_agents_beyond_the_limits_are_refused_and_named(play, rig, limits, refused) -> None:
    model = ScriptedModel(mark("work:tea"), says("Over."), mark("work:rice"), says("Over."))

    (trial,) = await play(model, scenario=replace(rig, spawn=limits))

    assert ([part.reason for part in trial.agents], trial.agents[1].ending) == (
        refused,
        Ending.REFUSED,
    )


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (("Shall I?",), Outcome.STALLED),
        (("Everything is done.",), Outcome.CLAIMED_DONE),
        (("ls notes", "ls .", "ls w.db"), Outcome.OUT_OF_TURNS),
        (("ls notes | head", says("No.")), Outcome.GAVE_UP),
    ],
)
async def test_a_trial_without_its_goal_ends_as_the_agent_that_ended_last(
    play, rig, said, outcome
) -> None:
    child = [says(said[0])] if len(said) == 1 else said
    model = ScriptedModel(mark("work:tea"), says("Over."), *child)

    (trial,) = await play(model, scenario=rig)

    assert (trial.ending, trial.outcome) == (Ending.STOPPED, outcome)


async def test_a_server_that_breaks_under_a_sub_agent_makes_a_void_that_keeps_it(play, rig) -> None:
    model = ScriptedModel(mark("work:tea"), says("Over."), "ls .", InfrastructureError("500"))

    (trial,) = await play(model, scenario=rig)

    assert (trial.outcome, trial.reason, len(trial.calls), parts(trial)) == (
        Outcome.VOID,
        "500",
        1,
        [("worker/1", 0, 1, 1, Ending.BROKEN)],
    )


async def test_tokens_are_counted_for_all_agents_together(play, rig) -> None:
    model = ScriptedModel(mark("work:tea"), says("Over."), "ls .", "ls notes", mark("b"))
    short = replace(rig, limits=Limits(completion_tokens=50))  # a scripted turn counts 20

    (trial,) = await play(model, scenario=short)

    assert parts(trial) == [("worker/1", 0, 1, 1, Ending.TOKENS)]


async def test_a_prompt_that_a_row_cannot_fill_makes_a_void(play, rig) -> None:
    worker = replace(WORKER, instructions="# System\nx\n\n# Task\n{{ word[40] }}")

    (trial,) = await play(
        ScriptedModel(mark("work:tea"), says("Over.")), scenario=replace(rig, agents=(worker,))
    )

    assert (trial.outcome, trial.reason.startswith("the prompt of worker/1 cannot be made")) == (
        Outcome.VOID,
        True,
    )
