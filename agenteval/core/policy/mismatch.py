"""A policy's judgement of each command of a denied text."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from agenteval.core.policy.bash import BashRules, misuse, stem
from agenteval.core.policy.patterns import CommandPattern, normalise
from agenteval.core.shell.facts import Command
from agenteval.core.shell.harm import is_familiar
from agenteval.core.shell.programs import after_runner, code_at, only_itself, script_at
from agenteval.core.shell.simple_command import NEEDS_CARE, Simple
from agenteval.core.shell.word_list import Words
from agenteval.core.span import new


class Miss(StrEnum):
    """The part of a command that no rule allows."""

    PROGRAM = "program"
    SCRIPT = "script"
    RUNNER = "runner"
    OPTION = "option"
    COMMAND = "sub-command"
    VALUE = "value"
    WORDS = "words"


class _Mismatch(NamedTuple):
    """The reason why no rule fits, and the word where it fails.

    The place is one past the last word if some are missing. `instead` may stand in place of the
    words from `since` to that one; "" where nothing is like it.
    """

    miss: Miss
    at: int
    hint: str
    since: int = 0
    instead: str = ""


@lru_cache(maxsize=1024)  # agents know few programs
def unlisted(rules: BashRules, program: str) -> _Mismatch:
    """Return the mismatch of a command that is strange to the rules."""
    return _unlisted(rules, Miss.PROGRAM, 0, program)


def mismatch(
    rules: BashRules,
    argv: Sequence[str],
    dynamic: Collection[int] = (),
    *,
    root: str = "/workspace",
) -> _Mismatch:
    """Return the reason why the command, which `rules.admits` denied, is denied."""
    rule = rules.denial(argv, dynamic)
    if rule and (rule.names(argv) or rules.fits(argv, dynamic, root)):
        return _Mismatch(Miss.WORDS, 0, f"{rule.text} is denied, whatever else is allowed")
    if not only_itself(argv[0]):
        at = script_at(argv)
        if at is not None:
            return _script_mismatch(rules, argv, at, dynamic, root)
        inner = after_runner(argv)
        if inner and inner < len(argv):
            if starts := _without_suffix(rules, argv[inner], root):
                return _other_start(starts, inner)
            return _unlisted(rules, Miss.PROGRAM, inner, argv[inner])
    return (
        _nearest_rule(rules.rules_for(argv[0]), argv, dynamic)
        or _nearest_runner(rules, argv)
        or unlisted(rules, argv[0])
    )


def _script_mismatch(
    rules: BashRules, argv: Sequence[str], at: int, dynamic: Collection[int], root: str
) -> _Mismatch:
    starts = rules.listed.get(normalise(argv[at], root) or argv[at], ())
    if not starts:
        if starts := _without_suffix(rules, argv[at], root):
            return _other_start(starts, at)
        return _unlisted(rules, Miss.SCRIPT, at, argv[at])
    script = rules.script(tuple(argv[:at]), argv[at], root)
    wrong = script and misuse(script.line, argv, at + 1, dynamic=dynamic, root=root)
    if wrong:
        miss = Miss(wrong.kind.value) if wrong.kind else Miss.WORDS
        at, instead = wrong.at, ""
        if wrong.near:
            instead = argv[at].replace(wrong.invented, wrong.near, 1)
        return _Mismatch(miss, at, wrong.hint, at, instead)
    patterns = [rule for rule in rules.rules_for(argv[0]) if rule.agreeing(argv, dynamic) > at]
    return _nearest_rule(patterns, argv, dynamic) or _other_start(starts, at)


def _without_suffix(rules: BashRules, path: str, root: str) -> tuple[str, ...]:
    """Return how calls of a listed script begin whose path lacks only its ending here."""
    return rules.listed.get(f"{normalise(path, root) or path}.py", ())


def _other_start(starts: Sequence[str], at: int) -> _Mismatch:
    if starts[0].split()[-1].startswith(("/", "../")):
        return _Mismatch(Miss.RUNNER, at, "no script outside the workspace may run")
    return _Mismatch(Miss.RUNNER, at, f"it is called as {starts[0]}", 0, starts[0])


def _nearest_rule(
    patterns: Sequence[CommandPattern], argv: Sequence[str], dynamic: Collection[int]
) -> _Mismatch | None:
    if not patterns:
        return None
    agreeing = [rule.agreeing(argv, dynamic) for rule in patterns]
    at = max(agreeing)
    best = patterns[agreeing.index(at)]
    if at in dynamic:
        return _Mismatch(Miss.WORDS, at, f"quote {argv[at]} or write it out: bash would expand it")
    if best.wild and argv[0] in NEEDS_CARE:
        return _Mismatch(Miss.WORDS, 0, f"no rule with a star opens {argv[0]}")
    return _Mismatch(Miss.WORDS, at, f"the rule is {best.text}" if best.wild else _OTHER_WORDS)


_OTHER_WORDS = "it is listed with other words"


def _nearest_runner(rules: BashRules, argv: Sequence[str]) -> _Mismatch | None:
    """A command that begins as the calls of scripts do, but names none: `uv pip install`."""
    script = rules.by_first_word.get(argv[0])
    if script is None:
        return None
    at = sum(a == b for a, b in zip(script.runner, argv, strict=False))
    return _Mismatch(Miss.WORDS, at, f"the rule is {script.start}")


def _unlisted(rules: BashRules, miss: Miss, at: int, program: str) -> _Mismatch:
    """A program or script that is not listed, with the script that its name may mean."""
    near = "" if is_familiar(program) else rules.stems.nearest(stem(program))
    instead = rules.by_stem[near] if near else ""
    fault = f"{program} is not listed" + (f": did you mean {instead}?" if near else "")
    return _Mismatch(miss, at, fault, 0, instead)


# What only runs the command after it: timeout 5 X is X, as far as the rules for X go.
PREFIXES = frozenset(
    ("builtin", "command", "doas", "env", "exec", "ionice", "nice", "nohup", "setsid")
).union(("coproc", "stdbuf", "sudo", "time", "timeout", "unbuffer"))
_VIA = attrgetter("via")


class Part(NamedTuple):
    """One command of the text and how the policy takes it.

    `code` is the place of the option that makes an interpreter in it run code from a word.
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
    mismatch: _Mismatch


