"""Claude Code's permission rules, giving the verdicts that Claude Code itself gives.

Deny before ask before allow, and without a rule it asks. Nobody is there to answer, so an ask is a
denial. `ClaudeCode` decides; `_FileRules` says which files are open or closed, `_is_guarded` which
commands need care. `Edit(path)` speaks for every tool that writes, and what `Read(path)` denies
nobody may write either; a rule without a path is about the tool of that name only. Seen by running
2.1.330 (docs/dialects.md says what was left out).
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from agenteval.dialects.claude_code.free import is_free
from agenteval.dialects.claude_code.reading import Command, FileRedirect, Reading, Word, Words, read
from agenteval.dialects.claude_code.rules import (
    COPIERS,
    PROGRAMS,
    RENAMED,
    WRITERS,
    ToolSpecifier,
    allows_command,
    denied_texts,
    fits_path,
    fits_subject,
    forms,
    is_wrapped_too_often,
    replaces_in_place,
    touched,
    unwrapped,
)
from agenteval.policy.command_lines import absolute, expanded, inside
from agenteval.policy.policy import Arguments, path_arguments
from agenteval.shell.gate import unreadable_text
from agenteval.trial.call import BASH

# The tool whose rules for paths speak for a tool.
FAMILY = {
    "write": "edit",
    "multiedit": "edit",
    "notebookedit": "edit",
    "grep": "read",
    "glob": "read",
    "ls": "read",
}
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
_AWK_PROGRAM = re.compile(
    r"\bsystem\s*\(|\|\s*(?:getline|\"|&)|@(?:load|include)|\"\s*\|\s*getline"
)
_AWK_OPTION = re.compile(r"-(?![Fv])\S+")
_JQ_OPTION = re.compile(r"-[a-zA-Z]*[fL]\S*|--(?:from-file|library-path|slurpfile|rawfile)")
_JQ_PROGRAM = re.compile(r"\bsystem\s*\(|\b(?:include|import)\s+\"")
_NAME = re.compile(r"[A-Za-z_]\w*(?:=.*)?", re.DOTALL)
# Where nobody knows it, it is outside.
_NO_HOME = "/~"
# Characters of a command that it reads.
_LONGEST = 10_000
_EDITING = (WRITERS - {"tee"}) | {"sed"}
FREE = PROGRAMS["free_tools"]
_FILE_TOOLS = frozenset((*FAMILY, *FAMILY.values()))
# What some shell takes for a path elsewhere.
_EXPANDED = re.compile(r"~[^/]|=")
_IN_PLACE = re.compile(r"-[a-zA-Z]*i|--in-place")
_DEVICE = re.compile(r"/dev/(?!null\Z)")
_HOST = re.compile(r"\w+://(?:[^/?#@]*@)?([^/?#:@]*)")
# Runs its command in the shell, under the rules for Bash.
_MONITOR = "monitor"
# The argument by which a command asks to leave the sandbox.
_LEAVES = "dangerouslyDisableSandbox"
_TOP = re.compile(r"/+[^/]*/*(?:\*)?|/\.")


@dataclass(frozen=True, slots=True)
class _FileRules:
    """The rules of one settings.json as far as they are about files of the project at `root`."""

    rules: "ClaudeCode"
    root: str

    def allows_tool(self, tool: str, path: str | None) -> bool:
        """Return the verdict on a file tool; without a path it is about all files."""
        if path is not None and (path.startswith("~") or len(path) > _LONGEST_PATH):
            # Whose home it is can't be known here.
            return False
        rules, family = self.rules, FAMILY.get(tool, tool)
        whole = None if path is None else absolute(path, self.root)

        def fits(rule: ToolSpecifier, *, denies: bool = True) -> bool:
            name = family if rule.what else tool
            return rule.tool == name and fits_path(rule.what, whole, self.root, denies=denies)

        def hides(rule: ToolSpecifier) -> bool:
            return rule.tool == "read" and fits_path(rule.what, whole, self.root, denies=True)

        is_denied = any(fits(rule) or hides(rule) for rule in rules.deny)
        if is_denied:
            return False
        if rules.mode == "bypassPermissions":
            return True
        is_sensitive = whole is not None and _SENSITIVE.fullmatch(whole) is not None
        if rules.mode == "plan" or (family == "edit" and is_sensitive):
            return family == "read"
        if any(map(fits, rules.ask)):
            return False
        is_free = family == "read" or rules.mode == "acceptEdits"
        is_within = whole is None or self._is_within(whole)
        return (is_free and is_within) or any(fits(rule, denies=False) for rule in rules.allow)

    def admits(self, word: Word, *, writes: bool) -> bool:
        """Return True if a command may name a path that is not closed.

        A path that it writes holds no pattern.
        """
        text = expanded(word.text, self.rules.own_home)
        is_unclear = _EXPANDING.match(text) or _CLIMBS.search(text)
        if is_unclear or text.startswith("//"):
            return False
        if writes and any(mark in text for mark in "*?[{}"):
            return False
        pattern = _GLOB.search(text)
        if pattern and "/" in text:
            # Whatever it fits lies in the folder before it.
            end = text.rfind("/", 0, pattern.start()) + 1
            text = text[:end] or "."
        whole = absolute(text, self.root)
        return self._is_within(whole) or self._is_opened(whole, writes=writes)

    def admits_redirect(self, redirect: FileRedirect) -> bool:
        target = redirect.target
        if not redirect.writes:
            return self.admits(target, writes=False)
        if target.text == _NOWHERE:
            return True
        whole = absolute(target.text, self.root)
        is_home = target.raw.startswith("~")
        if target.globs or is_home or _EXPANDING.match(target.text):
            return False
        is_free = self.rules.mode == "acceptEdits" and self._is_within(whole)
        return is_free or self._is_opened(whole, writes=True)

    def whole(self, word: Word) -> str:
        return absolute(expanded(word.text, self.rules.own_home), self.root)

    def is_closed(self, whole: str, *, writes: bool) -> bool:
        """Return True if not even a rule for all commands opens it."""
        if writes and whole != _NOWHERE and _SENSITIVE.fullmatch(whole):
            return True
        return self._fits_any(self.rules.deny, whole, writes=writes, denies=True)

    def _is_opened(self, whole: str, *, writes: bool) -> bool:
        return self._fits_any(self.rules.allow, whole, writes=writes, denies=False)

    def _fits_any(
        self,
        rules: Sequence[ToolSpecifier],
        whole: str,
        *,
        writes: bool,
        denies: bool,
    ) -> bool:
        tool = "edit" if writes else "read"
        about = [rule.what for rule in rules if rule.what and rule.tool == tool]
        return any(fits_path(what, whole, self.root, denies=denies) for what in about)

    def _is_within(self, whole: str) -> bool:
        for folder in (self.root, *self.rules.folders):
            if inside(whole, absolute(folder, self.root)) is not None:
                return True
        return False


def _is_guarded(command: Command) -> bool:
    """Return True if only a rule for its very text, or for all commands, lets it pass."""
    name, *words = command.words
    if name.globs or not name.text or name.text in PROGRAMS["never"]:
        return True
    if name.text in PROGRAMS["bare_wrappers"]:  # nothing was unwrapped
        return bool(words)
    if name.text in COPIERS:
        return _has_option(words)
    guard = _GUARDS.get(name.text)
    return guard is not None and guard(words)


def _has_option(words: Words) -> bool:
    return any(word.text.startswith("-") for word in words)


def _command(words: Words) -> bool:
    return _has_option(words[:1])


def _find(words: Words) -> bool:
    return any(word.globs or word.text in PROGRAMS["find_acts"] for word in words)


def _awk(words: Words) -> bool:
    for word in words:
        if word.globs or _AWK_PROGRAM.search(word.text) or _AWK_OPTION.fullmatch(word.text):
            return True
    return False


def _jq(words: Words) -> bool:
    texts = [word.text for word in words]
    return any(map(_JQ_OPTION.fullmatch, texts)) or any(map(_JQ_PROGRAM.search, texts))


def _declare(words: Words) -> bool:
    names = [word.text for word in words if not word.text.startswith("-")]
    return not all(map(_NAME.fullmatch, names))


_GUARDS = {
    "find": _find,
    "jq": _jq,
    "command": _command,
    **dict.fromkeys(PROGRAMS["awks"], _awk),
    **dict.fromkeys(PROGRAMS["declarers"], _declare),
}


def _removes_too_much(command: Command, wholes: list[str], files: _FileRules) -> bool:
    """Return True if it removes the project, what holds it, a top folder or a home."""
    if not command.words or command.argv[0] not in PROGRAMS["removers"]:
        return False
    for whole in wholes:
        folder = whole.removesuffix("/*").rstrip("/") or "/"
        is_home = folder == files.rules.own_home
        if _TOP.fullmatch(whole) or is_home or f"{files.root}/".startswith(f"{folder}/"):
            return True
    return False


def _keeps_its_place(commands: tuple[Command, ...], files: _FileRules) -> bool:
    """Return True if no command is about another folder than the one that it seems to be about."""
    moves = [command for command in commands if command.argv[:1] == ("cd",)]
    if not moves:
        return True
    if len(moves) > 1:
        return False
    folder, *others = touched(moves[0]).words
    if others:
        return False
    return files.whole(folder) == files.root or not any(map(_changes_files, commands))


def _changes_files(command: Command) -> bool:
    if touched(command).writes or command.argv[:1] == ("git",):
        return True
    targets = {redirect.target.text for redirect in command.redirects if redirect.writes}
    return not targets <= {_NOWHERE}


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A sandbox whose commands need no rule.

    `excluded` are rules for commands that run outside of it, wherever in a text such a one stands:
    2.1.330 looks at a text of one command only. Unless it `may_be_left`, a call that asks to be run
    outside is run inside nonetheless.
    """

    excluded: tuple[ToolSpecifier, ...] = ()
    may_be_left: bool = True

    def holds(self, reading: Reading, text: str) -> bool:
        """Return True if all of a text runs inside.

        A program's bare name is taken with any words.
        """
        parts = [text.strip()]
        for command in (*reading.commands, *reading.hidden):
            parts += denied_texts(command)
        return not any(_is_outside(rule, part) for rule in self.excluded for part in parts)


