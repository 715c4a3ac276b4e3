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
from agenteval.core.dialects.codex_commands import commands
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

    def first_like(self, word: str) -> str | None:
        """Which of the programs that it is about this word names."""
        return next((each for each in self.pattern[0] if self._is_one_of(word, (each,))), None)

    def _is_one_of(self, word: str, choices: Sequence[str]) -> bool:
        if not self.caseless:
            return word in choices
        return _folded(word) in map(_folded, choices)


@dataclass(frozen=True, slots=True)
class Codex:
    """The rules of one `.rules` file; they are about commands only.

    `executables` are the only places at which a program may be to have the rules of its name.
    """

    rules: tuple[PrefixRule, ...]
    executables: Mapping[str, frozenset[str]] = field(default_factory=dict)
    name: str = "codex"

    def knows(self, tool: str) -> bool:  # noqa: ARG002 -- no rule names a tool
        return False

    def allows(self, tool: str, arguments: Mapping[str, Any], root: str) -> bool:
        return tool != BASH or self.decision(arguments["command"], root) == "allow"

    def decision(self, text: str, root: str) -> Decision:
        """The strictest of all rules about the text's commands; `prompt` when one has none."""
        return _strictest(self._on_command(argv, root) for argv in commands(text))

    def _on_command(self, argv: Sequence[str], root: str) -> Decision:
        return _strictest(rule.decision for rule in self.rules_about(argv, root))

    def rules_about(self, argv: Sequence[str], root: str) -> Sequence[PrefixRule]:
        """The rules that match a command as it is, or else with only the name of its program."""
        found = [rule for rule in self.rules if rule.matches(argv)]
        return found or [*self._of_its_name(argv, root)]

    def _of_its_name(self, argv: Sequence[str], root: str) -> Iterator[PrefixRule]:
        """The rules for a program that is given by its path: from the root, whatever `workdir`."""
        path = absolute(argv[0], root)
        name = posixpath.basename(path)
        for rule in self.rules:
            named = rule.first_like(name)
            if named is not None and rule.matches((name, *argv[1:])):
                places = (self.executables.get(each) for each in (name, named))
                if all(allowed is None or path in allowed for allowed in places):
                    yield rule


def _strictest(decisions: Iterator[Decision]) -> Decision:
    return max(decisions, key=DECISIONS.index, default="prompt")


def _folded(word: str) -> str:
    """The same for all spellings that Unicode takes for the same but for their case."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", word).casefold())
