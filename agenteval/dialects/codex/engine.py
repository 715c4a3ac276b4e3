"""Codex's prefix rules: the first words of a command decide, and of all that match the strictest.

With `approval_policy = "untrusted"` Codex asks about every command that no rule is about; nobody is
there to answer, so a prompt is a denial. Under `on-request` and `never` such a command runs, in the
sandbox, but for one that deletes by force, and one for which the model asks to leave the sandbox.
No rule is about what a command writes or where: that is the sandbox's to say there.

Codex hands a text to `bash -lc`. Where it is plain words only, joined by && || ; | or newlines,
each of its commands is asked about. Any other text is one command: /bin/bash with two arguments.
Seen by running 0.169.0.
"""

import posixpath
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile, takewhile
from typing import Literal

from tree_sitter import Node

from agenteval.policy.command_lines import Argv, absolute
from agenteval.policy.policy import Arguments
from agenteval.shell.facts import Source
from agenteval.shell.gate import names
from agenteval.trial.call import BASH

Decision = Literal["allow", "prompt", "forbidden"]
DECISIONS: Sequence[Decision] = ("allow", "prompt", "forbidden")  # the strictest last
Approval = Literal["untrusted", "on-request", "never"]
APPROVALS: Sequence[Approval] = ("untrusted", "on-request", "never")
# Of tree-sitter's nodes, those of a text of plain words.
_KNOWN = names(
    "program list pipeline command command_name concatenation word number string string_content"
    " raw_string"
)
_JOINTS = frozenset(("&&", "||", ";", "|", "\n", '"', "'"))
_EXPANDED = re.compile(r"\A=|[{}*?\[\]\\~^#$`]")  # by bash or by zsh
_ESCAPE = re.compile(r'\\[$`"\\\n]')


# By the name of a program, the only paths at which it has the rules of its name.
Places = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class PrefixRule:
    """`pattern` holds for each leading word what it may be; `caseless` takes any letter's case."""

    pattern: tuple[tuple[str, ...], ...]
    decision: Decision = "allow"
    caseless: bool = False

    def matches(self, argv: Argv) -> bool:
        if len(argv) < len(self.pattern):
            return False
        places = zip(self.pattern, argv, strict=False)
        return all(self._is_one_of(word, choices) for choices, word in places)

    def spellings(self, program: str) -> Iterator[str]:
        """Return the rule's own spellings of a program."""
        return (choice for choice in self.pattern[0] if self._is_one_of(program, (choice,)))

    def _is_one_of(self, word: str, choices: Sequence[str]) -> bool:
        if not self.caseless:
            return word in choices
        folded = [_folded(choice) for choice in choices]
        # Folding a long word takes the square of its length.
        longest = max(map(len, folded), default=0)
        return len(word) <= longest and _folded(word) in folded


@dataclass(frozen=True, slots=True)
class Codex:
    """The rules of one file, or of one folder of them; they are about commands only.

    `executables` are the only places at which a program may be to have the rules of its name.
    `approval` says what becomes of a command that no rule is about.
    """

    rules: tuple[PrefixRule, ...]
    executables: Places = field(default_factory=dict)
    approval: Approval = "untrusted"

    @property
    def name(self) -> str:
        return "codex" if self.approval == "untrusted" else f"codex-{self.approval}"

    def knows(self, tool: str) -> bool:  # noqa: ARG002 -- no rule names a tool
        return False

    def allows(self, tool: str, arguments: Arguments, root: str) -> bool:
        return tool != BASH or self.decision(arguments, root) == "allow"

    def decision(self, arguments: Arguments, root: str) -> Decision:
        """Return the strictest decision on its commands; of a text that is too long, `prompt`."""
        leaves = _leaves_sandbox(arguments)
        argvs = commands(arguments["command"])
        decision = _strictest([self._on_command(argv, root, leaves=leaves) for argv in argvs])
        if self.approval == "never" and (leaves or decision == "prompt"):
            return "forbidden"
        return decision

    def _on_command(self, argv: Argv, root: str, *, leaves: bool) -> Decision:
        if rules := self.rules_about(argv, root):
            return _strictest([rule.decision for rule in rules])
        if self.approval == "untrusted" or leaves or _deletes_by_force(argv):
            return "prompt"
        return "allow"

    def rules_about(self, argv: Argv, root: str) -> Sequence[PrefixRule]:
        """Return the rules that match a command, or else those for only its program's name."""
        rules = [rule for rule in self.rules if rule.matches(argv)]
        return rules or [*self._of_its_name(argv, root)]

    def _of_its_name(self, argv: Argv, root: str) -> Iterator[PrefixRule]:
        """Yield the rules for a program that is given by its path: from the root on."""
        path = absolute(argv[0], root)
        name = posixpath.basename(path)
        if not name:
            return
        for rule in self.rules:
            has_place = any(self._is_place(path, name, own) for own in rule.spellings(name))
            if has_place and rule.matches((name, *argv[1:])):
                yield rule

    def _is_place(self, path: str, *names: str) -> bool:
        """Return True if a program of these names may be there."""
        return all(path in self.executables.get(name, (path,)) for name in names)


