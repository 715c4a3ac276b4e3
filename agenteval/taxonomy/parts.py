"""How a policy takes each command of a denied text."""

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from agenteval.core.policy.mismatch import Mismatch, Miss, mismatch, unlisted
from agenteval.core.policy.policy import Policy, World
from agenteval.core.shell.facts import Command
from agenteval.core.shell.programs import code_at, only_itself
from agenteval.core.shell.simple_command import Simple
from agenteval.core.shell.word_list import Words
from agenteval.core.span import new

# What only runs the command after it: timeout 5 X is X, as far as the rules for X go.
PREFIXES = frozenset(
    ("builtin", "command", "doas", "env", "exec", "ionice", "nice", "nohup", "setsid")
).union(("coproc", "stdbuf", "sudo", "time", "timeout", "unbuffer"))
_VIA = attrgetter("via")


class Part(NamedTuple):
    """One command of the text and how the policy takes it.

    `code` is where an interpreter in it is told to run code given in a word.
    """

    words: Words | Simple
    program: str
    code: int | None
    admitted: bool
    via: tuple[str, ...] = ()
    nested: bool = False

    @property
    def argv(self) -> tuple[str, ...]:
        return self.words.argv


class Missed(NamedTuple):
    """A part that a rule should fit and none does, and why.

    No part that another stands for is missed: a wrapper, or what a listed script's runner runs.
    """

    part: Part
    mismatch: Mismatch


class Parts(NamedTuple):
    """`misses` holds for each reason the first part that no rule fits for it."""

    parts: Sequence[Part]
    misses: Mapping[Miss, Missed]


def take_simple(gate: Simple, policy: Policy, world: World, *, fits: bool | None = None) -> Parts:
    """What the gate read as one command, which wraps no other.

    `fits` says whether a rule does, where that is known already.
    """
    misses: dict[Miss, Missed] = {}
    return new(Parts, ([_take(gate, policy, world, misses, fits=fits)], misses))


def take(commands: Sequence[Command], policy: Policy, world: World) -> Parts:
    """Every command with words in it. Of a wrapped one the inner is what the rules are about."""
    cores = _cores(commands) if len(commands) > 1 and any(map(_VIA, commands)) else None
    parts: list[Part] = []
    misses: dict[Miss, Missed] = {}
    for number, (words, _, _, _, via, nested) in enumerate(commands):
        if words.first or words:
            is_core = cores is None or number in cores
            parts.append(
                _take(words, policy, world, misses, via=via, nested=nested, is_core=is_core)
            )
    return new(Parts, (parts, misses))


def _take(  # noqa: PLR0913 -- what a Part holds, who takes it, and what is missed
    words: Words | Simple,
    policy: Policy,
    world: World,
    misses: dict[Miss, Missed],
    *,
    via: tuple[str, ...] = (),
    nested: bool = False,
    is_core: bool = True,
    fits: bool | None = None,
) -> Part:
    rules, program = policy.bash, words.first
    if rules.is_strange(program):
        part = new(Part, (words, program, None, False, via, nested))
        if is_core and Miss.PROGRAM not in misses:
            misses[Miss.PROGRAM] = new(Missed, (part, unlisted(rules, program)))
        return part
    argv, dynamic = words.argv, words.dynamic
    code = None if only_itself(program) else code_at(argv)
    admitted = rules.admits(argv, dynamic, root=world.root) if fits is None else fits
    part = new(Part, (words, program, code, admitted, via, nested))
    if is_core and not admitted and code is None:
        found = mismatch(rules, argv, dynamic, root=world.root)
        misses.setdefault(found.miss, new(Missed, (part, found)))
    return part


def _cores(commands: Sequence[Command]) -> Collection[int]:
    cores: list[int] = []
    for number, command in enumerate(commands):
        if not command.words:
            continue
        if not command.via:
            cores.append(number)
        elif cores and PREFIXES.issuperset(command.via):
            cores[-1] = number
    return set(cores)
