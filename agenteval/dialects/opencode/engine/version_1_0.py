"""OpenCode's permissions as 1.0 had them: the longest pattern counts, matched token by token.

Nobody is there to answer an `ask`, so it is a denial. Seen by running 1.0.152.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agenteval.core.call import BASH
from agenteval.core.policy.patterns import expanded, inside
from agenteval.core.shell.source import Source
from agenteval.dialects.opencode.engine.current import (
    EDIT_TOOLS,
    OLD_TOUCHES,
    Action,
    PermissionRule,
    Segment,
    asked_files,
    outside,
    segments,
    start_folder,
    wildcard,
)

_KNOWN = frozenset(("edit", "webfetch", "doom_loop", "external_directory"))
_FILE_TOOLS = EDIT_TOOLS | {"read"}
_ACTIONS: Mapping[str, str] = {
    **dict.fromkeys(EDIT_TOOLS, "edit"),
    **dict.fromkeys(("webfetch", "websearch", "codesearch"), "webfetch"),
}


@dataclass(frozen=True, slots=True)
class OpenCode10:
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
        cls, rules: Iterable[PermissionRule], switches: Mapping[str, bool], home: str
    ) -> "OpenCode10":
        """The engine that a config's rules make: 1.0 skips what it does not know."""
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
        is_denied = self.actions.get(_ACTIONS.get(tool, "")) == "deny"
        return not is_denied and self._switch(tool) is not False

    def knows(self, tool: str) -> bool:
        return self._switch(tool) is True

    def _switch(self, tool: str) -> bool | None:
        """Return the longest matching switch; of two equally long, the later in the alphabet."""
        fitting = [pattern for pattern in self.switches if wildcard(pattern, tool)]
        longest = max(fitting, key=lambda pattern: (len(pattern), pattern), default=None)
        return None if longest is None else self.switches[longest]

    def allows(self, tool: str, arguments: Mapping[str, Any], root: str) -> bool:
        if tool == BASH:
            return self.allows_command(arguments["command"], root, start_folder(arguments, root))
        files = asked_files(arguments, root) if tool in _FILE_TOOLS else []
        is_inside = self._opens_outside or all(inside(whole, root) for whole in files)
        return is_inside and self.actions.get(_ACTIONS.get(tool, ""), "allow") == "allow"

    def allows_command(self, text: str, root: str, start: str) -> bool:
        """`start` is the folder that the command starts in."""
        source = Source(text)
        return (
            not source.is_cut
            and (self._opens_outside or inside(start, root) is not None)
            and all(
                (self._opens_outside or not any(_folders_outside(segment, root, self.home)))
                and (segment.program == "cd" or self._action(segment.words) == "allow")
                for segment in segments(source)
            )
        )

    @property
    def _opens_outside(self) -> bool:
        return self.actions.get("external_directory") == "allow"

    def _action(self, words: tuple[str, ...]) -> Action:
        """Return the longest matching pattern's action.

        Of two equally long patterns the later in the alphabet counts.
        """
        action: Action = "allow"
        for pattern in sorted(self.patterns, key=lambda pattern: (len(pattern), pattern)):
            head, *tail = re.split(r"\s+", pattern)
            if wildcard(head, words[0] if words else "") and _in_sequence(tail, words[1:]):
                action = self.patterns[pattern]
        return action


def _folders_outside(segment: Segment, root: str, home: str) -> Iterator[str]:
    """The folders outside the project that its paths name, each word with its quotes."""
    if segment.program in OLD_TOUCHES:
        for word in segment.operands():
            yield from outside(expanded(word, home), root, root, is_folder=True)


def _in_sequence(patterns: list[str], words: tuple[str, ...]) -> bool:
    """Return True if words that match the patterns stand in that order, others between them."""
    at = 0
    for pattern in patterns:
        if pattern == "*":
            continue
        while at < len(words) and not wildcard(pattern, words[at]):
            at += 1
        if at == len(words):
            return False
        at += 1
    return True
