"""The exact command line of a listed script, read as Python's argparse reads it.

Followed: `--name value` and `--name=value`, a prefix that fits one option only, `-n5`, clusters of
one-letter flags, `--`, negative numbers and words with a blank as values, `--help` ending the
reading. Positionals are dealt out between options: of `x --flag y` a second, optional positional
gets nothing and y is too much. Later versions of Python are kinder there, and differ in what a
second `--` means, which never fits; nor does any call of a script with sub-commands where more or
less than one word may be a positional before them: argparse looks at all words to tell which.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Self

from agenteval.core.nearest import names
from agenteval.core.policy.arguments import Argument, Kind, complaint

HELP = Argument("--help", Kind.FLAG, aliases=("-h",))
_Reading = tuple["Argument | None", str | None]
_NEGATIVE = re.compile(r"-\d+\Z|-\d*\.\d+\Z")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What may follow a script's path, or the name of one of its sub-commands."""

    options: Mapping[str, Argument]  # by every name and alias, --help among them
    positionals: tuple[Argument, ...] = ()
    commands: Mapping[str, "CommandLine"] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        options: Collection[Argument] = (),
        positionals: tuple[Argument, ...] = (),
        commands: Mapping[str, "CommandLine"] | None = None,
    ) -> Self:
        by_name = {n: option for option in (HELP, *options) for n in (option.name, *option.aliases)}
        return cls(by_name, positionals, commands or {})

    def flags(self) -> Iterator[str]:
        """Every option's name, of the sub-commands too."""
        yield from self.options
        for command in self.commands.values():
            yield from command.flags()


@dataclass(frozen=True, slots=True)
class Misuse:
    """Why a command line does not fit, and at which word; past the last, something is missing."""

    at: int
    hint: str
    invented: str = ""  # the option that exists nowhere in the script


def misuse(
    line: CommandLine, argv: Sequence[str], start: int, *, dynamic: Collection[int], root: str
) -> Misuse | None:
    """The first way in which `argv[start:]` is no such command line; None when it is one."""
    for number in sorted(dynamic):
        if number >= start:
            return Misuse(number, f"quote {argv[number]} or write it out: bash would expand it")
    return _Reader(line, argv, root).read(line, start)


