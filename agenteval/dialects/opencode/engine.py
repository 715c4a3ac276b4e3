"""OpenCode's permission rules, giving the verdicts that OpenCode itself gives.

`OpenCode` is 1.1 and later: the last rule that matches counts, and every `command` node of
tree-sitter's tree is asked about by its text. Seen by running 1.1.65 and 1.18.33; where they
differ, this follows the last. `OpenCode10` is 1.0.152: the longest pattern counts, matched token by
token. Nobody is there to answer an `ask`, so it is a denial. What it reads off the disk can't be
known here: a path that may be a file or a folder is taken as both.
"""

import posixpath
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

import msgspec
from tree_sitter import Node

from agenteval.dialects.registry import load_table
from agenteval.policy.command_lines import absolute, expanded, inside, wildcard_regex
from agenteval.policy.policy import Arguments, path_arguments
from agenteval.shell.facts import Source
from agenteval.shell.gate import names
from agenteval.trial.call import BASH

Action = Literal["allow", "ask", "deny"]
_OUTPUTS = "/.local/share/opencode/tool-output/*"
_TWO_UNITS = re.compile("[\U00010000-\U0010ffff]")
_WORDS = names("command_name word string raw_string concatenation")
# A `((i++))` or `((!x))`: to grammar 0.25.0, which OpenCode has, a test and no command.
_TEST = re.compile(r"\(\([\s(-]*(?:!|[\w${}]+(?:\+\+|--))")
_GLOB = re.compile(r"[?*\[].*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """One line of a permission table: which permission, for what, and what then."""

    permission: str
    pattern: str
    action: Action


class _Tables(msgspec.Struct, forbid_unknown_fields=True):
    """The lists of tables.toml, which says what each means."""

    tools: tuple[str, ...]
    edit_tools: frozenset[str]
    searches: frozenset[str]
    directory_commands: frozenset[str]
    path_commands_1_0: frozenset[str]
    path_commands: frozenset[str]
    defaults: tuple[tuple[str, str, Action], ...]
    plan: tuple[tuple[str, str, Action], ...]
    subjects: dict[str, str]
    old_actions: dict[str, str]


TABLES = load_table("opencode/tables.toml", _Tables)
DEFAULTS = tuple(PermissionRule(*rule) for rule in TABLES.defaults)


class _Engine(ABC):
    """An engine that looks at where a command starts, and at each part of it.

    `opens` returns True if a folder outside the project may be used.
    """

    __slots__ = ()

    @abstractmethod
    def opens(self, folder: str) -> bool: ...

    @abstractmethod
    def allows_segment(self, segment: "Segment", *, root: str, start: str) -> bool: ...

    def allows_command(self, text: str, *, root: str, start: str) -> bool:
        """Return True if a text may run in the folder `start`."""
        source = Source(text)
        if source.is_cut:
            return False
        if inside(start, root) is None and not self.opens(start):
            return False
        return all(
            self.allows_segment(segment, root=root, start=start) for segment in _segments(source)
        )


@dataclass(frozen=True, slots=True)
class OpenCode(_Engine):
    """OpenCode 1.1 and later; `home` is what `~` stands for in a path."""

    rules: tuple[PermissionRule, ...]
    home: str = ""
    name: str = "opencode"

    @property
    def own_rules(self) -> tuple[PermissionRule, ...]:
        """The rules of the user's settings, which stand after OpenCode's defaults."""
        return self.rules[len(DEFAULTS) :]

    def action(self, permission: str, subject: str) -> Action:
        """Return the action of the last matching rule; `ask` without one.

        The folder for outputs that were too long to be shown stays open under any rules.
        """
        if permission == "external_directory" and wildcard(self.home + _OUTPUTS, subject):
            return "allow"
        subject = _slashed(subject)
        for rule in reversed(self.rules):
            is_about = wildcard(rule.permission, permission)
            if is_about and wildcard(_slashed(rule.pattern), subject):
                return rule.action
        return "ask"

    def offers(self, tool: str) -> bool:
        """Return True if the model is offered a tool: not if its last rule denies everything."""
        permission = _permission(tool)
        for rule in reversed(self.rules):
            if wildcard(rule.permission, permission):
                return not (rule.pattern == "*" and rule.action == "deny")
        return True

    def knows(self, tool: str) -> bool:
        patterns = {rule.permission for rule in self.own_rules} - {"*"}
        is_named = any(wildcard(pattern, tool) for pattern in patterns)
        return is_named and self.offers(tool)

    def allows(self, tool: str, arguments: Arguments, root: str) -> bool:
        if tool == BASH:
            start = _start_folder(arguments, root)
            return self.allows_command(arguments["command"], root=root, start=start)
        subjects = _subjects(tool, arguments, root)
        return all(self.action(*subject) == "allow" for subject in subjects)

    def quoted(self, tool: str, arguments: Arguments, root: str) -> list[Mapping[str, str]]:
        """Return all rules on the missing permission in their order, allowing ones too."""
        permission = self._missing(tool, arguments, root)
        rules = [rule for rule in self.rules if wildcard(rule.permission, permission)]
        return list(map(asdict, rules))

    def _missing(self, tool: str, arguments: Arguments, root: str) -> str:
        """Return the permission that a denied call lacks: folders come first."""
        if tool == BASH:
            start = _start_folder(arguments, root)
            folders = [*outside(start, "/", root, is_folder=True)]
            for segment in _segments(Source(str(arguments["command"]))):
                folders += segment.folders_outside(root=root, start=start, home=self.home)
            return BASH if all(map(self.opens, folders)) else "external_directory"
        for permission, subject in _subjects(tool, arguments, root):
            if self.action(permission, subject) != "allow":
                return permission
        return _permission(tool)

    def stops_at(self, text: str, root: str, start: str) -> str:
        """Return the first command of a text that no rule allows, as it stands there."""
        for segment in _segments(Source(text)):
            if not self.allows_segment(segment, root=root, start=start):
                return segment.text
        return ""

    def allows_segment(self, segment: "Segment", *, root: str, start: str) -> bool:
        if segment.needs_rule and self.action(BASH, segment.text) != "allow":
            return False
        return all(map(self.opens, segment.folders_outside(root=root, start=start, home=self.home)))

    def opens(self, folder: str) -> bool:
        return self.action("external_directory", posixpath.join(folder, "*")) == "allow"


def _start_folder(arguments: Arguments, root: str) -> str:
    return absolute(str(arguments.get("workdir") or root), root)


def _subjects(tool: str, arguments: Arguments, root: str) -> Iterator[tuple[str, str]]:
    """Yield the permissions that a call needs, each with what it is needed for."""
    permission = _permission(tool)
    if tool in TABLES.searches:
        folder = absolute(str(arguments.get("path") or root), root)
        if inside(folder, root) is None:
            yield "external_directory", posixpath.join(folder, "*")
    argument = TABLES.subjects.get(tool, "")
    if argument != "filePath":
        yield permission, str(arguments.get(argument, "*"))
        return
    for whole in _asked_files(arguments, root):
        if inside(whole, root) is None:
            yield "external_directory", posixpath.join(posixpath.dirname(whole), "*")
        yield permission, posixpath.relpath(whole, root)


def _asked_files(arguments: Arguments, root: str) -> list[str]:
    return [absolute(path, root) for path in path_arguments(arguments) or ("*",)]


def _permission(tool: str) -> str:
    return "edit" if tool in TABLES.edit_tools else tool


def _slashed(text: str) -> str:
    """Return a text as OpenCode compares it: it may be a path of Windows."""
    return text.replace("\\", "/")


def wildcard(pattern: str, subject: str) -> bool:
    """Return True if OpenCode's pattern fits: anchored, `*` for anything, `?` for one character.

    A last ` *` is optional.
    """
    if not subject.isascii():
        # JavaScript's `?` is half of a character like an emoji.
        pattern, subject = _in_units(pattern), _in_units(subject)
    if wildcard_regex(pattern).fullmatch(subject):
        return True
    bare = pattern.removesuffix(" *")
    return bare != pattern and wildcard_regex(bare).fullmatch(subject) is not None


def _in_units(text: str) -> str:
    """Return a text with two characters for each that UTF-16 needs two units for."""
    return _TWO_UNITS.sub(r"\g<0>\g<0>", text)


@dataclass(frozen=True, slots=True)
class Segment:
    """One command node: its text with its redirects, and its words as written."""

    text: str
    words: tuple[str, ...]

    @property
    def program(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def needs_rule(self) -> bool:
        return bool(self.words) and self.program not in TABLES.directory_commands

    def folders_outside(self, *, root: str, start: str, home: str) -> Iterator[str]:
        """Yield the folders outside the project that its paths need open, counted from `start`."""
        if self.program not in TABLES.path_commands:
            return
        for word in self.operands():
            path = _GLOB.sub("", expanded(_unquoted(word), home))
            if path and not any(mark in path for mark in "$`"):
                yield from outside(
                    path, start, root, is_folder=self.program in TABLES.directory_commands
                )

    def operands(self) -> Iterator[str]:
        marks = ("-", "+") if self.program == "chmod" else ("-",)
        for word in self.words[1:]:
            if not word.startswith(marks):
                yield word


def _segments(source: Source) -> Iterator[Segment]:
    """Yield every command of a text, those inside others too."""
    for node in source.nodes():
        if not _is_command(source, node):
            continue
        whole = node
        if node.parent and node.parent.type == "redirected_statement":
            whole = node.parent
        words = node.children if node.type == "command" else [node]
        kinds = _WORDS | {"compound_statement"}
        texts = tuple(source.text_of(word) for word in words if word.type in kinds)
        yield Segment(source.text_of(whole).strip(), texts)


def _is_command(source: Source, node: Node) -> bool:
    """Return True if OpenCode's grammar takes it for one, as it does most of what is in `(( ))`."""
    if node.type == "compound_statement" and node.children[0].type == "((":
        return not _TEST.match(source.text_of(node))
    return node.type == "command"


def _unquoted(word: str) -> str:
    is_quoted = len(word) > 1 and word[0] == word[-1] and word[0] in "'\""
    return word[1:-1] if is_quoted else word


def outside(
    path: str,
    start: str,
    root: str,
    *,
    is_folder: bool,
) -> Iterator[str]:
    """Yield the path, and the folder of a file, if it lies outside the project."""
    whole = absolute(path, start)
    if inside(whole, root) is None:
        yield whole
        if not is_folder:
            yield posixpath.dirname(whole)


_KNOWN = names("edit webfetch doom_loop external_directory")
_FILE_TOOLS = TABLES.edit_tools | {"read"}


@dataclass(frozen=True, slots=True)
class OpenCode10(_Engine):
    """OpenCode 1.0: `patterns` are the rules for bash, `actions` those for other tools.

    `switches` say of patterns for tools whether these are offered, unless an action denies them.
    """

    patterns: Mapping[str, Action]
    actions: Mapping[str, Action]
    switches: Mapping[str, bool] = field(default_factory=dict)
    home: str = ""
    name: str = "opencode-1.0"

    @classmethod
    def of(
        cls,
        rules: Iterable[PermissionRule],
        switches: Mapping[str, bool],
        home: str,
    ) -> "OpenCode10":
        """Return the engine that a config's rules make: 1.0 skips what it does not know."""
        patterns: dict[str, Action] = {"*": "allow"}
        actions: dict[str, Action] = {}
        for rule in rules:
            if rule.permission == BASH:
                patterns[rule.pattern] = rule.action
            elif rule.permission in _KNOWN:
                actions[rule.permission] = rule.action
        return cls(patterns, actions, switches, home)

    def offers(self, tool: str) -> bool:
        if tool == BASH and self.patterns == {"*": "deny"}:
            return False
        is_denied = self.actions.get(TABLES.old_actions.get(tool, "")) == "deny"
        return not is_denied and self._switch(tool) is not False

    def knows(self, tool: str) -> bool:
        return self._switch(tool) is True

    def _switch(self, tool: str) -> bool | None:
        """Return the longest matching switch; of two equally long, the later in the alphabet."""
        fitting = [pattern for pattern in self.switches if wildcard(pattern, tool)]
        if not fitting:
            return None
        return self.switches[max(fitting, key=_length_and_text)]

    def allows(self, tool: str, arguments: Arguments, root: str) -> bool:
        if tool == BASH:
            start = _start_folder(arguments, root)
            return self.allows_command(arguments["command"], root=root, start=start)
        if tool in _FILE_TOOLS:
            files = _asked_files(arguments, root)
            is_outside = any(inside(file, root) is None for file in files)
            if is_outside and not self._opens_outside:
                return False
        return self.actions.get(TABLES.old_actions.get(tool, ""), "allow") == "allow"

    def allows_segment(self, segment: Segment, *, root: str, start: str) -> bool:
        del start  # 1.0 counts every path from the project
        if not self._opens_outside and any(_folders_outside(segment, root, self.home)):
            return False
        return segment.program == "cd" or self._action(segment.words) == "allow"

    def opens(self, folder: str) -> bool:
        del folder  # all of them, or none
        return self._opens_outside

    @property
    def _opens_outside(self) -> bool:
        return self.actions.get("external_directory") == "allow"

    def _action(self, words: tuple[str, ...]) -> Action:
        """Return the longest matching pattern's action.

        Of two equally long patterns the later in the alphabet counts.
        """
        action: Action = "allow"
        program = words[0] if words else ""
        for pattern in sorted(self.patterns, key=_length_and_text):
            head, *tail = re.split(r"\s+", pattern)
            if wildcard(head, program) and _in_sequence(tail, words[1:]):
                action = self.patterns[pattern]
        return action


def _length_and_text(pattern: str) -> tuple[int, str]:
    return len(pattern), pattern


def _folders_outside(segment: Segment, root: str, home: str) -> Iterator[str]:
    """Yield the folders outside the project that its paths name, each word with its quotes."""
    if segment.program in TABLES.path_commands_1_0:
        for word in segment.operands():
            yield from outside(expanded(word, home), root, root, is_folder=True)


def _in_sequence(patterns: list[str], words: tuple[str, ...]) -> bool:
    """Return True if words that match the patterns stand in that order, others between them."""
    rest = iter(words)
    # `any` takes the words up to the one that matches: the next pattern goes on behind it.
    return all(
        any(wildcard(pattern, word) for word in rest) for pattern in patterns if pattern != "*"
    )
