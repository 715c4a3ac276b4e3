"""What authors ask for: new scenarios, allow lists checked and converted, classes explained."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from agenteval.config.prompts import load_setting
from agenteval.config.roots import roots
from agenteval.config.scenarios import load_scenarios
from agenteval.config.skeleton import write_skeleton
from agenteval.core.nearest import Names
from agenteval.core.policy_lint import Remark
from agenteval.core.prompt.agents import outline
from agenteval.core.prompt.context import posed
from agenteval.core.prompt.prompt import Prompt
from agenteval.core.prompt.setting import Setting
from agenteval.core.scenario import Scenario
from agenteval.dialects.files import Written
from agenteval.dialects.registry import lint as remarks_on
from agenteval.errors import UsageError
from agenteval.formats.convert import convert as written_for
from agenteval.formats.permissions import load_any
from agenteval.taxonomy.catalogue import failure_classes
from agenteval.taxonomy.garble_registry import GarbleKind
from agenteval.taxonomy.garbles import KINDS
from agenteval.taxonomy.page import garble_page, page
from agenteval.taxonomy.registry import FailureClass

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


@cache
def known() -> Mapping[str, FailureClass | GarbleKind]:
    """Everything that has a page by its id, the failure classes first and in their order."""
    classes = {each.id: each for each in failure_classes()}
    return classes | {each.id: each for each in KINDS}


def titles() -> list[str]:
    """A line each: the id, and what it is in a sentence."""
    width = max(map(len, known()))
    return [f"{each.id:<{width}}  {each.title}" for each in known().values()]


def page_of(name: str) -> str:
    """In Markdown. Raises UsageError for an id that is none."""
    found = known().get(name)
    if found is None:
        near = Names(known()).nearest(name)
        cure = f"did you mean {near}?" if near else "agenteval explain lists them all"
        raise UsageError(f"no failure class {name!r}: {cure}")
    return garble_page(found) if isinstance(found, GarbleKind) else page(found)


def lint(given: str) -> list[Remark]:
    """What is wrong with the rules of an allow list in any format. Raises UsageError."""
    return remarks_on(load_any(given, roots=roots()))


def convert(given: str, to: str) -> Written:
    """An allow list as another harness writes it. Raises UsageError."""
    return written_for(load_any(given, roots=roots()), to)