class _Reader:
    def __init__(self, script: CommandLine, argv: Sequence[str], root: str) -> None:
        self.script = script
        self.argv = argv
        self.root = root

    def read(self, line: CommandLine, at: int) -> Misuse | None:
        seen: set[str] = set()
        left = list(line.positionals)
        run: list[int] = []  # where the words since the last option stand
        if line.commands and (loose := next(filter(_is_loose, left), None)):
            return Misuse(at, f"{loose.name} must be one word, as a sub-command follows")
        while at < len(self.argv):
            word = self.argv[at]
            if word == "--":
                return self._last_words(line, at, left, run) or self._owed(line, seen, left)
            if _is_option(line, word):
                after = self._deal(left, run) or self._option(line, at, seen)
                if HELP.name in seen or not isinstance(after, int):
                    return None if isinstance(after, int) else after
                run, at = [], after
                continue
            if line.commands and len(run) == len(left):
                if word not in line.commands:
                    return Misuse(at, _no_such("sub-command", word, line.commands))
                before = self._deal(left, run) or self._owed(line, seen, left)
                return before or self.read(line.commands[word], at + 1)
            run.append(at)
            at += 1
        return self._deal(left, run) or self._owed(line, seen, left, is_whole=True)

    def _last_words(
        self, line: CommandLine, at: int, left: list[Argument], run: list[int]
    ) -> Misuse | None:
        """Deals out what follows the `--` that stands here."""
        rest = range(at + 1, len(self.argv))
        again = next((n for n in rest if self.argv[n] == "--"), None)
        if again is not None:
            return Misuse(again, "-- may be given once only")
        if line.commands:
            return Misuse(at, "-- may not stand before a sub-command")
        if not left:
            return Misuse(at, "nothing is left that could follow --")
        return self._deal(left, [*run, *rest])

    def _deal(self, left: list[Argument], run: list[int]) -> Misuse | None:
        """Gives the words of a run to as many of the positionals left as can all be served."""
        if not run:
            return None
        fitting: list[Argument] = []
        spare = len(run)
        while left and spare >= left[0].fewest:
            fitting.append(left.pop(0))
            spare -= fitting[-1].fewest
        queue = iter(run)
        for argument in fitting:
            room = spare if argument.most is None else argument.most - argument.fewest
            extra = min(spare, room)
            spare -= extra
            for at in islice(queue, argument.fewest + extra):
                if fault := complaint(argument, self.argv[at], self.root):
                    return Misuse(at, fault)
        if spare:
            at = next(queue)
            if left:
                return Misuse(len(self.argv), f"{left[0].name} is missing")
            return Misuse(at, f"{self.argv[at]!r} is one word too many")
        return None

    def _option(self, line: CommandLine, at: int, seen: set[str]) -> int | Misuse:
        """Reads the option at `at` with its values: the place after them."""
        word = self.argv[at]
        option, value = _resolve(line, word)
        if option and option.kind is Kind.FLAG and value and not word.startswith("--"):
            option, value = _clustered(line, option, value, seen)
        if option is None:
            return self._unknown(line, at)
        if option.name in seen and not option.repeatable:
            return Misuse(at, f"{option.name} may be given once only")
        seen.add(option.name)
        if value is None and option.kind is Kind.FLAG:
            return at + 1
        if value is not None:
            fault = complaint(option, value, self.root)
            if not fault and (option.fewest > 1 or value == "--"):
                fault = f"{option.name} needs its values as words of their own"
            return Misuse(at, fault) if fault else at + 1
        return self._values(line, option, at + 1)

    def _values(self, line: CommandLine, option: Argument, start: int) -> int | Misuse:
        at = start
        while at < len(self.argv) and (option.most is None or at - start < option.most):
            if self.argv[at] == "--" or _is_option(line, self.argv[at]):
                break
            fault = complaint(option, self.argv[at], self.root)
            if fault:
                return Misuse(at, fault)
            at += 1
        if at - start < option.fewest:
            return Misuse(at, f"{option.name} needs a value")
        return at

    def _unknown(self, line: CommandLine, at: int) -> Misuse:
        name = self.argv[at].partition("=")[0]
        if name in self.script.flags():
            return Misuse(at, f"{name} does not belong here, but to another sub-command")
        if sum(flag.startswith(name) for flag in line.options) > 1:
            return Misuse(at, f"{name} could be more than one option: write it out")
        return Misuse(at, _no_such("option", name, line.options), invented=name)

    def _owed(
        self, line: CommandLine, seen: set[str], left: list[Argument], *, is_whole: bool = False
    ) -> Misuse | None:
        """What is missing once every word has its place; with `is_whole` a sub-command too."""
        for option in line.options.values():
            if option.required and option.name not in seen:
                return Misuse(len(self.argv), f"{option.name} is required")
        for argument in left:
            if argument.fewest:
                return Misuse(len(self.argv), f"{argument.name} is missing")
        if is_whole and line.commands:
            return Misuse(len(self.argv), f"a sub-command is needed: {', '.join(line.commands)}")
        return None


def _clustered(
    line: CommandLine, first: Argument, letters: str, seen: set[str]
) -> tuple[Argument | None, str | None]:
    """The last option of a cluster, with the value behind it: -vqn5 is -v -q -n 5."""
    option: Argument | None = first
    for place, letter in enumerate(letters):
        if option is None or option.kind is not Kind.FLAG:
            return option, letters[place:]
        seen.add(option.name)
        option = line.options.get(f"-{letter}")
    return option, None


def _is_loose(argument: Argument) -> bool:
    return (argument.fewest, argument.most) != (1, 1)


def _is_option(line: CommandLine, word: str) -> bool:
    if not word.startswith("-") or len(word) == 1:
        return False
    if _readings(line, word):
        return True
    if _NEGATIVE.match(word):
        return any(map(_NEGATIVE.match, line.options))
    return " " not in word


def _resolve(line: CommandLine, word: str) -> _Reading:
    """The option that a word names, and the value that it carries itself."""
    found = _readings(line, word)
    return found[0] if len(found) == 1 else (None, None)


def _readings(line: CommandLine, word: str) -> list[_Reading]:
    if word in line.options:
        return [(line.options[word], None)]
    name, equals, value = word.partition("=")
    carried = value if equals else None
    if name in line.options:
        return [(line.options[name], carried)]
    if word.startswith("--"):
        return [(option, carried) for flag, option in line.options.items() if flag.startswith(name)]
    short = [(line.options[word[:2]], word[2:])] if word[:2] in line.options else []
    long = [(option, None) for flag, option in line.options.items() if flag.startswith(word)]
    return [*short, *long]


def _no_such(what: str, word: str, known: Collection[str]) -> str:
    near = names(frozenset(known)).nearest(word)
    others = ", ".join(name for name in sorted(known) if name not in {HELP.name, *HELP.aliases})
    cure = f"did you mean {near}?" if near else f"use {others or 'none'}"
    return f"there is no {what} {word}: {cure}"
