"""Scenarios for whoever writes them: listed, shown as a model reads them, or begun anew."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from agenteval.config.prompts import load_setting
from agenteval.config.roots import roots
from agenteval.config.scenarios import load_scenarios
from agenteval.config.skeleton import write_skeleton
from agenteval.core.prompt.context import posed
from agenteval.core.prompt.prompt import Prompt, outline
from agenteval.core.prompt.setting import Setting
from agenteval.core.scenario import Scenario

__all__ = ["load_setting", "prompts", "scenarios", "write_new"]


def scenarios(targets: Sequence[str]) -> tuple[Scenario, ...]:
    """By name or folder; all of them without any. Raises UsageError."""
    return load_scenarios(targets, roots=roots())


def prompts(name: str, seed: int, setting: Setting) -> Iterator[list[tuple[str, Prompt]]]:
    """What is read at the start of a trial with this seed, and by whom, for each scenario.

    The first agent's prompt comes first, then one for each sub-agent that the model plays.
    """
    for scenario in scenarios([name]):
        prompt = posed(scenario, seed, setting)
        yield [
            (scenario.name, prompt),
            *(
                (
                    f"{scenario.name}, sub-agent {agent.name}",
                    outline(scenario, agent, seed, prompt.variables, setting),
                )
                for agent in scenario.agents
                if agent.program is None
            ),
        ]


def write_new(name: str) -> list[Path]:
    """A small scenario that works, in the project's own folders. Raises UsageError."""
    return write_skeleton(name, root=roots()[0])
