"""Files that Claude Code's rules open or leave closed, and commands that need care.

`Edit(path)` speaks for every tool that writes, and what `Read(path)` denies nobody may write
either; a rule without a path is about the tool of that name only.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agenteval.core.policy.patterns import absolute, expanded, inside
from agenteval.dialects.claude_code.engine.paths import touched
from agenteval.dialects.claude_code.engine.rules import ToolSpecifier, fits_path
from agenteval.dialects.claude_code.engine.word_reader import Command, FileRedirect, Word

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
# They run their words as shell text, start what can't be told, or change how bash reads.
_NEVER = frozenset(
    (
        *("eval", "exec", "source", ".", "trap", "coproc", "let", "alias", "hash", "watch"),
        *("script", "setsid", "ionice", "chrt", "taskset", "flock", "strace", "nsenter"),
        *("unshare", "shopt", "enable", "zmodload", "emulate", "select"),
    )
)
_FIND = frozenset(
    (
        *("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf"),
        *("-fls", "-files0-from"),
    )
)
_AWK_PROGRAM = re.compile(
    r"\bsystem\s*\(|\|\s*(?:getline|\"|&)|@(?:load|include)|\"\s*\|\s*getline"
)
_AWK_OPTION = re.compile(r"-(?![Fv])\S+")
_JQ_OPTION = re.compile(r"-[a-zA-Z]*[fL]\S*|--(?:from-file|library-path|slurpfile|rawfile)")
_JQ_PROGRAM = re.compile(r"\bsystem\s*\(|\b(?:include|import)\s+\"")
_NAME = re.compile(r"[A-Za-z_]\w*(?:=.*)?", re.DOTALL)
_REMOVERS = frozenset(("rm", "rmdir"))
_TOP = re.compile(r"/+[^/]*/*(?:\*)?|/\.")


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
        """Return True if a command may name a path that is not closed.

        A path that it writes holds no pattern.
        """
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
        """Return True if not even a rule for all commands opens it."""
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


def is_guarded(command: Command) -> bool:
    """Return True if only a rule for its very text, or for all commands, lets it pass."""
    name, *words = command.words
    if name.globs or not name.text or name.text in _NEVER:
        return True
    guard = _GUARDS.get(name.text)
    return guard is not None and guard(words)


def _any_word(words: Sequence[Word]) -> bool:
    return bool(words)


def _any_option(words: Sequence[Word]) -> bool:
    return any(word.text.startswith("-") for word in words)


def _first_option(words: Sequence[Word]) -> bool:
    return _any_option(words[:1])


def _find(words: Sequence[Word]) -> bool:
    return any(word.globs or word.text in _FIND for word in words)


def _awk(words: Sequence[Word]) -> bool:
    return any(
        word.globs or _AWK_PROGRAM.search(word.text) or _AWK_OPTION.fullmatch(word.text)
        for word in words
    )


def _jq(words: Sequence[Word]) -> bool:
    return any(_JQ_OPTION.fullmatch(word.text) or _JQ_PROGRAM.search(word.text) for word in words)


def _declare(words: Sequence[Word]) -> bool:
    return not all(_NAME.fullmatch(word.text) or word.text.startswith("-") for word in words)


_GUARDS = {
    "find": _find,
    "jq": _jq,
    "command": _first_option,
    **dict.fromkeys(("timeout", "time", "nice", "nohup"), _any_word),  # nothing was unwrapped
    **dict.fromkeys(("mv", "cp"), _any_option),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
    **dict.fromkeys(("declare", "typeset", "local", "export", "readonly", "unset"), _declare),
}


def removes_too_much(command: Command, wholes: list[str], files: FileRules) -> bool:
    """Return True if it removes the project, what holds it, a top folder or a home."""
    if not command.words or command.argv[0] not in _REMOVERS:
        return False
    return any(
        _TOP.fullmatch(whole)
        or (folder := whole.removesuffix("/*").rstrip("/") or "/") == files.home
        or f"{files.root}/".startswith(f"{folder}/")
        for whole in wholes
    )


def keeps_its_place(commands: tuple[Command, ...], files: FileRules) -> bool:
    """Return True if no command is about another folder than the one that it seems to be about."""
    moves = [command for command in commands if command.argv[:1] == ("cd",)]
    if not moves:
        return True
    folders = [word for move in moves for word in touched(move).words]
    if len(moves) > 1 or len(folders) > 1:
        return False
    return files.whole(folders[0]) == files.root or not any(
        touched(command).writes
        or command.argv[:1] == ("git",)
        or any(
            redirect.writes and redirect.target.text != _NOWHERE for redirect in command.redirects
        )
        for command in commands
    )
