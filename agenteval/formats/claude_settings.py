"""Claude Code's permissions, from a settings.json."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agenteval.core.dialect_claude import ClaudeCode, ToolSpecifier
from agenteval.core.patterns import CommandPattern, PathRules
from agenteval.core.policy import Policy
from agenteval.core.policy_bash import BashRules
from agenteval.core.policy_tools import ToolRule
from agenteval.core.shell_leaves import Construct
from agenteval.errors import UsageError
from agenteval.formats.text import digest, json_with_comments

# Every tool exists there, allowed or not.
_TOOLS = (
    *("bash", "read", "write", "edit", "multiedit", "notebookedit", "glob", "grep", "ls", "task"),
    *("todowrite", "webfetch", "websearch", "exitplanmode", "skill"),
)
_PASSES = frozenset((Construct.PIPE, Construct.CHAIN, Construct.STDERR_REDIRECT))


def read(path: Path) -> Policy:
    """Raises UsageError with the file and the key when it is no such settings file."""
    content = json_with_comments(path, path.read_text(encoding="utf-8"))
    permissions = content.get("permissions")
    if not isinstance(permissions, Mapping):
        raise UsageError(f"{path}: permissions: expected a table, got {permissions!r}")
    allow, ask, deny = (_specifiers(path, permissions, key) for key in ("allow", "ask", "deny"))
    mode = str(permissions.get("defaultMode", "default"))
    engine = ClaudeCode(allow, ask, deny, mode)
    commands = [_pattern(rule.what) for rule in allow if rule.tool == "bash" and rule.what]
    everything = PathRules(("**",))
    return Policy(
        name=path.stem,
        digest=digest([engine.name, mode, *map(str, (allow, ask, deny))]),
        description=f"{engine.name} permissions of {path.name}",
        bash=BashRules((CommandPattern.parse(rule) for rule in commands), constructs=_PASSES),
        read=everything,
        write=everything,
        tools={name: ToolRule(name) for name in _TOOLS},
        engine=engine,
    )


def _specifiers(path: Path, permissions: Mapping[str, Any], key: str) -> tuple[ToolSpecifier, ...]:
    rules = permissions.get(key, [])
    if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
        raise UsageError(f"{path}: permissions.{key}: expected a list of rules, got {rules!r}")
    home = f"(/{Path.home()}/"
    return tuple(ToolSpecifier.parse(rule.replace("(~/", home, 1)) for rule in rules)


def _pattern(what: str) -> str:
    return what.removesuffix(":*") + " *" if what.endswith(":*") else what
