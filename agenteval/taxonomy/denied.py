"""A denied call with all that the failure classes ask about it."""

from dataclasses import dataclass
from functools import cached_property

from agenteval.core.call import ToolCall
from agenteval.core.facts import Command, ShellFacts, Span
from agenteval.core.policy import Policy, World
from agenteval.core.policy_bash import Mismatch, Miss
from agenteval.core.programs import code_at

# What only runs the command after it: timeout 5 X is X, as far as the rules for X go.
PREFIXES = frozenset(
    ("builtin", "command", "doas", "env", "exec", "ionice", "nice", "nohup", "setsid")
).union(("stdbuf", "sudo", "time", "timeout", "unbuffer"))


@dataclass(frozen=True)  # not slotted: what is found out about a call is kept in it
class DeniedCall:
    """One denied call. `shell` is empty unless it is a bash call with a command."""

    call: ToolCall
    policy: Policy
    world: World
    shell: ShellFacts
    objection: str = ""

    @property
    def text(self) -> str:
        """What evidence points into: the command, or the argument text of another tool's call."""
        return self.call.raw if self.call.command is None else self.call.command

    @property
    def whole(self) -> Span:
        return Span(0, len(self.text), self.text)

    def span(self, start: int, end: int) -> Span:
        return Span(start, end, self.text[start:end])

    @property
    def known_files(self) -> frozenset[str] | None:
        """The files of the world as far as anybody says; None when nobody does."""
        if self.world.files is not None:
            return self.world.files
        listed = self.policy.files and self.policy.files.union(self.policy.bash.listed)
        return listed or None

    @cached_property
    def alone(self) -> str:
        """The listed command inside the denied one, as the model wrote it; "" without one."""
        for command in self.shell.commands:
            if command.words and not command.nested and self._admits(command):
                return self.text[command.words[0].span.start : command.words[-1].span.end]
        return ""

    @cached_property
    def misses(self) -> tuple[tuple[Command, Mismatch], ...]:
        """Every command that no rule fits, and why; behind its prefixes, before nested shells."""
        found = []
        for command in self._cores():
            if command.words and code_at(command.argv) is None and not self._admits(command):
                rules, root = self.policy.bash, self.world.root
                found.append((command, rules.mismatch(command.argv, _dynamic(command), root=root)))
        return tuple(found)

    def missing(self, miss: Miss) -> tuple[Command, Mismatch] | None:
        """The first command that no rule fits for this reason."""
        return next((found for found in self.misses if found[1].miss is miss), None)

    def _cores(self) -> list[Command]:
        cores: list[Command] = []
        for command in self.shell.commands:
            if not command.via:
                cores.append(command)
            elif PREFIXES.issuperset(command.via) and cores:
                cores[-1] = command
        return cores

    def _admits(self, command: Command) -> bool:
        rules, root = self.policy.bash, self.world.root
        return rules.admits(command.argv, _dynamic(command), root=root)


def _dynamic(command: Command) -> frozenset[int]:
    return frozenset(number for number, word in enumerate(command.words) if word.dynamic)


def at_word(command: Command, number: int) -> Span:
    """The word that shows a mismatch; the last one when it is a later word that is missing."""
    return command.words[min(number, len(command.words) - 1)].span