def _is_outside(rule: ToolSpecifier, part: str) -> bool:
    return rule.fits_text(part) or (rule.is_exact and part.startswith(f"{rule.what} "))


@dataclass(frozen=True, slots=True)
class ClaudeCode:
    """The rules of one settings.json; `mode` is its defaultMode, `folders` count as the project.

    `home` is what `~` stands for in a path. `sandbox` is None where its commands need rules too.
    """

    allow: tuple[ToolSpecifier, ...]
    ask: tuple[ToolSpecifier, ...] = ()
    deny: tuple[ToolSpecifier, ...] = ()
    mode: str = "default"
    folders: tuple[str, ...] = ()
    home: str = ""
    sandbox: Sandbox | None = None
    name: str = "claude-code"

    @property
    def own_home(self) -> str:
        return self.home or _NO_HOME

    @property
    def _refusals(self) -> Sequence[ToolSpecifier]:
        """The rules that deny or ask: nobody is there to answer."""
        return *self.deny, *self.ask

    def knows(self, tool: str) -> bool:
        if not tool.startswith("mcp__"):
            return tool in RENAMED
        return any(rule.names(tool) for rule in (*self.allow, *self._refusals))

    def allows(self, tool: str, arguments: Arguments, root: str) -> bool:
        tool = RENAMED.get(tool, tool)
        if tool == BASH:
            # Its own bash knows none.
            start = absolute(str(arguments.get("workdir") or root), root)
            return start == root and self._allows_shell(arguments, root)
        if tool == _MONITOR and isinstance(arguments.get("command"), str):
            return self._allows_monitor(arguments, root)
        if subject := _subject(tool, arguments):
            return self._allows_subject(tool, subject)
        if tool in _FILE_TOOLS:
            files = _FileRules(self, root)
            paths = path_arguments(arguments) or (None,)
            return all(files.allows_tool(tool, path) for path in paths)

        def fits(rule: ToolSpecifier) -> bool:
            return rule.names(tool) and not rule.what

        return self._decide(fits, free=tool in FREE)

    def _allows_subject(self, tool: str, subject: str) -> bool:
        def fits(rule: ToolSpecifier) -> bool:
            return rule.tool == tool and fits_subject(rule.what, subject)

        return self._decide(fits, free=tool in FREE and self.mode != "plan")

    def _allows_monitor(self, arguments: Arguments, root: str) -> bool:
        """Judge it as Bash, under rules for the whole tool too (anthropics/claude-code#95615)."""
        if any(rule.names(_MONITOR) for rule in self._refusals):
            return False
        is_open = any(rule.tool == _MONITOR and not rule.what for rule in self.allow)
        text = arguments["command"]
        if is_open and not unreadable_text(text):
            return not self._is_refused(read(text, self.own_home, root), text)
        return self._allows_shell(arguments, root)

    def _allows_shell(self, arguments: Arguments, root: str) -> bool:
        engine = self
        if self.sandbox and self.sandbox.may_be_left and arguments.get(_LEAVES):
            engine = replace(self, sandbox=None)
        return engine.allows_command(arguments["command"], root)

    def allows_command(self, text: str, root: str) -> bool:
        if unreadable_text(text):
            return False
        reading = read(text, self.own_home, root)
        # While planning no sandbox spares anything.
        sandbox = None if self.mode == "plan" else self.sandbox
        is_held = sandbox is not None and sandbox.holds(reading, text)
        if self._is_refused(reading, text, is_held=is_held):
            return False
        if self.mode == "bypassPermissions":
            return True
        files = _FileRules(self, root)
        if any(_is_never(command, files) for command in reading.commands):
            return False
        if is_held and reading.is_clear and _are_spared(reading.commands):
            return True
        return self._allows_reading(reading, text, files)

    def _allows_reading(self, reading: Reading, text: str, files: _FileRules) -> bool:
        rules = [rule for rule in self.allow if rule.tool == BASH]
        if not all(rule.what for rule in rules):
            return True
        if _has_exactly(rules, text):
            return reading.may_be_exact and self._admits_exact(reading.commands, text, files)
        if not reading.is_clear or len(text) > _LONGEST:
            return False
        if not _keeps_its_place(reading.commands, files):
            return False
        return all(self._allows_part(command, rules, files) for command in reading.commands)

    def _admits_exact(self, commands: Sequence[Command], text: str, files: _FileRules) -> bool:
        """Return True if files let a text pass that a rule has word for word.

        The paths of its commands count too, unless one next to them, behind no pipe, needs a rule.
        """
        for command in commands:
            if not all(map(files.admits_redirect, command.redirects)):
                return False
        inner = [unwrapped(command, loosely=True) for command in commands if command.words]
        if all(_keeps_to_paths(command, files) for command in inner):
            return True
        needs_rule = any(not touched(each).words and not is_free(each) for each in inner)
        return needs_rule and "|" not in text

    def _is_refused(self, reading: Reading, text: str, *, is_held: bool = False) -> bool:
        """Return True if a rule that denies or asks fits any command in it, however it is wrapped.

        A command that is wrapped too often to tell is refused in any case. Where the sandbox holds
        it, it is not asked about as a command of Bash, but as one of its own rules.
        """
        asks = [rule for rule in self.ask if rule.what or not is_held]
        rules = [rule for rule in (*self.deny, *asks) if rule.tool == BASH]
        if _has_exactly(rules, text):
            return True
        commands = (*reading.commands, *reading.hidden)
        if any(map(is_wrapped_too_often, commands)):
            return True
        for command in commands:
            for part in denied_texts(command):
                if any(rule.fits_text(part) for rule in rules):
                    return True
        return False

    def _allows_part(self, command: Command, rules: list[ToolSpecifier], files: _FileRules) -> bool:
        if not all(map(files.admits_redirect, command.redirects)):
            return False
        if not command.words:
            return True
        inner = unwrapped(command, loosely=True)
        if _is_guarded(inner) or not _admits_paths(inner, files):
            return False
        if any(allows_command(rule, command) for rule in rules):
            return True
        if is_free(unwrapped(command, loosely=False)) and not self._asks_behind(inner):
            return True
        return self.mode == "acceptEdits" and _only_edits(inner)

    def _asks_behind(self, command: Command) -> bool:
        """Return True if a rule could refuse what xargs makes of a command with unknown words."""
        argv = command.argv
        if argv[0] != "xargs":
            return False
        hides_files = any(rule.tool == "read" and rule.what for rule in self.deny)
        if hides_files and not PROGRAMS["showers"].isdisjoint(argv):
            return True
        rules = [rule for rule in self._refusals if rule.tool == BASH]
        return any(rule.what.partition(" ")[0] in argv for rule in rules)

    def _decide(self, fits: Callable[[ToolSpecifier], bool], *, free: bool) -> bool:
        if any(map(fits, self.deny)):
            return False
        if self.mode == "bypassPermissions":
            return True
        if any(map(fits, self.ask)):
            return False
        return free or any(map(fits, self.allow))


