"""A denied call with all that the failure classes ask about it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress
from operator import attrgetter, itemgetter
from typing import NamedTuple

from agenteval.core.call import ToolCall, new
from agenteval.core.policy.bash import changes_folder
from agenteval.core.policy.mismatch import Mismatch, Miss, mismatch, unlisted
from agenteval.core.policy.policy import (
    Policy,
    World,
    admits_redirect,
)
from agenteval.core.shell.facts import Command, Redirect, RedirectKind, ShellFacts
from agenteval.core.shell.gate import NotSimple, Obstacle, Simple
from agenteval.core.shell.leaves import Construct
from agenteval.core.shell.programs import code_at, only_itself
from agenteval.core.shell.word_list import Words
from agenteval.core.span import Span

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
    program: str
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


class DeniedCall(NamedTuple):
    """One denied call.

    `text` is what evidence points into: the command, or the argument text of another tool's call.
    `is_only_a_command` when nothing else about the call matters.
    `shell` and `parts` are empty without a command. `misses` holds for each reason the first part
    that no rule fits for it. `stop` is where the reader that decides for this policy gave up.
    """

    call: ToolCall
    text: str
    policy: Policy
    world: World
    shell: ShellFacts
    parts: Sequence[Part]
    misses: Mapping[Miss, Missed]
    is_only_a_command: bool
    stop: NotSimple | None = None
    objection: str = ""

    @property
    def is_mended(self) -> bool:
        """Whether the facts are about other words than those of the call."""
        return bool(self.shell.text) and self.shell.text != self.text

    @property
    def whole(self) -> Span:
        return Span(0, len(self.text), self.text)

    def span(self, start: int, end: int) -> Span:
        return new(Span, (start, end, self.text[start:end]))

    def may_exist(self, path: str) -> bool:
        """Whether there is such a file in the world, or nobody says which there are."""
        if self.world.files is not None:
            return path in self.world.files
        files = self.policy.files
        return not files or path in files or path in self.policy.bash.listed

    def words(self, part: Part) -> Span:
        """The words of a command, from the first to the last."""
        return self.span(*part.words.extent)

    def word(self, missed: Missed) -> Span:
        """The word that shows the mismatch; the last one when a later word is missing."""
        part, (_, at, _) = missed
        start, end = part.words.place(min(at, len(part.argv) - 1) if at else 0)
        return new(Span, (start, end, self.text[start:end]))

    def opens(self, redirect: Redirect) -> bool:
        """Whether the policy opens such redirects, and to that file."""
        return (
            _CONSTRUCTS[redirect.kind] in self.policy.bash.constructs
            and bool(self.parts)  # without a command no redirect is admitted
            and not (self.stop and redirect.span.start <= self.stop.start < redirect.span.end)
            and admits_redirect(redirect, self.policy, self.world)
        )

    @property
    def signs(self) -> frozenset[str]:
        """What there is in the call, for a class to be seen in: most classes need no closer look.

        The fields of the facts that hold something and the kinds in two of them; the reasons for
        which a part is missed, and for which the reader stopped, or the operator where it did; and
        six names of our own.
        """
        signs: list[str] = [*self.misses]
        shell = self.shell
        if shell.text:
            signs += compress(_FIELDS, shell)
            signs += map(_KIND, shell.substitutions)
            signs += map(_KIND, shell.redirects)
            if self.move:
                signs.append("move")
        for part in self.parts:
            if part.via:
                signs.append("wrapped")
            if part.code:
                signs.append("code")
            if part.program == "eval":
                signs.append("eval")
        if self.stop:
            reason, at = self.stop
            signs.append(self.text[at : at + 1] if reason is Obstacle.OPERATOR else reason)
        if self.objection:
            signs.append("objection")
        if not self.is_only_a_command:
            signs.append("call")
        return frozenset(signs)

    @property
    def move(self) -> Span | None:
        """The change of folder that no construct allows beside other commands."""
        if not self.policy.bash.constructs or len(self.parts) == 1:
            return None
        shell, stop = self.shell, self.stop
        beside = shell.chains or shell.pipelines or shell.background or shell.substitutions
        if not beside and not (stop and stop.reason is Obstacle.OPERATOR):
            return None  # it stays in a shell of its own: sh -c 'cd x'
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
_KIND = itemgetter(0)
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
            misses.setdefault(found.miss, new(Missed, (part, found)))
        elif Miss.PROGRAM not in misses:
            misses[Miss.PROGRAM] = new(Missed, (part, unlisted(policy.bash, part.program)))
    return misses


def one_part(gate: Simple, policy: Policy, world: World) -> list[Part]:
    """The parts of what the gate read as one command, which wraps no other."""
    return [_part(gate, policy, world)]


def parts_of(shell: ShellFacts, policy: Policy, world: World) -> list[Part]:
    """Every command with words in it. Of a wrapped one the inner is what the rules are about."""
    commands = [command for command in shell.commands if command.words]
    cores = _cores(commands)
    return [
        _part(words, policy, world, via, nested=nested, is_core=number in cores)
        for number, (words, _, _, _, via, nested) in enumerate(commands)
    ]


def _part(  # noqa: PLR0913 -- once for each command: what a Part holds, and who takes it
    words: Words | Simple,
    policy: Policy,
    world: World,
    via: tuple[str, ...] = (),
    *,
    nested: bool = False,
    is_core: bool = True,
) -> Part:
    program = words.first
    if policy.bash.is_strange(program):
        return new(Part, (words, program, None, False, is_core, True, via, nested))
    code = None if only_itself(program) else code_at(words.argv)
    admitted = policy.bash.admits(words.argv, words.dynamic, root=world.root)
    is_missed = is_core and not admitted and code is None
    return new(Part, (words, program, code, admitted, is_missed, False, via, nested))


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
