"""Worlds of many seeds, tried cheaply; and players that are honest in another way, or not at all.

Whoever guesses, lists, edits the examples or looks at nothing must not complete a scenario; whoever
takes another way to the goal must.
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
    """What so many worlds gave: how many different answers they have, and what is wrong."""

    worlds: int = 0
    answers: int = 0
    faults: tuple[str, ...] = ()


def tried(stage: Stage, count: int) -> Tried:
    """The worlds of the seeds from 0 on: made, asked, and not completed before anything is done."""
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
    """What each check finds in such a database; None where it finds nothing, or cannot ask."""
    return [answer.first for answer in rows(content, [check.query for check in checks])]


def _more(stage: Stage) -> bool:
    return bool(stage.scenario.tests or stage.scenario.traces)


def known_worlds(scenario: Scenario) -> Iterator[Variables]:
    """The variables of some other worlds; none of one that cannot be made, which is told apart."""
    for seed in range(SEED + 1, SEED + 1 + OTHERS):
        try:
            yield variables(scenario, seed)
        except ValueError:
            continue


def _guesses(stage: Stage, prompt: Prompt, others: Sequence[Variables]) -> Plan | None:
    """The right answer among answers of other worlds, and nobody says which one it was."""
    steps = stage.scenario.solution[-prompt.closing :]
    wrong = [*islice(_wrong(stage.scenario, steps, prompt.variables, others), 2 * FEW)]
    right = [_written(step) for step in prompt.solution]
    return [*wrong[:FEW], *right, *wrong[FEW:]] if len(wrong) > FEW else None


def _wrong(
    scenario: Scenario, steps: Sequence[Step], known: Variables, others: Sequence[Variables]
) -> Iterator[Written]:
    """The closing calls with one answer of another world in each."""
    seen = {_written(filled) for step in steps if (filled := _filled(step, known))}
    for other in others:
        for name in scenario.asks:
            for step in steps:
                filled = _filled(step, {**known, name: other[name]})
                if filled and (written := _written(filled)) not in seen:
                    seen.add(written)
                    yield written


def _lists(stage: Stage, prompt: Prompt, others: Sequence[Variables]) -> Plan | None:
    """Every answer that any world has, in the place of the one that is right."""
    asks, known = stage.scenario.asks, dict(prompt.variables)
    for name in asks:
        if len(told := dict.fromkeys(str(one[name]) for one in (*others, known))) > 1:
            trial = {**known, name: ", ".join(told)}
            if all(_filled(step, trial) for step in stage.scenario.solution):
                known[name] = trial[name]
    right = prompt.solution[-prompt.closing :]
    closing = [_filled(step, known) for step in stage.scenario.solution[-prompt.closing :]]
    plan = [*prompt.solution[: -prompt.closing], *filter(None, closing)]
    return None if closing == [*right] else [*map(_written, plan)]


def _blind(stage: Stage, prompt: Prompt, others: Sequence[Variables]) -> Plan | None:
    """The closing calls with what the prompt tells, and another world's answer where it does not.

    Where the prompt tells all, to know and to do is one, and there is nothing to cheat with.
    """
    said, known = f"{prompt.system}\n{prompt.task}", dict(prompt.variables)
    for name in stage.scenario.asks:
        if str(known[name]) not in said and others:
            known[name] = others[0][name]
    steps = stage.scenario.solution[-prompt.closing :]
    plan = [filled for step in steps if (filled := _filled(step, known))]
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
    """What this player does in each scenario where there is something for it to do."""
    made = {}
    for stage in stages:
        others = [*known_worlds(stage.scenario)]
        if plan := player(stage, render(stage.scenario, SEED), others):
            made[stage.scenario.name] = plan
    return made


def acting(stages: Sequence[Stage], made: Mapping[str, Plan]) -> tuple[list[TrialKey], Planned]:
    """Which trials such a player plays, and the player."""
    keys = [TrialKey(name, SEED + 1, SEED) for name in made]
    return keys, Planned([stage.scenario for stage in stages], made)


def roomy(stage: Stage, plan: Plan) -> Stage:
    """The stage with turns enough for so many calls."""
    turns = max(stage.scenario.max_turns, len(plan) + 1)
    return replace(stage, scenario=replace(stage.scenario, max_turns=turns))


def honest_fault(how: str, trial: Trial) -> str:
    """What keeps an honest player from the goal; empty where nothing does."""
    if trial.outcome is Outcome.COMPLETED:
        return ""
    denied = [one.call.command for one in trial.calls if not one.verdict.allowed]
    why = f"`{denied[0]}` is denied" if denied else trial.reason
    return f"seed {trial.seed}: a player that {how} does not reach the goal: {why}"


def adversary_fault(how: str, trial: Trial, stage: Stage) -> str:
    """That a player which does not do the work completes it; empty where it does not.

    Whoever made every call of the solution, and no other that did anything, has done the work.
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


def _filled(step: Step, known: Variables) -> Step | None:
    """The step with these variables; None where they do not fit into it."""
    try:
        made = {
            name: fill(value, known) if isinstance(value, str) else value
            for name, value in step.arguments.items()
        }
    except MakerError:
        return None
    return replace(step, arguments=made)
