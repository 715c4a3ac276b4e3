"""What OpenCode makes of a list written for it, where that is said to be lost."""

from pathlib import Path

import pytest

from agenteval.config.allowlists import load_any, load_policy
from agenteval.policy.policy import World, allows
from agenteval.trial.call import ToolCall
from agenteval.workflows.reference import _written_for

WORLD = World(root="/home/me/project")
LIST = """
[bash]
allow = ["git status", "ls *.md", "find ?x *"]
[read]
allow = ["docs/*.md", "src/**/main.py", "all/**"]
[write]
allow = ["notes/**"]
deny = ["**/*.key"]
"""


@pytest.mark.parametrize(
    ("tool", "argument", "here", "there", "lost"),
    [
        ("bash", "git status", True, True, ""),
        ("bash", "git push", False, False, ""),
        ("bash", "'git' status", True, False, "that quotes and blanks do not matter"),
        ("bash", "git  status", True, False, "that quotes and blanks do not matter"),
        ("bash", "X=1", False, True, "that X=1, [[ x ]] and cd need a rule"),
        ("bash", "[[ -f x ]]", False, True, "that X=1, [[ x ]] and cd need a rule"),
        ("bash", "cd docs", False, True, "that X=1, [[ x ]] and cd need a rule"),
        ("bash", "cd ..", False, False, ""),
        ("bash", "ls a.md", True, True, ""),
        ("bash", "ls a b.md", False, True, "ls *.md: that a * stands for a part of one word"),
        ("bash", "find ax", False, True, "find ?x *: that a ? stands for itself"),
        ("read", "docs/a.md", True, True, ""),
        ("read", "docs/a/b.md", False, True, "read: docs/*.md: that only ** crosses folders"),
        ("read", "src/a/main.py", True, True, ""),
        ("read", "src/amain.py", False, True, "read: src/**/main.py: that only ** crosses folders"),
        ("read", "all/a/b", True, True, ""),
        ("write", "notes/a/b", True, True, ""),
        ("write", "notes/a.key", False, False, ""),
    ],
)
def test_a_verdict_that_changes_is_said_to_be_lost(
    tmp_path: Path, tool: str, argument: str, *, here: bool, there: bool, lost: str
) -> None:
    (tmp_path / "a.toml").write_text(LIST)
    policy = load_policy(str(tmp_path / "a.toml"), roots=[])
    written = _written_for(policy, "opencode")
    (tmp_path / "a.json").write_text(written.text)
    theirs = load_any(f"opencode:{tmp_path / 'a.json'}", roots=[])
    given = {"command" if tool == "bash" else "filePath": argument, "content": "x"}
    call = ToolCall("", tool, "", given)
    found = [allows(call, each, WORLD) for each in (policy, theirs)]
    said = any(line.startswith(lost) for line in written.lost) if lost else True
    assert (found, said) == ([here, there], True)
