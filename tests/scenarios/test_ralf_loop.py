"""The research loop as a whole: what its agents do wrong is seen in the world, and no sooner."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from agenteval.models.oracle import Oracle
from agenteval.protocols import ToolSchema, TrialKey
from agenteval.sandbox.backends import Namespaces
from agenteval.trial.call import Outcome
from agenteval.trial.trial import Message, Scenario, Trial, Turn
from agenteval.workflows.prove import played
from agenteval.workflows.stages import load_stages

Edit = Callable[[str], str]


class Edited(Oracle):
    """Plays the solutions, with commands edited on their way."""

    def __init__(self, scenario: Scenario, edit: Edit) -> None:
        super().__init__([scenario])
        self._edit = edit

    async def ask(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], *, seed: int
    ) -> Turn:
        turn = await super().ask(messages, tools, seed=seed)
        commands = [{"command": self._edit(str(call.command))} for call in turn.calls]
        calls = [
            replace(call, arguments=command, raw=json.dumps(command))
            for call, command in zip(turn.calls, commands, strict=True)
        ]
        return replace(turn, calls=tuple(calls))


def once(old: str, new: str) -> Edit:
    """Change the first command that has `old`."""
    left = [old]

    def edit(command: str) -> str:
        return command.replace(left.pop(), new) if left and left[0] in command else command

    return edit


def always(old: str, new: str) -> Edit:
    return lambda command: command.replace(old, new)


async def play(name: str, edit: Edit) -> Trial:
    (stage,) = load_stages([name])
    key = TrialKey(stage.scenario.name, 1, seed=7)
    trials = await played([stage], [key], Edited(stage.scenario, edit), Namespaces())
    return trials[key]


def passes(trial: Trial) -> int:
    """How many steps of the handshake were reached."""
    return sum(step.reached for step in trial.handshake)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "edit", "steps", "agents"),
    [
        ("two-stages", always("--no-attach ", ""), 6, "EWE"),
        ("two-stages", once("--answer 20", "--answer 19"), 3, "EWEWEWE"),
        ("second-attempt", always("--no-attach ", ""), 6, "EWE"),
        ("evaluated-by-model", once("py pass", "py fail"), 6, "EWEWE"),
    ],
)
async def test_a_verdict_opens_the_next_attempt_or_stage(name, edit, steps, agents):
    trial = await play(f"ralf/{name}", edit)

    letters = {"step_evaluator": "E", "step_worker": "W"}
    assert (passes(trial), "".join(letters[part.name] for part in trial.agents)) == (steps, agents)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "edit", "steps", "outcome"),
    [
        ("two-stages", always("--answer 20", "--answer 19"), 3, Outcome.STALLED),
        ("two-stages", once("--key findings", "--key notes"), 6, Outcome.STALLED),
        ("two-stages", once("--no-attach ", ""), 6, Outcome.STALLED),
        ("second-attempt", once("--key findings", "--key notes"), 6, Outcome.STALLED),
        ("second-attempt", once("--outcome success", "--outcome partial"), 6, Outcome.STALLED),
        ("second-attempt", once('--value "20', '--value "19'), 6, Outcome.STALLED),
        ("evaluated-by-model", once('--value "20', '--value "19'), 6, Outcome.STALLED),
        ("two-stages", once("ralf_spawn", "ralf_start"), 2, Outcome.GAVE_UP),
        ("two-stages", once("awaiting_eval", "in_progress"), 2, Outcome.STALLED),
        ("second-attempt", always(", 20", ", 19"), 5, Outcome.STALLED),
        (
            "evaluated-by-model",
            always("evaluate.py pass", "evaluate.py --help"),
            3,
            Outcome.STALLED,
        ),
        ("evaluated-by-model", once("--answer 20", "--answer 19"), 6, Outcome.STALLED),
    ],
)
async def test_the_loop_is_judged_on_what_its_agents_really_did(name, edit, steps, outcome):
    trial = await play(f"ralf/{name}", edit)

    assert (passes(trial), trial.outcome) == (steps, outcome)
