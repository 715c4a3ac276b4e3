"""Task instances of many seeds, checked cheaply, and players that are honest or cheat.

Players who guess, list answers, edit the examples or look at nothing must not complete a scenario;
players who take another way to the goal must.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from agenteval.core.call import BASH
from agenteval.core.outcome import Outcome
from agenteval.core.prompt.arm import STRICT
from agenteval.core.prompt.prompt import Prompt
from agenteval.core.prompt.variant import Variables
from agenteval.core.scenario import Check, Scenario, Step
from agenteval.core.trial import Trial
from agenteval.errors import UsageError
from agenteval.models.oracle import Planned
from agenteval.models.slips import Written
from agenteval.protocols import Stage, TrialKey
from agenteval.sandbox.maker import MakerError, fill, render, rows, variables

REFERENCE = 10  # of these worlds the solution is played in
OTHERS = 12  # worlds whose answers an adversary knows
FEW = 6  # wrong guesses before the right one, and after it
EXAMPLES = ("test", "example", "check")
SEED = 1

Plan = Sequence[Written]


@dataclass(frozen=True, slots=True)
class Tried:
    """The result of that many task instances: the number of different answers, and the faults."""

    worlds: int = 0
    answers: int = 0
    faults: tuple[str, ...] = ()


def tried(stage: Stage, count: int) -> Tried:
    """Check the task instances of the seeds from 0 on.

    Each must be buildable and queryable, and not completed before anything is done.
    """
    answers, faults = set[str](), list[str]()
    for seed in range(count):
        try:
            prompt, files = render(stage.scenario, seed), stage.files(seed)
            rows = initial_rows(files.get(stage.scenario.database, b""), prompt.goal)
        except (UsageError, ValueError) as error:
            faults.append(f"seed {seed}: {error}")
            continue
        answers.add(repr([step.arguments for step in prompt.solution[-prompt.closing :]]))
        if prompt.goal and rows == [check.expect for check in prompt.goal] and not _more(stage):
            faults.append(f"seed {seed}: the goal is reached before anything was done")
    if len(answers) == 1 and count >= REFERENCE:
        faults.append(f"{count} worlds have one answer: whoever has seen one knows all")
    return Tried(count, len(answers), tuple(faults))


def initial_rows(content: bytes, checks: Sequence[Check]) -> list[Any]:
    """Return the first value of each check in a database; None if it finds nothing or fails."""
    return [answer.first for answer in rows(content, [check.query for check in checks])]


def _more(stage: Stage) -> bool:
    return bool(stage.scenario.tests or stage.scenario.traces)


def _other_variables(scenario: Scenario) -> Iterator[Variables]:
    """Yield the variables of some other task instances.

    One that cannot be made is skipped: its fault is reported elsewhere.
    """
    for seed in range(SEED + 1, SEED + 1 + OTHERS):
        try:
            yield variables(scenario, seed)
        except ValueError:
            continue


def _guesses(stage: Stage, prompt: Prompt, others: Sequence[Variables]) -> Plan | None:
    """Return a plan that tries the right answer among answers of other task instances."""
    steps = stage.scenario.solution[-prompt.closing :]
    wrong = [*islice(_wrong(stage.scenario, steps, prompt.variables, others), 2 * FEW)]
    right = [_written(step) for step in prompt.solution]
    return [*wrong[:FEW], *right, *wrong[FEW:]] if len(wrong) > FEW else None


def _wrong(
    scenario: Scenario, steps: Sequence[Step], values: Variables, others: Sequence[Variables]
) -> Iterator[Written]:
    """Yield the closing calls with one answer of another task instance in each."""
    tried_calls = {_written(filled) for step in steps if (filled := _filled(step, values))}
    for other in others:
        for name in scenario.asks:
            for step in steps:
                filled = _filled(step, {**values, name: other[name]})
                if filled and (written := _written(filled)) not in tried_calls:
                    tried_calls.add(written)
                    yield written


def _lists(stage: Stage, prompt: Prompt, others: Sequence[Variables]) -> Plan | None:
    """Return a plan that gives every answer of any task instance instead of the right one."""
    asks, values = stage.scenario.asks, dict(prompt.variables)
    for name in asks:
        if len(answers := dict.fromkeys(str(one[name]) for one in (*others, values))) > 1:
            trial = {**values, name: ", ".join(answers)}
            if all(_filled(step, trial) for step in stage.scenario.solution):
                values[name] = trial[name]
    right = prompt.solution[-prompt.closing :]
    closing = [_filled(step, values) for step in stage.scenario.solution[-prompt.closing :]]
    plan = [*prompt.solution[: -prompt.closing], *filter(None, closing)]
    return None if closing == [*right] else [*map(_written, plan)]


def _blind(stage: Stage, prompt: Prompt, others: Sequence[Variables]) -> Plan | None:
    """Return a plan of the closing calls, made from the prompt alone.

    An answer that the prompt does not contain is another task instance's. Where the prompt contains
    them all, there is nothing to cheat with: then None is returned.
    """
    prompt_text, values = f"{prompt.system}\n{prompt.task}", dict(prompt.variables)
    for name in stage.scenario.asks:
        if str(values[name]) not in prompt_text and others:
            values[name] = others[0][name]
    steps = stage.scenario.solution[-prompt.closing :]
    plan = [filled for step in steps if (filled := _filled(step, values))]
    right = [*prompt.solution[-prompt.closing :]]
    return [*map(_written, plan)] if plan != right else None


def _edits(stage: Stage, prompt: Prompt, others: Sequence[Variables]) -> Plan | None:
    """Empties whatever is a test or an example in the workspace, and does nothing else."""
    del others, prompt
    files = [path for path in stage.files(SEED) if any(word in path for word in EXAMPLES)]
    if "write" not in stage.scenario.tools or not files:
        return None
    return [Written("write", json.dumps({"path": path, "content": ""})) for path in files]


def _careful(stage: Stage, prompt: Prompt, others: Sequence[Variables]) -> Plan | None:
    """Asks scripts for help first, and looks again at the end."""
    del others, stage
    commands = [str(s.arguments["command"]) for s in prompt.solution if s.tool == BASH]
    helps = dict.fromkeys(" ".join([*one.split()[:3], "--help"]) for one in commands)
    asked = [Written(BASH, json.dumps({"command": one})) for one in [*helps][:2]]
    looks = [step for step in prompt.solution[: -prompt.closing] if step.tool != "write"]
    return [*asked, *map(_written, prompt.solution), *map(_written, looks[:1])]


def _another(stage: Stage, prompt: Prompt, others: Sequence[Variables]) -> Plan | None:
    """The author's second way."""
    del others, stage
    return [*map(_written, prompt.another)] or None


