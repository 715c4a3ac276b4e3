"""Codex's prefix rules: the first words of a command decide, and of all that match the strictest.

A script of plain words joined by && || ; or | is judged command by command; any other script has
no rule, which means a prompt. Nobody is there to answer, so a prompt is a denial. No rule is about
the `workdir` of a call: where a command may write is the sandbox's to say there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agenteval.core.call import BASH
from agenteval.core.shell.gate import NotSimple
from agenteval.core.shell.leaves import Construct, read_leaves

Decision = Literal["allow", "prompt", "forbidden"]
_STRICTNESS: Sequence[Decision] = ("allow", "prompt", "forbidden")
_PLAIN = frozenset((Construct.PIPE, Construct.CHAIN))


@dataclass(frozen=True, slots=True)
class PrefixRule:
    """`pattern` holds for each leading word what it may be."""

    pattern: tuple[tuple[str, ...], ...]
    decision: Decision = "allow"

    def matches(self, argv: Sequence[str]) -> bool:
        return len(argv) >= len(self.pattern) and all(
            word in choices for choices, word in zip(self.pattern, argv, strict=False)
        )


@dataclass(frozen=True, slots=True)
class Codex:
    """The rules of one `.rules` file; they are about commands only."""

    rules: tuple[PrefixRule, ...]
    name: str = "codex"

    def knows(self, tool: str) -> bool:  # noqa: ARG002 -- no rule names a tool
        return False

    def allows(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        root: str,  # noqa: ARG002 -- no rule is about paths
    ) -> bool:
        return tool != BASH or self.allows_command(arguments["command"])

    def allows_command(self, text: str) -> bool:
        split = read_leaves(text)
        if isinstance(split, NotSimple) or not split.constructs <= _PLAIN:
            return False
        return all(self.decision(leaf.argv) == "allow" for leaf in split.leaves)

    def decision(self, argv: Sequence[str]) -> Decision:
        """The strictest of the rules that match; `prompt` when none does."""
        found = [rule.decision for rule in self.rules if rule.matches(argv)]
        return max(found, key=_STRICTNESS.index, default="prompt")
