"""Which files Claude Code's rules open: to its file tools, and to the commands of a text.

`Edit(path)` speaks for every tool that writes, and what `Read(path)` denies nobody may write
either; a rule without a path is about the tool of that name only.
"""

import re
from dataclasses import dataclass

from agenteval.core.dialects.claude.rules import ToolSpecifier, fits_path
from agenteval.core.dialects.claude.words import FileRedirect, Word
from agenteval.core.dialects.paths import absolute, expanded, inside

FAMILY = {"write": "edit", "multiedit": "edit", "notebookedit": "edit"} | dict.fromkeys(
    ("grep", "glob", "ls"), "read"
)
_LONGEST_PATH = 4096  # what Linux opens
# What it asks about before it writes there, whatever the rules say.
_SENSITIVE = re.compile(
    r"(?:.*/)?(?:\.(?:git|vscode|idea|husky|claude)(?:/.*)?|\.mcp\.json|\.git(?:modules|config)"
    r"|\.(?:bashrc|bash_profile|zshrc|zprofile|profile|ripgreprc|npmrc))",
    re.DOTALL,
)
_EXPANDING = re.compile(r"=|~[^/]|.*[$`]", re.DOTALL)
_CLIMBS = re.compile(r"(?:^|/)(?!\.\.?(?:/|$))[^/]+/+(?:\./+)*\.\.(?:/|$)")
_GLOB = re.compile(r"[*?\[]")
_NOWHERE = "/dev/null"


@dataclass(frozen=True, slots=True)
class FileRules:
    """The rules of one settings.json as far as they are about files of the project at `root`."""

    allow: tuple[ToolSpecifier, ...]
    ask: tuple[ToolSpecifier, ...]
    deny: tuple[ToolSpecifier, ...]
    mode: str
    folders: tuple[str, ...]
    home: str
    root: str

    def allows_tool(self, tool: str, path: str | None) -> bool:
        """The verdict on a file tool; without a path it is about all files."""
        if path is not None and (path.startswith("~") or len(path) > _LONGEST_PATH):
            return False  # whose home it is can't be known here
        family = FAMILY.get(tool, tool)
        whole = None if path is None else absolute(path, self.root)

        def fits(rule: ToolSpecifier, *, denies: bool = True) -> bool:
            name = family if rule.what else tool
            return rule.tool == name and fits_path(rule.what, whole, self.root, denies=denies)

        def hides(rule: ToolSpecifier) -> bool:
            return rule.tool == "read" and fits_path(rule.what, whole, self.root, denies=True)

        if any(fits(rule) or hides(rule) for rule in self.deny):
            return False
        if self.mode == "bypassPermissions":
            return True
        if self.mode == "plan" or (family == "edit" and whole and _SENSITIVE.fullmatch(whole)):
            return family == "read"
        within = whole is None or self._is_within(whole)
        is_free = within and (family == "read" or self.mode == "acceptEdits")
        return not any(map(fits, self.ask)) and (
            is_free or any(fits(rule, denies=False) for rule in self.allow)
        )

    def admits(self, word: Word, *, writes: bool) -> bool:
        """Whether a command may name a path that is not closed; one to write holds no pattern."""
        text = expanded(word.text, self.home)
        if _EXPANDING.match(text) or _CLIMBS.search(text) or text.startswith("//"):
            return False
        if writes and any(mark in text for mark in "*?[{}"):
            return False
        if (globbed := _GLOB.search(text)) and "/" in text:
            text = text[: text.rfind("/", 0, globbed.start()) + 1] or "."
        whole = absolute(text, self.root)
        return self._is_within(whole) or self._is_opened(whole, writes=writes)

    def admits_redirect(self, redirect: FileRedirect) -> bool:
        target = redirect.target
        if not redirect.writes:
            return self.admits(target, writes=False)
        if target.text == _NOWHERE:
            return True
        whole = absolute(target.text, self.root)
        if target.globs or target.raw.startswith("~") or _EXPANDING.match(target.text):
            return False
        is_free = self.mode == "acceptEdits" and self._is_within(whole)
        return is_free or self._is_opened(whole, writes=True)

    def whole(self, word: Word) -> str:
        return absolute(expanded(word.text, self.home), self.root)

    def is_closed(self, whole: str, *, writes: bool) -> bool:
        """Whether not even a rule for all commands opens it."""
        is_denied = self._is_denied(whole, "edit" if writes else "read")
        is_guarded = writes and whole != _NOWHERE and _SENSITIVE.fullmatch(whole) is not None
        return is_denied or is_guarded

    def _is_denied(self, whole: str, name: str) -> bool:
        return any(
            rule.what and rule.tool == name and fits_path(rule.what, whole, self.root, denies=True)
            for rule in self.deny
        )

    def _is_opened(self, whole: str, *, writes: bool) -> bool:
        name = "edit" if writes else "read"
        return any(
            rule.what and rule.tool == name and fits_path(rule.what, whole, self.root, denies=False)
            for rule in self.allow
        )

    def _is_within(self, whole: str) -> bool:
        return any(
            inside(whole, absolute(folder, self.root)) is not None
            for folder in (self.root, *self.folders)
        )
