"""Scenarios for whoever writes them: listed, shown as a model reads them, or begun anew."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agenteval.config import allowlists, fixtures, proofread, scenario_files
from agenteval.config.prompts import load_setting
from agenteval.config.roots import FILE, roots
from agenteval.config.scenario_files import load_scenarios
from agenteval.core.prompt.context import posed
from agenteval.core.prompt.prompt import Prompt, outline
from agenteval.core.prompt.setting import Setting
from agenteval.core.scenario import Scenario
from agenteval.errors import UsageError

__all__ = ["load_setting", "prompts", "scenarios", "write_new"]

_TEXTS = Path(__file__).parent / "skeleton_files"
_NAME = re.compile(r"[a-z0-9]+(?:[-_/][a-z0-9]+)*")


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


def write_skeleton(name: str, *, root: Path) -> list[Path]:
    """Write scenario, fixture and allow list of this name below `root`; the paths written.

    Nothing is written when one of them is there already. Raises UsageError.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a scenario: use small letters, digits and -, and / for a "
            "group, as in home/lights"
        )
    texts = _texts(name)
    for path in texts:
        if (root / path).exists():
            raise UsageError(
                f"{root / path}: is there already, so nothing was written. Take another name"
            )
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return [root / path for path in texts]


def _texts(name: str) -> Mapping[Path, str]:
    flat = name.replace("/", "-")
    scenario = Path(scenario_files.FOLDER) / name
    fixture = Path(fixtures.FIXTURES) / flat
    places = {
        scenario / FILE: "scenario.toml",
        scenario / proofread.INSTRUCTIONS: "instructions.md",
        fixture / fixtures.WORLD: "world.sql",
        fixture / fixtures.FILES / "scripts" / "chores.py": "chores.py.txt",
        Path(allowlists.FOLDER) / f"{flat}.toml": "allowlist.toml",
    }
    return {
        path: (_TEXTS / source).read_text("utf-8").replace("@NAME@", name).replace("@FLAT@", flat)
        for path, source in places.items()
    }
