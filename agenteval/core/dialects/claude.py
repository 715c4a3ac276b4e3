"""Claude Code's permission rules: deny before ask before allow, and without a rule it asks.

Each part of a command between ; && || | |& & and newlines needs a rule of its own; timeout, time,
nice, nohup and stdbuf before it are looked through. Nobody is there to answer, so an ask is a
denial. Not followed: the harmless programs that Claude Code allows without any rule.

Where a rule allows a command, the files that it is redirected to need `Edit` as well, and those
that cat, head and tail are given need `Read` where they lie outside (anthropics/claude-code, issues
94742, 77972 and 89251; redirects are no part of what a rule matches since 1.0.123). Paths match as
in .gitignore, and only `Read` and `Edit` rules may hold one, since 2.1.210 (docs, "permissions").
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agenteval.core.call import BASH
from agenteval.core.dialects.claude_parts import Part, parts
from agenteval.core.dialects.paths import absolute, inside
from agenteval.core.policy.bash import MOVES
from agenteval.core.policy.patterns import path_regex, wildcard_regex
from agenteval.core.policy.tools import path_arguments
from agenteval.core.shell.gate import NotSimple, read_simple

_FAMILY = {"write": "edit", "multiedit": "edit", "notebookedit": "edit"} | dict.fromkeys(
    ("grep", "glob", "ls"), "read"
)
_LONGEST_PATH = 4096  # what Linux opens
_RENAMED = {"agent": "task", "killbash": "killshell"}
# What needs no rule at all inside the project (docs, "tools reference").
FREE = frozenset(
    (
        *("read", "todowrite", "task", "exitplanmode", "enterplanmode", "askuserquestion"),
        *("bashoutput", "killshell", "taskcreate", "taskget", "tasklist", "taskupdate"),
        *("taskoutput", "taskstop", "toolsearch", "sendmessage", "lsp", "listmcpresourcestool"),
        *("readmcpresourcetool", "enterworktree", "exitworktree", "notebookread"),
        *("croncreate", "crondelete", "cronlist"),
    )
)
_READERS = frozenset(("cat", "head", "tail"))
_ESCAPED = re.compile(r"\\([()\\])")
_HOST = re.compile(r"\w+://(?:[^/?#@]*@)?([^/?#:@]*)")


@dataclass(frozen=True, slots=True)
class ToolSpecifier:
    """One rule, as `Bash(git diff:*)`: a tool in lower case and what of it; "" means all of it.

    Brackets and backslashes of a command are written with a backslash before them.
    """

    tool: str
    what: str = ""

    def __str__(self) -> str:
        return f"{self.tool}({self.what})" if self.what else self.tool

    @classmethod
    def parse(cls, text: str) -> "ToolSpecifier":
        name, _, rest = text.strip().partition("(")
        tool, what = name.lower(), _ESCAPED.sub(r"\1", rest.removesuffix(")"))
        return cls(_RENAMED.get(tool, tool), "" if what in {"*", ":*"} else what)

    def names(self, tool: str) -> bool:
        """Whether it is about the tool; the name of an MCP server stands for all its tools."""
        pattern = wildcard_regex(self.tool)
        return pattern.fullmatch(tool) is not None or tool.startswith(f"{self.tool}__")


@dataclass(frozen=True, slots=True)
class ClaudeCode:
    """The rules of one settings.json; `mode` is its defaultMode, `folders` count as the project."""

    allow: tuple[ToolSpecifier, ...]
    ask: tuple[ToolSpecifier, ...] = ()
    deny: tuple[ToolSpecifier, ...] = ()
    mode: str = "default"
    folders: tuple[str, ...] = ()
    name: str = "claude-code"

    def knows(self, tool: str) -> bool:
        rules = (*self.allow, *self.ask, *self.deny)
        return tool in _RENAMED or (tool.startswith("mcp__") and any(r.names(tool) for r in rules))

    def allows(self, tool: str, arguments: Mapping[str, Any], root: str) -> bool:
        tool = _RENAMED.get(tool, tool)
        if tool == BASH:
            start = absolute(str(arguments.get("workdir") or root), root)  # its own bash knows none
            return start == root and self.allows_command(arguments["command"], root)
        if subject := _subject(tool, arguments):
            return self._decide(
                lambda rule: rule.tool == tool and _fits_subject(rule.what, subject),
                otherwise=tool in FREE,
            )
        if tool.startswith("mcp__"):
            return self._decide(lambda rule: rule.names(tool) and not rule.what, otherwise=False)
        paths = path_arguments(arguments) or (None,)
        return all(self._allows_path(tool, path, root) for path in paths)

    def allows_command(self, text: str, root: str) -> bool:
        found = parts(text)
        if found is None:
            return self._allows_any_command()
        moves = any(MOVES.intersection(part.bare.split(None, 2)[:2]) for part in found)
        return bool(found) and all(self._allows_part(part, root, moves=moves) for part in found)

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
            lambda rule: (
                rule.tool in ({family} if rule.what else {tool, family})
                and _fits_path(rule.what, whole, root)
            ),
            otherwise=self._is_free(family, whole, root),
        )

    def _allows_part(self, part: Part, root: str, *, moves: bool) -> bool:
        files = part.reads | part.writes
        if moves and not all(file.startswith("/") for file in files):
            return False  # a path that counts from somewhere else
        is_allowed = self._decide(
            lambda rule: (
                rule.tool == BASH
                and (_fits_command(rule.what, part.text) or _fits_command(rule.what, part.bare))
            ),
            otherwise=False,
        )
        return (
            is_allowed
            and all(self._allows_path("read", file, root) for file in part.reads | _read_by(part))
            and all(self._allows_path("edit", file, root) for file in part.writes)
        )

    def _decide(self, fits: Callable[[ToolSpecifier], bool], *, otherwise: bool) -> bool:
        if any(map(fits, self.deny)):
            return False
        if self.mode == "bypassPermissions":
            return True
        return not any(map(fits, self.ask)) and (any(map(fits, self.allow)) or otherwise)

    def _is_free(self, family: str, whole: str | None, root: str) -> bool:
        within = whole is None or any(
            inside(whole, absolute(folder, root)) is not None for folder in (root, *self.folders)
        )
        return within and (family in FREE or (family == "edit" and self.mode == "acceptEdits"))


def _read_by(part: Part) -> frozenset[str]:
    """The files that a command is known to read; none where bash still works its words out."""
    read = read_simple(part.bare)
    if isinstance(read, NotSimple) or read.argv[0] not in _READERS:
        return frozenset()
    return frozenset(word for word in read.argv[1:] if word and not word.startswith("-"))


def _subject(tool: str, arguments: Mapping[str, Any]) -> str:
    """What a rule for a tool that takes no path is about; "" for any other tool."""
    if tool == "webfetch":
        host = _HOST.match(str(arguments.get("url", "")))
        return f"domain:{host[1].lower() if host else ''}"
    if tool in {"task", "skill"}:
        return str(arguments.get("subagent_type" if tool == "task" else "skill") or "*")
    return ""


def _fits_subject(what: str, subject: str) -> bool:
    """A rule for a skill may end in `:*`, for whatever it is given; that is not known here."""
    return not what or wildcard_regex(what.removesuffix(":*")).fullmatch(subject) is not None


def _fits_command(what: str, part: str) -> bool:
    """`:*` at the end is ` *`, which the bare command matches too; `*` stands for anything."""
    if what.endswith(":*"):
        what = what.removesuffix(":*") + " *"
    bare = what.removesuffix(" *")
    patterns = (what or "*",) if bare == what else (what, bare)
    return any(wildcard_regex(pattern).fullmatch(part) for pattern in patterns)


def _fits_path(what: str, whole: str | None, root: str) -> bool:
    """As .gitignore matches: // is absolute, a pattern without a folder fits at any depth.

    Whatever lies in a folder that fits does so too.
    """
    if not what:
        return True
    if whole is None:
        return what in {"*", "**"}
    if what.startswith("//"):
        subject, pattern = inside(whole, "/"), what[2:]
    else:
        subject, pattern = inside(whole, root), what.removeprefix("./").removeprefix("/")
        if "/" not in what.rstrip("/"):
            pattern = f"**/{pattern}"
    folder = pattern.rstrip("/").removesuffix("/**") or "**"
    return subject is not None and any(
        path_regex(glob).fullmatch(subject) for glob in (folder, f"{folder}/**")
    )
