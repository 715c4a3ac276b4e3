"""A denied call with all that the failure classes ask about it."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agenteval.core.call import ToolCall
from agenteval.core.policy.bash import changes_folder
from agenteval.core.policy.mismatch import Mismatch, Miss, mismatch
from agenteval.core.policy.policy import Policy, World, admits_redirect
from agenteval.core.shell.facts import Command, RedirectKind, ShellFacts, Span
from agenteval.core.shell.gate import NotSimple, Simple
from agenteval.core.shell.leaves import Construct
from agenteval.core.shell.programs import code_at

# What only runs the command after it: timeout 5 X is X, as far as the rules for X go.
PREFIXES = frozenset(
    ("builtin", "command", "doas", "env", "exec", "ionice", "nice", "nohup", "setsid")
).union(("coproc", "stdbuf", "sudo", "time", "timeout", "unbuffer"))


class Part(NamedTuple):
    """One command of the text and how the policy takes it.

    `places` are where its words stand. `code` is where an interpreter in it is told to run code
    given in a word. `mismatch` says why no rule fits; it is None also for a part that another
    stands for: a wrapper, or what a listed script's runner runs.
    """

    argv: tuple[str, ...]
    places: Sequence[tuple[int, int]]
    code: int | None
    admitted: bool
    mismatch: Mismatch | None
    via: tuple[str, ...] = ()
    nested: bool = False


@dataclass(slots=True)  # frozen, its nine fields would take a microsecond more to set
class DeniedCall:
    """One denied call. `command` is None unless it is a bash call that carries one.

    `shell` and `parts` are empty without a command. `misses` holds for each reason the first part
    that no rule fits for it. `stop` is where the reader that decides for this policy gave up.
    """

    call: ToolCall
    command: str | None
    policy: Policy
    world: World
    shell: ShellFacts
    parts: tuple[Part, ...]
    misses: Mapping[Miss, Part]
    stop: NotSimple | None = None
    objection: str = ""

    @property
    def text(self) -> str:
        """What evidence points into: the command, or the argument text of another tool's call."""
        return self.call.raw if self.command is None else self.command

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
        return self.span(part.places[0][0], part.places[-1][1])

    def word(self, part: Part) -> Span:
        """The word that shows the mismatch; the last one when a later word is missing."""
        at = part.mismatch.at if part.mismatch else 0
        return self.span(*part.places[min(at, len(part.places) - 1)])

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
        which a part is missed, and for which the reader stopped; and four names of our own.
        """
        signs: set[str] = set(self.misses)
        if self.shell.text:
            signs.update(field for field, found in zip(_FIELDS, self.shell, strict=True) if found)
            signs.update(kind for kind, _ in self.shell.substitutions)
            signs.update(redirect.kind for redirect in self.shell.redirects)
        for part in self.parts:
            if part.via:
                signs.add("wrapped")
            if part.code:
                signs.add("code")
            if part.argv[0] == "eval":
                signs.add("eval")
        if self.stop:
            signs.add(self.stop.reason)
        if self.objection:
            signs.add("objection")
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
_CONSTRUCTS = {
    RedirectKind.STDERR: Construct.STDERR_REDIRECT,
    RedirectKind.FILE: Construct.FILE_REDIRECT,
    RedirectKind.INPUT: Construct.INPUT_REDIRECT,
    RedirectKind.HEREDOC: Construct.HEREDOC,
    RedirectKind.HERESTRING: Construct.HERESTRING,
}


def misses_of(parts: Iterable[Part]) -> dict[Miss, Part]:
    misses: dict[Miss, Part] = {}
    for part in parts:
        if part.mismatch:
            misses.setdefault(part.mismatch.miss, part)
    return misses


def one_part(gate: Simple, policy: Policy, world: World) -> tuple[Part, ...]:
    """The parts of what the gate read as one command, which wraps no other."""
    taken = _take(gate.argv, gate.dynamic, policy, world, is_core=True)
    return (Part(gate.argv, gate.offsets, *taken),)


def parts_of(shell: ShellFacts, policy: Policy, world: World) -> tuple[Part, ...]:
    """Every command with words in it. Of a wrapped one the inner is what the rules are about."""
    commands = [command for command in shell.commands if command.words]
    cores = _cores(commands)
    parts = []
    for number, command in enumerate(commands):
        words = command.words
        taken = _take(words.argv, words.dynamic, policy, world, is_core=number in cores)
        parts.append(Part(words.argv, words.places, *taken, via=command.via, nested=command.nested))
    return tuple(parts)


def _cores(commands: Sequence[Command]) -> set[int]:
    cores: list[int] = []
    for number, command in enumerate(commands):
        if not command.via:
            cores.append(number)
        elif cores and PREFIXES.issuperset(command.via):
            cores[-1] = number
    return set(cores)


def _take(
    argv: tuple[str, ...],
    dynamic: Collection[int],
    policy: Policy,
    world: World,
    *,
    is_core: bool,
) -> tuple[int | None, bool, Mismatch | None]:
    code = code_at(argv)
    admitted = policy.bash.admits(argv, dynamic, root=world.root)
    missed = None
    if is_core and not admitted and code is None:
        missed = mismatch(policy.bash, argv, dynamic, root=world.root)
    return code, admitted, missed
