"""The prompt and goal of one trial: its scenario rendered for a seed; and its sub-agents."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jinja2 import TemplateError, TemplateRuntimeError

from agenteval.core.cards import OURS
from agenteval.core.prompt.setting import DEFAULT, Setting
from agenteval.core.prompt.variant import Variables, fill
from agenteval.core.scenario import Agent, Check, Scenario, Step, Trace
from agenteval.core.trial import Message

SYSTEM_HEADING = "# System\n"
TASK_HEADING = "# Task\n"
_GAP = re.compile(r"\n{3,}")  # where the rules would stand


@dataclass(frozen=True, slots=True)
class Prompt:
    """The first messages of an agent; of a trial's first agent also the checks that judge it.

    Its first messages are `system`, the `history` of a chat that went before, and `task`. The last
    `closing` steps of the solution close the work, and of `another`, a second way to the goal.
    `requests` are the queries whose rows request sub-agents, one for each that the scenario has.
    """

    system: str
    task: str
    variables: Variables
    goal: tuple[Check, ...]
    handshake: tuple[Check, ...]
    solution: tuple[Step, ...]
    history: tuple[Message, ...] = ()
    closing: int = 1
    traces: tuple[Trace, ...] = ()
    another: tuple[Step, ...] = ()
    requests: tuple[str, ...] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        return (Message("system", self.system), *self.history, Message("user", self.task))


def render(scenario: Scenario, chosen: Variables, setting: Setting = DEFAULT) -> Prompt:
    """Return the scenario as the trial sees it that has these variables.

    Raises jinja2.TemplateError, and ValueError when a heading is missing.
    """
    system, task = texts(scenario.instructions, scenario.tools, chosen, setting)
    return Prompt(
        system=system,
        task=task,
        variables=chosen,
        goal=tuple(_check(check, chosen) for check in scenario.goal),
        handshake=tuple(_check(check, chosen) for check in scenario.handshake),
        solution=tuple(_step(step, chosen) for step in scenario.solution),
        closing=scenario.closing or max(1, len(scenario.handshake)),
        traces=tuple(_trace(trace, chosen) for trace in scenario.traces),
        another=tuple(_step(step, chosen) for step in scenario.another),
        requests=tuple(_request(*each, chosen) for each in enumerate(scenario.agents)),
    )


def render_agent(agent: Agent, variables: Variables, setting: Setting = DEFAULT) -> Prompt:
    """Return a sub-agent's prompt, by the variables of the trial and of the requesting row."""
    system, task = texts(agent.instructions, agent.tools, variables, setting)
    return Prompt(
        system=system,
        task=task,
        variables=variables,
        goal=(),
        handshake=(),
        solution=tuple(_step(step, variables) for step in agent.solution),
        closing=agent.closing,
    )


def texts(
    instructions: str, tools: Sequence[str], chosen: Variables, setting: Setting
) -> tuple[str, str]:
    """Return the system message and the task."""
    system, task = _split_instructions(instructions)
    rules = rules_for(setting, tools)
    above, below = setting.place != "end", setting.place != "start"
    variables = {**setting.profile.names(tuple(setting.profile.forms)), **chosen}
    task = fill(task, {**variables, "rules": rules}).strip()
    system = fill(system, {**variables, "rules": rules if above else ""}).strip()
    frame, system = fill(setting.arm.frame, variables), _GAP.sub("\n\n", system)
    if setting.arm.words == OURS:
        frame = _GAP.sub("\n\n", frame)
    return f"{frame}\n\n{system}".lstrip(), f"{task}\n\n{rules}" if below else task


def rules_for(setting: Setting, tools: Sequence[str]) -> str:
    """Return the rules as a model reads them whose scenario offers these tools of ours."""
    offered, profile = setting.arm.offered(tools), setting.profile
    shown = [profile.forms[tool].name for tool in offered]
    names = profile.names(tuple(profile.forms))
    return fill(setting.rules, {**names, "tools": offered, "shown": shown})


def _split_instructions(instructions: str) -> tuple[str, str]:
    """Return the system part and the task part, without their headings."""
    before, found_system, rest = instructions.partition(SYSTEM_HEADING)
    system, found_task, task = rest.partition("\n" + TASK_HEADING)
    if before.strip() or not found_system or not found_task:
        raise ValueError("it must begin with `# System` and go on with `# Task`, each on its line")
    return system, task


def _request(number: int, agent: Agent, chosen: Variables) -> str:
    try:
        return fill(agent.spawned, chosen)
    except TemplateError as error:
        raise TemplateRuntimeError(f"agent.{number}.spawned: {error}") from error


def _check(check: Check, chosen: Variables) -> Check:
    expect = fill(check.expect, chosen) if isinstance(check.expect, str) else check.expect
    return replace(check, query=fill(check.query, chosen), expect=expect)


def _trace(trace: Trace, chosen: Variables) -> Trace:
    return replace(trace, calls=tuple(fill(call, chosen) for call in trace.calls))


def _step(step: Step, chosen: Variables) -> Step:
    return replace(
        step,
        arguments={
            name: fill(value, chosen) if isinstance(value, str) else value
            for name, value in step.arguments.items()
        },
    )


_COLUMN = re.compile("\0(\\w+)\0")  # a place in a task where a column of the request stands


def outline(
    agent: Agent, columns: Sequence[str], variables: Variables, setting: Setting = DEFAULT
) -> Prompt:
    """Return what such an agent reads, with `<column>` where a value of its request will stand."""
    return render_agent(agent, {**variables, **{name: f"<{name}>" for name in columns}}, setting)


def recognised(
    agent: Agent, columns: Sequence[str], variables: Variables, transcript: str
) -> Prompt | None:
    """Return the prompt of the agent whose task comes last in the transcript; None without one.

    The columns of its request are read from that task. A column that the task does not show is
    unknown to every reader, and to the solution.
    """
    marked = {name: f"\0{name}\0" for name in columns}
    _, task = texts(agent.instructions, agent.tools, {**variables, **marked}, DEFAULT)
    tasks = [*re.finditer(_pattern(task), transcript, re.DOTALL)]
    return render_agent(agent, {**variables, **tasks[-1].groupdict()}) if tasks else None


def _pattern(task: str) -> str:
    """Return a pattern of the task, with a named group for each column, to its message's end."""
    parts, named_columns = [], set[str]()
    for at, part in enumerate(_COLUMN.split(task)):
        if at % 2 == 0:
            parts.append(re.escape(part))
        else:
            parts.append(f"(?P={part})" if part in named_columns else f"(?P<{part}>.*?)")
            named_columns.add(part)
    return "".join(parts) + r"(?=\n\n|\Z)"
