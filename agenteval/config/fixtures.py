"""The files a trial starts with."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path

import jinja2

from agenteval.core.prompt import fill, variables
from agenteval.core.scenario import Scenario
from agenteval.errors import UsageError

FIXTURES = "fixtures"
WORLD = "world.sql"
FILES = "files"


def load_fixture(scenario: Scenario, seed: int, *, roots: Sequence[Path]) -> Mapping[str, bytes]:
    """Relative path to content: fixtures/NAME/files, and the database that world.sql makes.

    `roots` are the folders to look in, as `config.paths.roots` gives them. world.sql is a template
    over the variables of the seed's variant, so the same seed gives the same bytes. Raises
    UsageError.
    """
    folder = _folder(scenario, roots)
    content = dict(_files(folder / FILES))
    world = folder / WORLD
    if world.is_file():
        content[scenario.database] = _database(world, scenario, seed)
    if scenario.database not in content:
        raise UsageError(
            f"{folder}: scenario {scenario.name!r} is judged on {scenario.database!r}, which the "
            f"fixture does not hold. Add {WORLD} or that file"
        )
    return content


def _folder(scenario: Scenario, roots: Sequence[Path]) -> Path:
    for root in roots:
        folder = root / FIXTURES / scenario.fixture
        if (folder / FILES).is_dir():
            return folder
    known = sorted(
        {folder.parent.name for root in roots for folder in (root / FIXTURES).glob(f"*/{FILES}")}
    )
    places = " or ".join(f"{root / FIXTURES}/" for root in roots)
    raise UsageError(
        f"scenario {scenario.name!r}: no fixture {scenario.fixture!r} (a folder with {FILES}/) in "
        f"{places}. Known: {', '.join(known) or 'none'}"
    )


@lru_cache(maxsize=64)
def _files(folder: Path) -> Mapping[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def _database(world: Path, scenario: Scenario, seed: int) -> bytes:
    try:
        script = fill(world.read_text(encoding="utf-8"), variables(scenario, seed))
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.executescript(script)
            return connection.serialize()
    except (jinja2.TemplateError, sqlite3.Error, UnicodeDecodeError) as error:
        raise UsageError(f"{world}: makes no database: {error}. Mend the script") from error