def _strictest(decisions: Sequence[Decision]) -> Decision:
    return max(decisions, key=DECISIONS.index, default="prompt")


def _folded(word: str) -> str:
    """The same for all spellings that Unicode takes for the same but for their case.

    It is never shorter than the word, and of a long word takes the square of its length.
    """
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", word).casefold())


def _leaves_sandbox(arguments: Arguments) -> bool:
    """Return True if the model asks for a command to run outside of the sandbox."""
    if arguments.get("sandbox_permissions") == "require_escalated":
        return True
    return arguments.get("with_escalated_permissions") is True


def _deletes_by_force(argv: Argv) -> bool:
    """Return True if a command is `rm -f`.

    It may stand behind sudo or env, or in a text for a shell or trap.
    """
    program, words = _behind_starters(argv)
    if program == "rm":
        options = takewhile("--".__ne__, words)
        return any(map(_FORCE.match, options))
    if program == "trap":
        texts = [word for word in words if word[:1] != "-"]
        return any(map(_has_forced_deletion, texts))
    is_shell = program in {"bash", "sh", "zsh"} and len(words) == 2
    if not is_shell or words[0] not in {"-c", "-lc"}:
        return False
    return _has_forced_deletion(words[1])


def _behind_starters(argv: Argv) -> tuple[str, Argv]:
    """Return the program that sudo and env start, and its words."""
    program, *words = argv
    program = posixpath.basename(program)
    while words and program in {"env", "sudo"}:
        if program == "env":
            # The last word is its program, whatever it looks like.
            while len(words) > 1 and ("=" in words[0] or words[0][:1] == "-"):
                del words[0]
        program = posixpath.basename(words.pop(0))
    return program, tuple(words)


_FORCE = re.compile(r"-[^-]*f|--force\Z")


def _has_forced_deletion(text: str) -> bool:
    """Return True if any command in a text deletes by force, wherever it stands, or in doubt."""
    source = Source(text)
    if source.is_cut:
        return True
    if any(root.has_error for root in source.roots):
        return False
    for node in source.nodes():
        if node.type != "command":
            continue
        words = dropwhile(lambda word: word.type != "command_name", node.named_children)
        argv = [_value_or_none(source, word) for word in words]
        if argv and _deletes_by_force(argv):
            return True
    return False


def _value_or_none(source: Source, word: Node) -> str:
    if word.type == "command_name":
        word = word.named_children[0]
    try:
        return _value(source, word)
    except _NotPlainError:
        return ""


class _NotPlainError(Exception):
    """There is more to a text than plain words; never leaves this module."""


def commands(text: str) -> tuple[Argv, ...]:
    """The argv of each; none of a text that is too long or too deep to be read here."""
    source = Source(text)
    if source.is_cut:
        return ()
    try:
        return _plain_commands(source)
    except _NotPlainError:
        return (("/bin/bash", "-lc", text),)


def _plain_commands(source: Source) -> tuple[Argv, ...]:
    commands: list[Argv] = []
    if any(root.has_error for root in source.roots):
        raise _NotPlainError
    for node in source.nodes():
        known = _KNOWN if node.is_named else _JOINTS
        if node.type not in known:
            raise _NotPlainError
        if node.type == "command":
            commands.append(_argv(source, node.named_children))
    if not commands:
        raise _NotPlainError
    return tuple(commands)


def _argv(source: Source, words: Sequence[Node]) -> Argv:
    program = words[0].named_children[:1] if words else []
    if [node.type for node in program] != ["word"]:
        raise _NotPlainError
    nodes = (*program, *words[1:])
    return tuple(_value(source, node) for node in nodes)


def _value(source: Source, word: Node) -> str:
    """Return a word without its quotes. Raises _NotPlainError if bash does more to it."""
    value = source.text_of(word)
    is_plain = True
    match word.type:
        case "concatenation":
            value = "".join(_value(source, part) for part in word.named_children)
            is_plain = value != ""
        case "raw_string":
            value = value[1:-1]
        case "string":
            parts = {part.type for part in word.named_children}
            is_plain = parts <= _KNOWN and not _ESCAPE.search(value)
            value = value[1:-1]
        case _:
            is_plain = not (_EXPANDED.search(value) or word.named_children)
    if not is_plain:
        raise _NotPlainError
    return value
