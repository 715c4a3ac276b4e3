"""The files a trial starts with."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from agenteval.config.beneath import tree
from agenteval.config.project_files import FIXTURES, is_folder, note_hidden, shipped
from agenteval.core.policy.policy import Policy
from agenteval.core.scenario import Scenario
from agenteval.errors import UsageError
from agenteval.sandbox.maker import WorldError, database

WORLD = "world.sql"
FILES = "files"


def load_fixture(scenario: Scenario, seed: int, *, roots: Sequence[Path]) -> Mapping[str, bytes]:
    """Relative path to content: fixtures/NAME/files, and the database that world.sql makes.

    `roots` are the folders to look in, as `config.roots.roots` gives them. The same seed gives the
    same bytes. Raises UsageError.
    """
    folder, root = _folder(scenario, roots)
    content = dict(_files(folder / FILES, root))
    if scenario.world:
        try:
            content[scenario.database] = database(scenario, seed)
        except WorldError as error:
            raise UsageError(f"{folder / WORLD}: {error}. Mend the script") from error
    if scenario.database not in content:
        raise UsageError(
            f"{folder}: scenario {scenario.name!r} is judged on {scenario.database!r}, which the "
            f"fixture does not hold. Add {WORLD} or that file"
        )
    return content


def check_scripts(policy: Policy, where: Path, scenario: Scenario, files: Collection[str]) -> None:
    """Raises UsageError when a rule of the policy, read from `where`, is for no file of these."""
    tables = {script.path for script in policy.bash.scripts}
    for script in policy.bash.listed:
        if script not in files:
            key = "script" if script in tables else "allow"
            raise UsageError(
                f"{where}: bash.{key}: a rule is for {script}, and the fixture "
                f"{scenario.fixture!r} of scenario {scenario.name!r} has no such file. Add it to "
                f"{FIXTURES}/{scenario.fixture}/{FILES}/, mend the path, or take the rule out"
            )


def _folder(scenario: Scenario, roots: Sequence[Path]) -> tuple[Path, Path]:
    """The fixture's folder, and the root that it lies in."""
    for root in roots:
        folder = root / FIXTURES / scenario.fixture
        if is_folder(folder / FILES):
            _note_hidden(scenario.fixture, folder)
            return folder, root
    fixture_names = sorted(
        {folder.parent.name for root in roots for folder in (root / FIXTURES).glob(f"*/{FILES}")}
    )
    places = " or ".join(f"{root / FIXTURES}/" for root in roots)
    raise UsageError(
        f"scenario {scenario.name!r}: no fixture {scenario.fixture!r} (a folder with {FILES}/) in "
        f"{places}. Known: {', '.join(fixture_names) or 'none'}"
    )


_READ: dict[Path, Mapping[str, bytes]] = {}
_KEPT = 64 << 20  # bytes of fixtures that are read once for all trials


def _files(folder: Path, root: Path) -> Mapping[str, bytes]:
    if folder not in _READ:
        try:
            _READ[folder] = tree(folder, root)
        except OSError as error:
            raise UsageError(f"{error.filename or folder}: cannot be read ({error})") from error
    files = _READ[folder]
    while sum(len(content) for one in _READ.values() for content in one.values()) > _KEPT:
        del _READ[next(iter(_READ))]
    return files


def find_world(fixture: str, roots: Sequence[Path]) -> tuple[Path | None, Path]:
    """The script that makes the fixture's database, and the root that it lies in.

    None when the fixture brings a database as a file.
    """
    places = ((root / FIXTURES / fixture / WORLD, root) for root in roots)
    for path, root in places:
        if os.path.lexists(path):
            _note_hidden(fixture, path.parent)
            return path, root
    return None, roots[0]


def _note_hidden(name: str, folder: Path) -> None:
    note_hidden("fixture", name, folder, shipped() / FIXTURES / name)