class _Parts(NamedTuple):
    """`misses` holds for each reason the first part that no rule fits for it."""

    parts: Sequence[Part]
    misses: Mapping[Miss, Missed]


def take_simple(gate: Simple, rules: BashRules, root: str, *, fits: bool | None = None) -> _Parts:
    """Return the parts of a text that the gate read as one command, which wraps no other.

    `fits` says whether a rule does, where that is known already.
    """
    misses: dict[Miss, Missed] = {}
    return new(_Parts, ([_take(gate, rules, root, misses, fits=fits)], misses))


def take(commands: Sequence[Command], rules: BashRules, root: str) -> _Parts:
    """Every command with words in it. Of a wrapped one the inner is what the rules are about."""
    cores = _cores(commands) if len(commands) > 1 and any(map(_VIA, commands)) else None
    parts: list[Part] = []
    misses: dict[Miss, Missed] = {}
    for number, (words, _, _, _, via, nested) in enumerate(commands):
        if words.first or words:
            is_core = cores is None or number in cores
            parts.append(_take(words, rules, root, misses, via=via, nested=nested, is_core=is_core))
    return new(_Parts, (parts, misses))


def _take(  # noqa: PLR0913 -- what a Part holds, who takes it, and what is missed
    words: Words | Simple,
    rules: BashRules,
    root: str,
    misses: dict[Miss, Missed],
    *,
    via: tuple[str, ...] = (),
    nested: bool = False,
    is_core: bool = True,
    fits: bool | None = None,
) -> Part:
    program = words.first
    if rules.is_strange(program):
        part = new(Part, (words, program, None, False, via, nested))
        if is_core and Miss.PROGRAM not in misses:
            misses[Miss.PROGRAM] = new(Missed, (part, unlisted(rules, program)))
        return part
    argv, dynamic = words.argv, words.dynamic
    code = None if only_itself(program) else code_at(argv)
    admitted = rules.admits(argv, dynamic, root=root) if fits is None else fits
    part = new(Part, (words, program, code, admitted, via, nested))
    if is_core and not admitted and code is None:
        found = mismatch(rules, argv, dynamic, root=root)
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


def reached(parts: Sequence[Part], text: str) -> Iterator[Part]:
    """The commands of a text, without those that never run: behind `true ||` and `false &&`."""
    never, program, end = "", "", 0
    for part in parts:
        start, stop = part.words.extent
        if start >= end:  # else it stands inside the one before
            joint = text[end:start].strip()
            never = joint if joint and joint in (never, _NEVER_BEHIND.get(program)) else ""
            program, end = part.program, stop
        if not never:
            yield part


_NEVER_BEHIND = {"true": "||", ":": "||", "false": "&&"}