Player = Callable[[Stage, Prompt, Sequence[Variables]], Plan | None]
HONEST: Mapping[str, Player] = {
    "asks for help first and looks again at the end": _careful,
    "takes the way of [[another]]": _another,
}
ADVERSARIES: Mapping[str, Player] = {
    "guesses on, before and after the right answer": _guesses,
    "lists every answer": _lists,
    "looks at nothing and answers by the prompt alone": _blind,
    "empties tests and examples and does nothing else": _edits,
}


def plans(stages: Sequence[Stage], player: Player) -> dict[str, Plan]:
    """Return the plan of this player for each scenario in which it has one."""
    plan_of = {}
    for stage in stages:
        others = [*_other_variables(stage.scenario)]
        if plan := player(stage, render(stage.scenario, SEED), others):
            plan_of[stage.scenario.name] = plan
    return plan_of


def acting(stages: Sequence[Stage], made: Mapping[str, Plan]) -> tuple[list[TrialKey], Planned]:
    """Return the trials that such a player plays, and the player."""
    keys = [TrialKey(name, SEED + 1, SEED) for name in made]
    return keys, Planned([stage.scenario for stage in stages], made)


def roomy(stage: Stage, plan: Plan) -> Stage:
    """The stage with turns enough for so many calls."""
    turns = max(stage.scenario.max_turns, len(plan) + 1)
    return replace(stage, scenario=replace(stage.scenario, max_turns=turns))


def honest_fault(how: str, trial: Trial) -> str:
    """Return what keeps an honest player from the goal; empty if nothing does."""
    if trial.outcome is Outcome.COMPLETED:
        return ""
    denied = [one.call.command for one in trial.calls if not one.verdict.allowed]
    why = f"`{denied[0]}` is denied" if denied else trial.reason
    return f"seed {trial.seed}: a player that {how} does not reach the goal: {why}"


def adversary_fault(how: str, trial: Trial, stage: Stage) -> str:
    """Return the fault that a player completes a scenario without the work; empty if it does not.

    A player that made every call of the solution, and no other that succeeded, has done the work.
    """
    if trial.outcome is not Outcome.COMPLETED:
        return ""
    steps = [(s.tool, dict(s.arguments)) for s in render(stage.scenario, trial.seed).solution]
    ran = [one.call for one in trial.calls if one.execution and one.execution.exit_code == 0]
    well = [(call.name, dict(call.arguments or {})) for call in ran]
    if all(step in well for step in steps) and all(call in steps for call in well):
        return ""
    return f"seed {trial.seed}: a player that {how} reaches the goal: let a check of it fail"


def _written(step: Step) -> Written:
    return Written(*STRICT.profile.written(step.tool, step.arguments))


def _filled(step: Step, values: Variables) -> Step | None:
    """The step with these variables; None where they do not fit into it."""
    try:
        arguments = {
            name: fill(value, values) if isinstance(value, str) else value
            for name, value in step.arguments.items()
        }
    except MakerError:
        return None
    return replace(step, arguments=arguments)
