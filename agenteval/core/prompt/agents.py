"""Sub-agents before one is asked for: what they will read, and whose task it is that one reads."""

import re

from agenteval.core.prompt.prompt import Prompt, render_agent, texts
from agenteval.core.prompt.setting import DEFAULT, Setting
from agenteval.core.prompt.variant import Variables, columns, fill
from agenteval.core.scenario import Agent, Scenario

_COLUMN = re.compile("\0(\\w+)\0")  # a place in a task where a column of the request stands


def requested(scenario: Scenario, agent: Agent, seed: int, known: Variables) -> tuple[str, ...]:
    """The columns that a request for this agent has. Raises what `core.variant.columns` raises."""
    return columns(scenario, seed, fill(agent.spawned, known))


def outline(
    scenario: Scenario, agent: Agent, seed: int, known: Variables, setting: Setting = DEFAULT
) -> Prompt:
    """What such an agent reads, with the name of a column where its value will stand."""
    row = {name: f"<{name}>" for name in requested(scenario, agent, seed, known)}
    return render_agent(agent, {**known, **row}, setting)


def recognised(
    scenario: Scenario, agent: Agent, seed: int, known: Variables, said: str
) -> Prompt | None:
    """The prompt of the agent whose task stands in `said`, by what the task tells of its request.

    A column that the task does not show is known to nobody who reads it, and to no solution.
    """
    marked = {name: f"\0{name}\0" for name in requested(scenario, agent, seed, known)}
    _, task = texts(agent.instructions, agent.tools, {**known, **marked}, DEFAULT)
    found = re.search(_pattern(task), said, re.DOTALL)
    return render_agent(agent, {**known, **found.groupdict()}) if found else None


def _pattern(task: str) -> str:
    """The task with a named group where a column stands, up to the end of its message."""
    parts, seen = [], set[str]()
    for at, part in enumerate(_COLUMN.split(task)):
        if at % 2 == 0:
            parts.append(re.escape(part))
        else:
            parts.append(f"(?P={part})" if part in seen else f"(?P<{part}>.*?)")
            seen.add(part)
    return "".join(parts) + r"(?=\n\n|\Z)"
