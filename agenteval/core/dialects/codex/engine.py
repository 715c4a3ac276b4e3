"""Codex's prefix rules: the first words of a command decide, and of all that match the strictest.

This is Codex with `approval_policy = "untrusted"`, which asks about every command that no rule is
about; nobody is there to answer, so a prompt is a denial. No rule is about what a command writes
or where: that is the sandbox's to say there.
"""

import posixpath
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agenteval.core.call import BASH
from agenteval.core.dialects.codex.commands import commands
from agenteval.core.dialects.paths import absolute

Decision = Literal["allow", "prompt", "forbidden"]
DECISIONS: Sequence[Decision] = ("allow", "prompt", "forbidden")  # the strictest last


@dataclass(frozen=True, slots=True)
class PrefixRule:
    """`pattern` holds for each leading word what it may be; `caseless` takes any letter's case."""

    pattern: tuple[tuple[str, ...], ...]
    decision: Decision = "allow"
    caseless: bool = False

    def matches(self, argv: Sequence[str]) -> bool:
        return len(argv) >= len(self.pattern) and all(
            self._is_one_of(word, choices)
            for choices, word in zip(self.pattern, argv, strict=False)
        )

    def spellings(self, program: str) -> Iterator[str]:
        """How the rule itself writes a program."""
        return (each for each in self.pattern[0] if self._is_one_of(program, (each,)))

    def _is_one_of(self, word: str, choices: Sequence[str]) -> bool:
        if not self.caseless:
            return word in choices
        return _folded(word) in map(_folded, choices)


@dataclass(frozen=True, slots=True)
class Codex:
    """The rules of one file, or of one folder of them; they are about commands only.

    `executables` are the only places at which a program may be to have the rules of its name.
    """

    rules: tuple[PrefixRule, ...]
    executables: Mapping[str, frozenset[str]] = field(default_factory=dict)
    name: str = "codex"
    _about: Mapping[str, list[PrefixRule]] = field(init=False, repr=False)  # by program, folded

    def __post_init__(self) -> None:
        about: dict[str, list[PrefixRule]] = {}
        for rule in self.rules:
            for program in {_folded(each) for each in rule.pattern[0]}:
                about.setdefault(program, []).append(rule)
        object.__setattr__(self, "_about", about)

    def knows(self, tool: str) -> bool:  # noqa: ARG002 -- no rule names a tool
        return False

    def allows(self, tool: str, arguments: Mapping[str, Any], root: str) -> bool:
        return tool != BASH or self.decision(arguments["command"], root) == "allow"

    def decision(self, text: str, root: str) -> Decision:
        """The strictest of all rules about its commands; one without a rule counts as `prompt`."""
        return _strictest(self._on_command(argv, root) for argv in commands(text))

    def _on_command(self, argv: Sequence[str], root: str) -> Decision:
        return _strictest(rule.decision for rule in self.rules_about(argv, root))

    def rules_about(self, argv: Sequence[str], root: str) -> Sequence[PrefixRule]:
        """The rules that match a command as it is, or else with only the name of its program."""
        found = [rule for rule in self._about.get(_folded(argv[0]), ()) if rule.matches(argv)]
        return found or [*self._of_its_name(argv, root)]

    def _of_its_name(self, argv: Sequence[str], root: str) -> Iterator[PrefixRule]:
        """The rules for a program that is given by its path: from the root, whatever `workdir`."""
        path = absolute(argv[0], root)
        name = posixpath.basename(path)
        for rule in self._about.get(_folded(name), ()) if name else ():
            spelled = any(self._is_place(path, name, each) for each in rule.spellings(name))
            if spelled and rule.matches((name, *argv[1:])):
                yield rule

    def _is_place(self, path: str, *names: str) -> bool:
        """Whether a program of these names may be there."""
        return all(path in self.executables.get(name, (path,)) for name in names)


def _strictest(decisions: Iterator[Decision]) -> Decision:
    return max(decisions, key=DECISIONS.index, default="prompt")


def _folded(word: str) -> str:
    """The same for all spellings that Unicode takes for the same but for their case."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", word).casefold())
