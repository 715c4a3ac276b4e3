"""A denied call with all that the failure classes ask about it."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import attrgetter
from typing import NamedTuple

from agenteval.core.call import ToolCall
from agenteval.core.policy.bash import changes_folder
from agenteval.core.policy.mismatch import Mismatch, Miss, is_strange, mismatch, unlisted
from agenteval.core.policy.policy import (
    Policy,
    World,
    admits_redirect,
    is_only_a_command,
)
from agenteval.core.shell.facts import Command, RedirectKind, ShellFacts, Span, Words
from agenteval.core.shell.gate import NotSimple, Simple
from agenteval.core.shell.leaves import Construct
from agenteval.core.shell.programs import code_at

# What only runs the command after it: timeout 5 X is X, as far as the rules for X go.
PREFIXES = frozenset(
    ("builtin", "command", "doas", "env", "exec", "ionice", "nice", "nohup", "setsid")
).union(("coproc", "stdbuf", "sudo", "time", "timeout", "unbuffer"))


class Part(NamedTuple):
    """One command of the text and how the policy takes it.

    `code` is where an interpreter in it is told to run code given in a word. `is_missed` when a
    rule should fit it and none does; not so a part that another stands for: a wrapper, or what a
    listed script's runner runs. `is_strange` when no rule is about such a program.
    """

    words: Words | Simple
    code: int | None
    admitted: bool
    is_missed: bool
    is_strange: bool
    via: tuple[str, ...] = ()
    nested: bool = False

    @property
    def argv(self) -> tuple[str, ...]:
        return self.words.argv


class Missed(NamedTuple):
    """A part that no rule fits, and why."""

    part: Part
    mismatch: Mismatch


@dataclass(slots=True)  # frozen, its ten fields would take a microsecond more to set
class DeniedCall:
    """One denied call. `command` is None unless it is a bash call that carries one.

    `text` is what evidence points into: the command, or the argument text of another tool's call.
    `shell` and `parts` are empty without a command. `misses` holds for each reason the first part
    that no rule fits for it. `stop` is where the reader that decides for this policy gave up.
    """

    call: ToolCall
    command: str | None
    policy: Policy
    world: World
    shell: ShellFacts
    parts: Sequence[Part]
    stop: NotSimple | None = None
    objection: str = ""
    text: str = field(init=False)
    misses: Mapping[Miss, Missed] = field(init=False)

    def __post_init__(self) -> None:
        self.text = self.call.raw if self.command is None else self.command
        self.misses = misses_of(self.parts, self.policy, self.world)

    @property
    def is_mended(self) -> bool:
        """Whether the facts are about other words than those of the call."""
        return bool(self.shell.text) and self.shell.text != self.command

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

    def words(self, part: Part) -> Span:
        """The words of a command, from the first to the last."""
        return self.span(*part.words.extent)

    def word(self, missed: Missed) -> Span:
        """The word that shows the mismatch; the last one when a later word is missing."""
        words, at = missed.part.words, missed.mismatch.at
        return self.span(*words.place(min(at, len(words.argv) - 1) if at else 0))

    def closed_redirects(self, *wanted: RedirectKind) -> Iterator[Span]:
        """The redirects of these kinds that the policy does not open, or not to that file."""
        for redirect in self.shell.redirects:
            if redirect.kind in wanted and not (
                self.parts  # without a command no redirect is admitted
                and _CONSTRUCTS[redirect.kind] in self.policy.bash.constructs
                and not (self.stop and redirect.span.start <= self.stop.start < redirect.span.end)
                and admits_redirect(redirect, self.policy, self.world)
            ):
                yield redirect.span

    @property
    def signs(self) -> set[str]:
        """What there is in the call, for a class to be seen in: most classes need no closer look.

        The fields of the facts that hold something and the kinds in two of them; the reasons for
        which a part is missed, and for which the reader stopped; and five names of our own.
        """
        signs: set[str] = set(self.misses)
        shell = self.shell
        if shell.text:
            signs.update(compress(_FIELDS, shell))
            signs.update([kind for kind, _ in shell.substitutions])
            signs.update([redirect.kind for redirect in shell.redirects])
        for part in self.parts:
            if part.via:
                signs.add("wrapped")
            if part.code:
                signs.add("code")
            if part.words.first == "eval":
                signs.add("eval")
        if self.stop:
            signs.add(self.stop.reason)
        if self.objection:
            signs.add("objection")
        if not is_only_a_command(self.call, self.policy):
            signs.add("call")
        return signs

    @property
    def move(self) -> Span | None:
        """The change of folder that no construct allows beside other commands."""
        if not self.policy.bash.constructs or len(self.parts) == 1:
            return None
        moves = (part for part in self.parts if changes_folder(part.argv))
        return next((self.words(part) for part in moves), None)

    @property
    def alone(self) -> str:
        """The listed command inside the denied one, as the model wrote it; "" without one."""
        for part in self.parts:
            if part.admitted and not part.nested:
                return self.words(part).text
        return ""


_FIELDS = ShellFacts._fields
_VIA = attrgetter("via")
_CONSTRUCTS = {
    RedirectKind.STDERR: Construct.STDERR_REDIRECT,
    RedirectKind.FILE: Construct.FILE_REDIRECT,
    RedirectKind.INPUT: Construct.INPUT_REDIRECT,
    RedirectKind.HEREDOC: Construct.HEREDOC,
    RedirectKind.HERESTRING: Construct.HERESTRING,
}


def misses_of(parts: Iterable[Part], policy: Policy, world: World) -> dict[Miss, Missed]:
    misses: dict[Miss, Missed] = {}
    for part in parts:
        if not part.is_missed:
            continue
        words = part.words
        if not part.is_strange:
            found = mismatch(policy.bash, words.argv, words.dynamic, root=world.root)
            misses.setdefault(found.miss, Missed(part, found))
        elif Miss.PROGRAM not in misses:
            misses[Miss.PROGRAM] = Missed(part, unlisted(policy.bash, words.first))
    return misses


def one_part(gate: Simple, policy: Policy, world: World) -> list[Part]:
    """The parts of what the gate read as one command, which wraps no other."""
    return [Part(gate, *_take(gate, policy, world, is_core=True))]


def parts_of(shell: ShellFacts, policy: Policy, world: World) -> list[Part]:
    """Every command with words in it. Of a wrapped one the inner is what the rules are about."""
    commands = [command for command in shell.commands if command.words]
    cores = _cores(commands)
    return [
        Part(
            command.words,
            *_take(command.words, policy, world, is_core=number in cores),
            command.via,
            command.nested,
        )
        for number, command in enumerate(commands)
    ]


def _take(
    words: Words | Simple, policy: Policy, world: World, *, is_core: bool
) -> tuple[int | None, bool, bool, bool]:
    """How the policy takes a command: its code, and whether it is admitted, missed, strange."""
    if is_strange(policy.bash, words.first):
        return None, False, is_core, True
    code = code_at(words.argv)
    admitted = policy.bash.admits(words.argv, words.dynamic, root=world.root)
    return code, admitted, is_core and not admitted and code is None, False


def _cores(commands: Sequence[Command]) -> Collection[int]:
    if not any(map(_VIA, commands)):
        return range(len(commands))
    cores: list[int] = []
    for number, command in enumerate(commands):
        if not command.via:
            cores.append(number)
        elif cores and PREFIXES.issuperset(command.via):
            cores[-1] = number
    return set(cores)
