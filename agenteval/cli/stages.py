"""What a run plays: scenarios with their worlds and the allow lists of all their agents."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from agenteval.config.allowlists import find, load_policy
from agenteval.config.fixtures import check_scripts, load_fixture
from agenteval.config.paths import roots
from agenteval.config.scenarios import load_scenarios
from agenteval.core.policy.policy import Policy
from agenteval.core.scenario import Agent, Scenario
from agenteval.engine.orchestrator import Stage
from agenteval.store.recorder import judged_by


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
