"""Claude Code's permission rules: deny before ask before allow, and without a rule it asks.

Each part of a command between ; && || | |& & and newlines needs a rule of its own; timeout, time,
nice, nohup and stdbuf before it are looked through. Nobody is there to answer, so an ask is a
denial. Not followed: the harmless programs that Claude Code allows without any rule.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agenteval.core.call import BASH
from agenteval.core.dialect_claude_parts import parts
from agenteval.core.dialect_paths import absolute, inside
from agenteval.core.patterns import path_regex, wildcard_regex
from agenteval.core.policy_tools import path_arguments

_FAMILY = {"write": "edit", "multiedit": "edit", "notebookedit": "edit"} | dict.fromkeys(
    ("grep", "glob", "ls"), "read"
)
_LONGEST_PATH = 4096  # what Linux opens
# What needs no rule at all inside the project.
_FREE = frozenset(("read", "todowrite", "task", "exitplanmode"))


@dataclass(frozen=True, slots=True)
class ToolSpecifier:
    """One rule, as `Bash(git diff:*)`: a tool in lower case and what of it; "" means all of it."""

    tool: str
    what: str = ""

    @classmethod
    def parse(cls, text: str) -> "ToolSpecifier":
        name, _, rest = text.strip().partition("(")
        return cls(name.lower(), rest.removesuffix(")"))


@dataclass(frozen=True, slots=True)
class ClaudeCode:
    """The rules of one settings.json; `mode` is its defaultMode."""

    allow: tuple[ToolSpecifier, ...]
    ask: tuple[ToolSpecifier, ...] = ()
    deny: tuple[ToolSpecifier, ...] = ()
    mode: str = "default"
    name: str = "claude-code"

    def allows(self, tool: str, arguments: Mapping[str, Any], root: str) -> bool:
        if tool == BASH:
            return self.allows_command(arguments["command"])
        paths = path_arguments(arguments) or (None,)
        return all(self._allows_path(tool, path, root) for path in paths)

    def allows_command(self, text: str) -> bool:
        found = parts(text)
        if found is None:
            return self._allows_any_command()
        return bool(found) and all(map(self._allows_part, found))

    def _allows_any_command(self) -> bool:
        """Whether no rule looks at what a command says."""
        bash = [rule.tool == BASH and not rule.what for rule in self.allow]
        strict = any(rule.tool == BASH for rule in (*self.deny, *self.ask))
        return not strict and (self.mode == "bypassPermissions" or any(bash))

    def _allows_path(self, tool: str, path: str | None, root: str) -> bool:
        if path is not None and (path.startswith("~") or len(path) > _LONGEST_PATH):
            return False  # whose home it is can't be known here
        family = _FAMILY.get(tool, tool)
        whole = None if path is None else absolute(path, root)
        return self._decide(
            lambda rule: rule.tool in {tool, family} and _fits_path(rule.what, whole, root),
            otherwise=self._is_free(family, whole, root),
        )

    def _allows_part(self, part: str) -> bool:
        return self._decide(
            lambda rule: rule.tool == BASH and _fits_command(rule.what, part), otherwise=False
        )

    def _decide(self, fits: Callable[[ToolSpecifier], bool], *, otherwise: bool) -> bool:
        if any(map(fits, self.deny)):
            return False
        if self.mode == "bypassPermissions":
            return True
        return not any(map(fits, self.ask)) and (any(map(fits, self.allow)) or otherwise)

    def _is_free(self, family: str, whole: str | None, root: str) -> bool:
        within = whole is None or inside(whole, root) is not None
        return within and (family in _FREE or (family == "edit" and self.mode == "acceptEdits"))


def _fits_command(what: str, part: str) -> bool:
    """`:*` at the end is ` *`, which the bare command matches too; `*` stands for anything."""
    if what.endswith(":*"):
        what = what.removesuffix(":*") + " *"
    bare = what.removesuffix(" *")
    patterns = (what or "*",) if bare == what else (what, bare)
    return any(wildcard_regex(pattern).fullmatch(part) for pattern in patterns)


def _fits_path(what: str, whole: str | None, root: str) -> bool:
    """As .gitignore matches: // is absolute, a pattern without a folder fits at any depth."""
    if not what:
        return True
    if whole is None:
        return what in {"*", "**"}
    if what.startswith("//"):
        return path_regex(what[1:]).fullmatch(whole) is not None
    pattern = what.removeprefix("./").removeprefix("/")
    if "/" not in what.rstrip("/"):
        pattern = f"**/{pattern}"
    within = inside(whole, root)
    return within is not None and path_regex(pattern).fullmatch(within) is not None