def _has_exactly(rules: Iterable[ToolSpecifier], text: str) -> bool:
    """Return True if a rule has the text word for word."""
    return any(rule.is_exact and rule.what == text.strip() for rule in rules)


def _are_spared(commands: Sequence[Command]) -> bool:
    """Return True if the sandbox spares commands a rule.

    It spares none if one command writes and another moves there.
    """
    inner = [unwrapped(command, loosely=True) for command in commands if command.words]
    if len(inner) < len(commands) or not all(map(_is_spared, commands)):
        return False
    moves = any(command.argv[0] == "cd" for command in inner)
    return not (moves and any(touched(command).writes for command in inner))


def _is_spared(command: Command) -> bool:
    """Return True if it is known what a command runs, and what it does to the shell."""
    if not any(form.words and not form.assignments for form in forms(command)):
        return False
    inner = unwrapped(command, loosely=True)
    program, *words = inner.argv
    if _is_guarded(inner) or program in PROGRAMS["unspared"]:
        return False
    if program == "sed" and any(map(_IN_PLACE.match, words)):
        return False
    if any(map(_EXPANDED.match, inner.argv)):
        return False
    return not any(_DEVICE.match(redirect.target.text) for redirect in command.redirects)


def _is_never(command: Command, files: _FileRules) -> bool:
    """Return True if not even a rule for all commands lets it pass: top folders, closed files."""
    inner = unwrapped(command, loosely=True)
    paths = touched(inner)
    wholes = [files.whole(word) for word in paths.words]
    if _removes_too_much(inner, wholes, files):
        return True
    uses = [(files.whole(word), False) for word in paths.read]
    if paths.writes:
        uses += [(whole, True) for whole in wholes]
    for redirect in command.redirects:
        uses.append((files.whole(redirect.target), redirect.writes))
    return any(files.is_closed(whole, writes=writes) for whole, writes in uses)


def _keeps_to_paths(command: Command, files: _FileRules) -> bool:
    """Return True if it names no closed path; the effect of options of `mv` and `cp` is unknown."""
    program, *words = command.argv
    if program in COPIERS and any(word.startswith("-") for word in words):
        return False
    return _admits_paths(command, files)


def _admits_paths(command: Command, files: _FileRules) -> bool:
    paths = touched(command)
    return all(files.admits(word, writes=paths.writes) for word in paths.words)


def _only_edits(command: Command) -> bool:
    """Return True if acceptEdits lets it pass without a rule."""
    program = command.words[0].text
    return program in _EDITING and (program != "sed" or replaces_in_place(command.words))


def _subject(tool: str, arguments: Arguments) -> str:
    """Return the subject of a rule for a tool that takes no path; "" for any other tool."""
    if tool == "webfetch":
        url = str(arguments.get("url", ""))
        host = _HOST.match(url)
        name = host[1].lower() if host else ""
        return f"domain:{name}"
    if tool == "task":
        return str(arguments.get("subagent_type") or "*")
    if tool == "skill":
        return str(arguments.get("skill") or "*")
    return ""
