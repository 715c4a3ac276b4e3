"""What all ask when they need to know which harnesses there are."""

import ast
from pathlib import Path

import pytest

from agenteval import dialects
from agenteval.config.prompts import load_setting
from agenteval.dialects import registry
from agenteval.errors import UsageError
from agenteval.policy.policy import Policy
from agenteval.workflows.reference import _written_for, targets

PACKAGE = Path(dialects.__file__).parents[1]


def test_each_folder_is_a_dialect_of_its_name() -> None:
    found = registry.dialects()
    assert [*found] == [*dialects.NAMES] == ["claude-code", "codex", "opencode"]
    assert [each.name for each in found.values()] == [*found]
    assert [each.profile.name for each in found.values()] == [*found]


@pytest.mark.slow
@pytest.mark.parametrize("name", dialects.NAMES)
def test_only_its_own_folder_knows_a_dialect(name: str) -> None:
    module = f"agenteval.dialects.{name.replace('-', '_')}"
    own = Path(dialects.__file__).parent / name.replace("-", "_")
    importers = [
        path
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(module)
    ]
    assert [path for path in importers if own not in path.parents] == []


def test_the_engine_of_what_a_dialect_reads_has_the_name_of_the_reader(tmp_path: Path) -> None:
    for dialect in registry.dialects().values():
        for name, read in dialect.readers.items():
            path = tmp_path / f"x{dialect.suffix or '.json'}"
            path.write_text("---\n---\n" if dialect.suffix == ".md" else "{}")
            policy = read(path)
            assert policy.engine is not None
            assert policy.engine.name == name
            assert registry.dialect_of(policy) is dialect


def test_our_own_lists_are_of_no_dialect() -> None:
    assert registry.dialect_of(Policy("ours")) is None
    assert list(registry.left_behind(Policy("ours"))) == []


def test_who_is_asked_for_and_unknown_is_told_who_is_known() -> None:
    assert targets() == ("claude-code", "codex", "opencode", "toml")
    with pytest.raises(UsageError, match="Known: claude-code, codex, opencode, toml"):
        _written_for(Policy("ours"), "aider")
    with pytest.raises(UsageError, match="Known: strict, taught/shell, taught/tools, claude-code"):
        load_setting("aider", "five", "start", "0")
