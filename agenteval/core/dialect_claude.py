"""Claude Code's permission rules: deny before ask before allow, and without a rule it asks.

Each part of a command between ; && || | |& & and newlines needs a rule of its own; timeout, time,
nice, nohup and stdbuf before it are looked through. Nobody is there to answer, so an ask is a
denial. Not followed: the harmless programs that Claude Code allows without any rule.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agenteval.core.call import BASH
from agenteval.core.patterns import path_regex, wildcard_regex
from agenteval.core.policy_tools import path_argument

_TOKEN = re.compile(
    r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|&&|\|\||\|&|[0-9]?>&[0-9-]?|&>|[;|&\n]""", re.DOTALL
)
_JOINTS = frozenset(("&&", "||", "|&", ";", "|", "&", "\n"))
_WRAPPER = re.compile(
    r"(?:timeout(?:\s+-\S+)*\s+[\d.]+[smhd]?|time(?:\s+-p)?|nice(?:\s+-n\s*-?\d+)?|nohup"
    r"|stdbuf(?:\s+-\S+)+)\s+"
)
_FAMILY = {"write": "edit", "multiedit": "edit", "notebookedit": "edit"} | dict.fromkeys(
    ("grep", "glob", "ls"), "read"
)
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
        family = _FAMILY.get(tool, tool)
        path = path_argument(arguments)
        return self._decide(
            lambda rule: rule.tool in {tool, family} and _fits_path(rule.what, path, root),
            otherwise=self._is_free(family, path, root),
        )

    def allows_command(self, text: str) -> bool:
        if "$(" in _without_quoted(text) or "`" in _without_quoted(text):
            return False
        parts = list(_parts(text))
        return bool(parts) and all(self._allows_part(part) for part in parts)

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

    def _is_free(self, family: str, path: str | None, root: str) -> bool:
        inside = path is None or _relative(path, root) is not None
        return inside and (family in _FREE or (family == "edit" and self.mode == "acceptEdits"))


def _parts(text: str) -> Iterator[str]:
    """The commands between operators outside quotes, without what only wraps them."""
    at = 0
    for token in _TOKEN.finditer(text):
        if token[0] in _JOINTS:
            yield from _unwrapped(text[at : token.start()])
            at = token.end()
    yield from _unwrapped(text[at:])


def _unwrapped(part: str) -> Iterator[str]:
    part = part.strip()
    while wrapper := _WRAPPER.match(part):
        part = part[wrapper.end() :]
    if part:
        yield part


def _without_quoted(text: str) -> str:
    return re.sub(r"'[^']*'|\\.", "", text, flags=re.DOTALL)


def _fits_command(what: str, part: str) -> bool:
    """`:*` at the end is ` *`, which the bare command matches too; `*` stands for anything."""
    if what.endswith(":*"):
        what = what.removesuffix(":*") + " *"
    bare = what.removesuffix(" *")
    patterns = (what or "*",) if bare == what else (what, bare)
    return any(wildcard_regex(pattern).fullmatch(part) for pattern in patterns)


def _fits_path(what: str, path: str | None, root: str) -> bool:
    """As .gitignore matches: // is absolute, a pattern without a folder fits at any depth."""
    if not what:
        return True
    if path is None:
        return what in {"*", "**"}
    whole = posixpath.normpath(posixpath.join(root, path))
    if what.startswith("//"):
        return path_regex(what[1:]).fullmatch(whole) is not None
    inside = _relative(path, root)
    pattern = what.removeprefix("./").removeprefix("/")
    if "/" not in pattern.rstrip("/*"):
        pattern = f"**/{pattern}"
    return inside is not None and path_regex(pattern).fullmatch(inside) is not None


def _relative(path: str, root: str) -> str | None:
    whole = posixpath.normpath(posixpath.join(root, path))
    inside = posixpath.relpath(whole, root)
    return None if inside.startswith("..") else inside
