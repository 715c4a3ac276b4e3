"""What a run was asked for: its options, its levels, and scenarios with worlds and allow lists."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from agenteval.config.allowlists import find, load_policy
from agenteval.config.fixtures import check_scripts, load_fixture
from agenteval.config.paths import roots
from agenteval.config.prompts import load_setting
from agenteval.config.scenarios import load_scenarios
from agenteval.core.policy.policy import Policy
from agenteval.core.prompt.setting import Setting
from agenteval.core.run import Options, Run
from agenteval.core.scenario import Agent, Scenario
from agenteval.engine.orchestrator import Stage
from agenteval.errors import UsageError
from agenteval.store.recorder import judged_by
from agenteval.workflows.resume import agreed, stored_run


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be played; `resume` is the run to go on with."""

    options: Options
    setting: Setting
    store: str
    resume: Run | None = None
    retry_void: bool = False
    power: bool = False


def options_of(asked: Mapping[str, Any]) -> Options:
    """Out of all that a command was given; lists may be None where nothing was."""
    wanted = {name: asked[name] for name in Options.__dataclass_fields__}
    return Options(**(wanted | {name: list(wanted[name] or ()) for name in ("targets", "model")}))


def plan_of(  # noqa: PLR0913 -- what a run is asked for, and each has a default
    asked: Options,
    store: str,
    *,
    resume: str | None = None,
    given: Collection[str] = (),
    retry_void: bool = False,
    power: bool = False,
) -> Plan:
    """`given` names what the user said himself, which must not contradict the run to go on with.

    Raises UsageError.
    """
    begun = stored_run(resume, store) if resume else None
    named = [name for name in Options.__dataclass_fields__ if name in given]
    options = agreed(begun, asked, named) if begun else asked
    if not options.model:
        raise UsageError("--model: name what is to be evaluated; `agenteval models` lists it")
    setting = load_setting(options.profile, options.prompt_variant, options.rules, options.context)
    return Plan(options, setting, store, begun, retry_void, power)


def levels_of(text: str) -> tuple[int, ...]:
    """Every level of `4`, or `1,2,4`, once and in the order given. Raises UsageError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 1 <= len(part) <= 4 for part in parts) or any(
        int(part) < 1 for part in parts
    ):
        raise UsageError(
            f"--concurrency {text!r}: numbers from 1 to 9999, such as 4 or 1,2,4; each is a level"
        )
    return tuple(dict.fromkeys(map(int, parts)))


def load_stages(targets: Sequence[str]) -> tuple[Stage, ...]:
    """The scenarios, each with its allow list and its world's files. Raises UsageError."""
    where = roots()
    scenarios = load_scenarios(targets, roots=where)
    played = {one.name: [each for each in one.agents if not each.program] for one in scenarios}
    names = {scenario.policy for scenario in scenarios}
    names |= {agent.policy for agents in played.values() for agent in agents}
    policies = {name: load_policy(name, roots=where) for name in names}
    for scenario in scenarios:
        files = load_fixture(scenario, 0, roots=where)  # a world that cannot be made is told now
        for name in {scenario.policy, *(agent.policy for agent in played[scenario.name])}:
            check_scripts(policies[name], find(name, where), scenario, files)
    return tuple(
        Stage(
            scenario,
            _offered(policies[scenario.policy], scenario),
            partial(load_fixture, scenario, roots=where),
            {one.name: _offered(policies[one.policy], one) for one in played[scenario.name]},
        )
        for scenario in scenarios
    )


def _offered(policy: Policy, agent: Scenario | Agent) -> Policy:
    """The policy with the tools that the agent is offered: to the model there are no others."""
    tools = {name: rule for name, rule in policy.tools.items() if name in agent.tools}
    return replace(policy, tools=tools)


def judges(stages: Sequence[Stage]) -> dict[str, str]:
    """Whose calls are judged by which allow list."""
    return {
        judged_by(stage.scenario.name, agent): policy.digest
        for stage in stages
        for agent, policy in {"": stage.policy, **stage.agents}.items()
    }
