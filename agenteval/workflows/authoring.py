"""Scenarios for their authors: listed, shown as a model reads them, or newly created."""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agenteval import workflows
from agenteval.bounded import write_whole
from agenteval.config import allowlists, fixtures, proofread, scenario_files
from agenteval.config.project_files import FIXTURES
from agenteval.config.prompts import load_setting
from agenteval.config.roots import FILE, find_project, roots, working_folder
from agenteval.config.scenario_files import load_scenarios
from agenteval.core.plain import shortened, visible
from agenteval.core.prompt.prompt import Prompt
from agenteval.core.prompt.setting import Setting
from agenteval.core.scenario import Scenario
from agenteval.errors import UsageError
from agenteval.sandbox.maker import outline, posed, rows

__all__ = ["load_setting", "prompts", "scenarios", "world", "write_new", "write_world"]

ROWS = 5  # of a table that are shown
MOST = 500  # tables that are shown
LONGEST_ROW = 160
_SQLITE = b"SQLite format 3\0"
_TEXTS = Path(__file__).parent / "skeleton_files"
_NAME = re.compile(r"[a-z0-9]+(?:[-_/][a-z0-9]+)*")


def scenarios(targets: Sequence[str]) -> tuple[Scenario, ...]:
    """By name or folder; all of them without any. Raises UsageError."""
    return load_scenarios(targets, roots=roots())


def prompts(name: str, seed: int, setting: Setting) -> Iterator[list[tuple[str, Prompt]]]:
    """Yield the prompts at the start of a trial with this seed, and their readers, by scenario.

    The first agent's prompt comes first, then one for each sub-agent that the model plays.
    """
    named_scenarios = scenarios([name])
    if setting.context:
        setting = workflows.earlier.filled_for([one.name for one in named_scenarios], setting)
    for scenario in named_scenarios:
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


def world(name: str, seed: int) -> Iterator[str]:
    """Yield lines on a trial's first state: files with their sizes, tables with some rows."""
    for scenario, files in _worlds(name, seed):
        yield f"{scenario.name}, seed {seed}: {len(files)} files"
        for path, content in sorted(files.items()):
            yield f"  {len(content):>8,}  {path}"
        for path, content in sorted(files.items()):
            if content.startswith(_SQLITE):
                yield f"{path}:"
                yield from tables(content)


def write_world(name: str, seed: int, folder: Path) -> Iterator[Path]:
    """Write the files of that task instance into a new folder, and yield their paths.

    Raises UsageError if the folder exists.
    """
    if folder.exists():
        raise UsageError(f"--out {folder}: is there already; name a new folder")
    try:
        for _, files in _worlds(name, seed):
            for path, content in files.items():
                place = folder / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
                yield place
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)  # it is new
        raise


def _worlds(name: str, seed: int) -> Iterator[tuple[Scenario, Mapping[str, bytes]]]:
    for scenario in scenarios([name]):
        yield scenario, fixtures.load_fixture(scenario, seed, roots=roots())


def tables(database: bytes) -> Iterator[str]:
    names = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
    (tables,) = rows(database, [names], MOST)
    for (table,) in tables.rows:
        quoted = '"{}"'.format(str(table).replace('"', '""'))
        queries = [f"SELECT * FROM {quoted}", f"SELECT count(*) FROM {quoted}"]  # noqa: S608 -- quoted
        sample, counted = rows(database, queries, ROWS)
        if sample.error:
            yield visible(f"  {table}: {sample.error}")
            continue
        yield visible(f"  {table}({', '.join(sample.names)}): {counted.first} rows")
        for row in sample.rows:
            yield visible(f"    {shortened(repr(row), LONGEST_ROW)}")


def write_new(name: str) -> list[Path]:
    """A small scenario that works, in the project's own folders. Raises UsageError."""
    here = working_folder()
    return write_skeleton(name, root=find_project(here).project or here)


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
    try:
        for path, text in texts.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            write_whole(root / path, text)
    except OSError:
        for path in texts:
            (root / path).unlink(missing_ok=True)
        raise
    return [root / path for path in texts]


def _texts(name: str) -> Mapping[Path, str]:
    flat = name.replace("/", "-")
    scenario = Path(scenario_files.FOLDER) / name
    fixture = Path(FIXTURES) / flat
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
