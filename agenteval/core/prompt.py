"""What one trial reads and is judged by: its scenario, rendered for a seed."""

import re
from dataclasses import dataclass, replace

from agenteval.core.scenario import Check, Scenario, Step
from agenteval.core.setting import DEFAULT, Setting
from agenteval.core.template import fill
from agenteval.core.trial import Message
from agenteval.core.variant import Variables, variables

SYSTEM_HEADING = "# System\n"
TASK_HEADING = "# Task\n"
_GAP = re.compile(r"\n{3,}")  # where the rules would stand


@dataclass(frozen=True, slots=True)
class Prompt:
    """One variant of a scenario: what a trial begins with, and what it is judged by.

    Its first messages are `system`, the `history` of a chat that went before, and `task`.
    """

    system: str
    task: str
    variables: Variables
    goal: tuple[Check, ...]
    handshake: tuple[Check, ...]
    solution: tuple[Step, ...]
    history: tuple[Message, ...] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        return (Message("system", self.system), *self.history, Message("user", self.task))


def render(scenario: Scenario, seed: int, setting: Setting = DEFAULT) -> Prompt:
    """The scenario as the trial with this seed sees it.

    Raises what `core.variant.variables` raises, and ValueError when a heading is missing; never for
    a scenario that `config.scenarios` loaded.
    """
    chosen = variables(scenario, seed)
    names = setting.profile.names(tuple(setting.profile.forms))
    system, task = split_instructions(scenario.instructions)
    rules = setting.rules_for(scenario.tools)
    above, below = setting.place != "end", setting.place != "start"
    known = {**names, **chosen}
    task = fill(task, {**known, "rules": rules}).strip()
    return Prompt(
        system=_GAP.sub("\n\n", fill(system, {**known, "rules": rules if above else ""}).strip()),
        task=f"{task}\n\n{rules}" if below else task,
        variables=chosen,
        goal=tuple(_check(check, chosen) for check in scenario.goal),
        handshake=tuple(_check(check, chosen) for check in scenario.handshake),
        solution=tuple(_step(step, chosen) for step in scenario.solution),
    )


def split_instructions(instructions: str) -> tuple[str, str]:
    """The system part and the task part, without their headings."""
    before, found_system, rest = instructions.partition(SYSTEM_HEADING)
    system, found_task, task = rest.partition("\n" + TASK_HEADING)
    if before.strip() or not found_system or not found_task:
        raise ValueError("it must begin with `# System` and go on with `# Task`, each on its line")
    return system, task


def _check(check: Check, chosen: Variables) -> Check:
    expect = fill(check.expect, chosen) if isinstance(check.expect, str) else check.expect
    return replace(check, query=fill(check.query, chosen), expect=expect)


def _step(step: Step, chosen: Variables) -> Step:
    return replace(
        step,
        arguments={
            name: fill(value, chosen) if isinstance(value, str) else value
            for name, value in step.arguments.items()
        },
    )
