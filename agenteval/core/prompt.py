"""What one trial reads and is judged by: its scenario, rendered for a seed."""

from dataclasses import dataclass, replace

from agenteval.core.scenario import Check, Scenario, Step
from agenteval.core.template import fill
from agenteval.core.variant import Variables, variables

# An edit here changes what every model reads: it bumps the protocol version of the engine.
RULES = """\
## Rules for tool calls

Every tool call is compared with an allow list before it runs. What is not on the list is denied, \
and nothing runs.
{% if "bash" in tools %}
- One bare command per bash call: a listed script and its arguments, nothing before it and nothing \
after it.
- Do not cut output down: no pipe into head, tail, grep, sed, jq or anything else. Every script \
returns what you need; its own options narrow it.
- No redirects. Errors are part of the output, so neither `2>&1` nor `2>/dev/null`.
- No chaining with `&&`, `||` or `;`, no `cd`, and no `|| true`: a failed command is reported as \
such.
- No heredocs, no command substitution, no variables, no background commands. A long value is one \
quoted argument.
- No prefixes such as `timeout`, `env` or `sudo`. Time limits are kept for you.
- No other programs (ls, cat, find, curl, python ...), no inline code, and no scripts or options \
that are not listed above.
{%- endif %}
{%- if "read" in tools %}
- The read tool opens files of this workspace only. A path outside it is denied.
{%- endif %}
{%- if "write" in tools %}
- The write tool writes whole files of this workspace, and only where the task asks for it.
{%- endif %}
- There are no other tools than {{ tools | join(" and ") }}.

After a denial, do not try the same thing in another shape: use a listed script instead and go on.\
"""

SYSTEM_HEADING = "# System\n"
TASK_HEADING = "# Task\n"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One variant of a scenario: `system` and `task` are the two messages a trial begins with."""

    system: str
    task: str
    variables: Variables
    goal: tuple[Check, ...]
    handshake: tuple[Check, ...]
    solution: tuple[Step, ...]


def render(scenario: Scenario, seed: int) -> Prompt:
    """The scenario as the trial with this seed sees it.

    Raises what `core.variant.variables` raises, and ValueError when a heading is missing; never for
    a scenario that `config.scenarios` loaded.
    """
    chosen = variables(scenario, seed)
    system, task = split_instructions(scenario.instructions)
    rules = fill(RULES, {"tools": scenario.tools})
    return Prompt(
        system=fill(system, {**chosen, "rules": rules}).strip(),
        task=fill(task, {**chosen, "rules": rules}).strip(),
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
