"""A new scenario that works at once: written into the user's own folders, to be made his own."""

import re
from collections.abc import Mapping
from pathlib import Path

from agenteval.config import allowlists, fixtures, proofread, scenario_folders, scenarios
from agenteval.errors import UsageError

_TEXTS = Path(__file__).parent / "skeleton_files"
_NAME = re.compile(r"[a-z0-9]+(?:[-_/][a-z0-9]+)*")


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
    scenario = Path(scenarios.FOLDER) / name
    fixture = Path(fixtures.FIXTURES) / flat
    places = {
        scenario / scenario_folders.FILE: "scenario.toml",
        scenario / proofread.INSTRUCTIONS: "instructions.md",
        fixture / fixtures.WORLD: "world.sql",
        fixture / fixtures.FILES / "scripts" / "chores.py": "chores.py.txt",
        Path(allowlists.FOLDER) / f"{flat}.toml": "allowlist.toml",
    }
    return {
        path: (_TEXTS / source).read_text("utf-8").replace("@NAME@", name).replace("@FLAT@", flat)
        for path, source in places.items()
    }
