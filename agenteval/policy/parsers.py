"""A script's command line as its parser reads it: the first word that does not fit.

`misuse` chooses the reader by the list's `parser`. One reads as Python's argparse does, one as
click, typer, GNU getopt and Go's package flag, and both share where each word belongs and what is
still missing at the end.

Of argparse followed are `--name value` and `--name=value`, a prefix that fits one option only,
`-n5`, clusters of one-letter flags, `--`, negative numbers and words with a blank as values, and
`--help` ending the reading. Positionals are dealt out between options: of `x --flag y` a second,
optional positional gets nothing and y is too much. That is the reading of Python 3.11, whichever
Python judges: a verdict is the same on all machines. Later ones take that y, and of an option with
several values a word with a dash. They differ in what a second `--` means, which never fits; nor
does any call of a script with sub-commands where more or less than one word may be a positional
before them: argparse looks at all words to tell which. An option that does not exist is told also
where `--help` behind it would end the reading.

The others share what argparse does otherwise: an option takes the words behind it whatever they
look like, so `--sql -x` and `--sql --` give values; options are read before any value is looked at,
and of an option given twice the last counts.
"""

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Sequence
from itertools import islice, takewhile
from typing import NamedTuple

from agenteval.policy.command_lines import (
    GO_NUMBERS,
    PYTHON_NUMBERS,
    Argument,
    Argv,
    CommandLine,
    Dynamic,
    Invented,
    Kind,
    Misuse,
    Parser,
    complaint,
)
from agenteval.trial.text import names

_NEGATIVE = re.compile(r"-\d+\Z|-\d*\.\d+\Z")
_TRUTH = re.compile("1|t|T|true|TRUE|True|0|f|F|false|FALSE|False")  # of Go


def misuse(
    line: CommandLine,
    argv: Argv,
    start: int,
    *,
    dynamic: Dynamic,
    root: str,
) -> Misuse | None:
    """Return the first way in which `argv[start:]` is no such command line; None if it is one.

    `dynamic` are the numbers of the words that bash still expands.
    """
    for number in sorted(dynamic):
        if number >= start:
            return Misuse(number, f"quote {argv[number]} or write it out: bash would expand it")
    reader = _ArgparseReader if line.parser is Parser.ARGPARSE else _PlainReader
    return reader(line, line, argv, root).read(start)


# What both readers share.


class _Value(NamedTuple):
    argument: Argument
    at: int
    text: str


class _Reader(ABC):
    """The words that follow a script or one of its sub-commands, and where each belongs."""

    def __init__(
        self,
        script: CommandLine,
        line: CommandLine,
        argv: Argv,
        root: str,
    ) -> None:
        self.script = script
        self.line = line
        self.argv = argv
        self.root = root
        # By the name of an option or positional.
        self.place_of: dict[str, int] = {}
        # Positionals without words.
        self.unfilled = list(line.positionals)
        # Of a plain reader, which looks at them when all options are read.
        self.values: list[_Value] = []

    @abstractmethod
    def read(self, at: int) -> Misuse | None:
        """Return the first fault from the word at `at` on."""

    def below(self, at: int) -> Misuse | None:
        """Read what follows the sub-command at `at`."""
        command = self.line.commands[self.argv[at]]
        return type(self)(self.script, command, self.argv, self.root).read(at + 1)

    def place(self, option: Argument, at: int) -> Misuse | None:
        """Note where an option stands."""
        if option.repeatable is False and option.name in self.place_of:
            return Misuse(at, f"{option.name} may be given once only")
        self.place_of[option.name] = at
        return None

    def value_fault(self, argument: Argument, at: int, value: str) -> Misuse | None:
        """Return the fault of a value, phrased as the fix; of a choice a plain word is made up."""
        numbers = GO_NUMBERS if self.line.parser is Parser.GO else PYTHON_NUMBERS
        fault = complaint(argument, value, self.root, numbers)
        if not fault:
            return None
        # Only a word that could be a choice is made up; other text is of another kind.
        is_plain = value.replace("-", "").replace("_", "").isalnum()
        if not argument.choices or not is_plain:
            return Misuse(at, fault)
        near = names(frozenset(argument.choices)).nearest(value)
        return Misuse(at, fault, value, Invented.VALUE, near)

    def no_command(self, at: int) -> Misuse:
        return _no_such(Invented.COMMAND, at, self.argv[at], self.line.commands)

    def unknown_option(self, at: int, name: str) -> Misuse:
        """Return why `name` is no option here."""
        if name in self.script.flags():
            return Misuse(at, f"{name} does not belong here, but to another sub-command")
        fitting = [flag for flag in self.line.options if flag.startswith(name)]
        if self.line.abbreviations and len(fitting) > 1:
            return Misuse(at, f"{name} could be more than one option: write it out")
        return _no_such(Invented.OPTION, at, name, self.line.options)

    def owed(self, *, is_whole: bool = False) -> Misuse | None:
        """Return what is missing at the end, or may not stand together.

        With `is_whole` no sub-command has come.
        """
        line, end = self.line, len(self.argv)
        for option in line.options.values():
            if option.required and option.name not in self.place_of:
                return Misuse(end, f"{option.name} is required")
        for argument in self.unfilled:
            if argument.fewest:
                return Misuse(end, f"{argument.name} is missing")
        for group in line.groups:
            members = [name for name in group.names if name in self.place_of]
            if len(members) > 1:
                at = max(self.place_of[name] for name in members)
                both = " and ".join(members[:2])
                return Misuse(at, f"{both} exclude each other: give one of them")
            if group.required and not members:
                return Misuse(end, f"one of {', '.join(group.names)} is required")
        if is_whole and line.commands and not line.command_optional:
            return Misuse(end, f"a sub-command is needed: {', '.join(line.commands)}")
        return None


def _no_such(
    what: Invented,
    at: int,
    word: str,
    known: Collection[str],
) -> Misuse:
    """Return the misuse of an option or sub-command that is not there; the nearest is the cure."""
    shown = [name for name in sorted(known) if name.lstrip("-+/") not in {"h", "help"}]
    near = names(frozenset(shown)).nearest(word)
    cure = f"did you mean {near}?" if near else f"use {', '.join(shown) or 'none'}"
    return Misuse(at, f"there is no {what} {word}: {cure}", word, what, near)


# Python's argparse.


class _ArgparseReader(_Reader):
    # By --help and the like.
    has_ended = False

    def read(self, at: int) -> Misuse | None:  # noqa: PLR0911 -- a word each
        # Where the words since the last option stand: argparse deals them out together.
        run: list[int] = []
        loose = next(filter(_is_loose, self.unfilled), None)
        if self.line.commands and loose:
            return Misuse(at, f"{loose.name} must be one word, as a sub-command follows")
        while at < len(self.argv):
            word = self.argv[at]
            if word == "--":
                return self._last_words(at, run) or self.owed()
            if self._is_option(word):
                after = self._deal(run) or self._option(at)
                if isinstance(after, Misuse):
                    return after
                if self.has_ended:
                    return None
                run, at = [], after
                continue
            rest = [] if run else self._rest_from(at)
            if rest:
                return self._deal(rest) or self.owed(is_whole=True)
            if self.line.commands and len(run) == len(self.unfilled):
                if word not in self.line.commands:
                    return self.no_command(at)
                return self._deal(run) or self.owed() or self.below(at)
            run.append(at)
            at += 1
        return self._deal(run) or self.owed(is_whole=True)

    def _rest_from(self, at: int) -> list[int]:
        """Return all words from here, if a positional that takes them can be reached from here."""
        if not self.unfilled or not self.unfilled[-1].is_rest:
            return []
        plain = takewhile(lambda word: not self._is_mark(word), self.argv[at:])
        fewest = sum(argument.fewest for argument in self.unfilled)
        is_reached = len(list(plain)) >= fewest
        return [*range(at, len(self.argv))] if is_reached else []

    def _is_mark(self, word: str) -> bool:
        return word == "--" or self._is_option(word)

    def _last_words(self, at: int, run: list[int]) -> Misuse | None:
        """Give the words behind the `--` that stands here to the positionals."""
        rest = range(at + 1, len(self.argv))
        for number in rest:
            if self.argv[number] == "--":
                return Misuse(number, "-- may be given once only")
        if self.line.commands:
            return Misuse(at, "-- may not stand before a sub-command")
        if not self.unfilled:
            return Misuse(at, "nothing is left that could follow --")
        return self._deal([*run, *rest])

    def _deal(self, run: Sequence[int]) -> Misuse | None:
        """Give the words of a run to as many unfilled positionals as can all get their words."""
        if not run:
            return None
        fitting: list[Argument] = []
        spare = len(run)
        while self.unfilled and spare >= self.unfilled[0].fewest:
            fitting.append(self.unfilled.pop(0))
            spare -= fitting[-1].fewest
        queue = iter(run)
        for argument in fitting:
            most_extra = spare if argument.most is None else argument.most - argument.fewest
            extra = min(spare, most_extra)
            spare -= extra
            for at in islice(queue, argument.fewest + extra):
                self.place_of[argument.name] = at
                if fault := self.value_fault(argument, at, self.argv[at]):
                    return fault
        if not spare:
            return None
        if self.unfilled:
            return Misuse(len(self.argv), f"{self.unfilled[0].name} is missing")
        at = next(queue)
        return Misuse(at, f"{self.argv[at]!r} is one word too many")

    def _option(self, at: int) -> int | Misuse:
        """Read the option at `at` with its values. Return the place after them."""
        word = self.argv[at]
        readings = self._readings(word)
        if len(readings) != 1:
            return self.unknown_option(at, word.partition("=")[0])
        option, value = readings[0]
        options = [option]
        is_short = word[1] not in self.line.prefix
        if option.kind is Kind.FLAG and value and is_short:
            value = self._clustered(word, value, options)
            option = options[-1]
            if value is not None and option.kind is Kind.FLAG:
                return self.unknown_option(at, word.partition("=")[0])
        for member in options:
            if fault := self.place(member, at):
                return fault
        # What stands before help was read, and may be wrong; nothing behind it is looked at.
        self.has_ended = any(member.ends for member in options)
        if value is not None:
            return self._carried(option, at, value) or at + 1
        return at + 1 if option.kind is Kind.FLAG else self._values(option, at + 1)

    def _carried(self, option: Argument, at: int, value: str) -> Misuse | None:
        """Return the fault of the value in the option's own word, or None."""
        if fault := self.value_fault(option, at, value):
            return fault
        if option.fewest > 1 or value == "--":
            return Misuse(at, f"{option.name} needs its values as words of their own")
        return None

    def _values(self, option: Argument, start: int) -> int | Misuse:
        stop = len(self.argv)
        if option.most is not None:
            stop = min(stop, start + option.most)
        at = start
        while at < stop and not self._is_mark(self.argv[at]):
            if fault := self.value_fault(option, at, self.argv[at]):
                return fault
            at += 1
        if at - start < option.fewest:
            return Misuse(at, f"{option.name} needs a value")
        return at

    def _clustered(
        self,
        word: str,
        letters: str,
        options: list[Argument],
    ) -> str | None:
        """Add the other options of a cluster. Return the value of the last: -vqn5 is -v -q -n 5.

        A value behind a flag stands for a letter that is no option.
        """
        for place, letter in enumerate(letters):
            option = self.line.options.get(f"{word[0]}{letter}")
            if option is None:
                return letters[place:]
            options.append(option)
            if option.kind is not Kind.FLAG:
                return letters[place + 1 :] or None
        return None

    def _is_option(self, word: str) -> bool:
        if len(word) < 2 or word[0] not in self.line.prefix:
            return False
        if self._readings(word):
            return True
        if _NEGATIVE.match(word):
            return any(map(_NEGATIVE.match, self.line.options))
        return " " not in word

    def _readings(self, word: str) -> "list[_Reading]":
        """Return the options that a word may name, each with the value that it carries itself."""
        options = self.line.options
        if word in options:
            return [(options[word], None)]
        name, equals, value = word.partition("=")
        carried = value if equals else None
        if name in options:
            return [(options[name], carried)]
        if word[1] in self.line.prefix:
            if not self.line.abbreviations:
                return []
            return [(option, carried) for flag, option in options.items() if flag.startswith(name)]
        readings: list[_Reading] = []
        if word[:2] in options:
            readings.append((options[word[:2]], word[2:]))
        readings += [(option, None) for flag, option in options.items() if flag.startswith(word)]
        return readings


_Reading = tuple[Argument, str | None]


def _is_loose(argument: Argument) -> bool:
    return (argument.fewest, argument.most) != (1, 1)


# click, typer, GNU getopt, Go's package flag, and scripts without any parser.


class _PlainReader(_Reader):
    @property
    def is_go(self) -> bool:
        return self.line.parser is Parser.GO

    def read(self, at: int) -> Misuse | None:
        words = self._options(at)
        if isinstance(words, Misuse):
            return words
        # That reads each at once; others forget earlier ones.
        if not self.is_go:
            self.values = [value for value in self.values if self._counts(value)]
        is_over = self._is_over()
        rest = self._deal(words)
        if is_over:
            return self._before_help()
        fault = self._wrong_value() or self.owed(is_whole=not rest)
        if fault or not rest:
            return fault
        word = self.argv[rest[0]]
        if not self.line.commands:
            return Misuse(rest[0], f"{word!r} is one word too many")
        if word in self.line.commands:
            return self.below(rest[0])
        return None if self._asks_for_help(rest[0]) else self.no_command(rest[0])

    def _counts(self, value: _Value) -> bool:
        argument = value.argument
        return bool(argument.repeatable) or value.at >= self.place_of[argument.name]

    def _is_over(self) -> bool:
        """Return True if one of the options so far ends the reading, as for help."""
        return any(self.line.options[name].ends for name in self.place_of)

    def _before_help(self) -> Misuse | None:
        """Return the fault before help is given: Go reads values at once, click counts them."""
        if self.is_go:
            return self._wrong_value()
        for argument in self.unfilled:
            if argument.name in self.place_of:
                return Misuse(len(self.argv), f"{argument.name} needs {argument.fewest} values")
        return None

    def _asks_for_help(self, at: int) -> bool:
        """Return True if options where a sub-command should stand, read once more, ask for help."""
        again = _PlainReader(self.script, self.line, self.argv, self.root)
        return not isinstance(again._options(at), Misuse) and again._is_over()

    def _options(self, at: int) -> list[int] | Misuse:
        """Read every option. Return the places of the words that are none."""
        words: list[int] = []
        is_first_word_last = bool(self.line.commands) or self.is_go
        while at < len(self.argv):
            word = self.argv[at]
            if self.line.parser is Parser.NONE:
                words.append(at)
            elif word == "--":
                return [*words, *range(at + 1, len(self.argv))]
            elif len(word) > 1 and word[0] in self.line.prefix:
                after = self._option(at)
                if isinstance(after, Misuse):
                    return after
                at = after
                if self.is_go and self._is_over():
                    # The others read all before they help.
                    return words
                continue
            elif is_first_word_last:
                return [*words, *range(at, len(self.argv))]
            else:
                words.append(at)
            at += 1
        return words

    def _option(self, at: int) -> int | Misuse:
        word = self.argv[at]
        name, equals, carried = word.partition("=")
        if option := self._long(name):
            return self._take(option, at, carried if equals else None)
        if word[1] in self.line.prefix or self.is_go:
            return self.unknown_option(at, name)
        for place in range(1, len(word)):
            option = self.line.options.get(word[0] + word[place])
            if option is None:
                return self.unknown_option(at, name)
            if option.kind is not Kind.FLAG:
                return self._take(option, at, word[place + 1 :] or None)
            self._take(option, at, None)
        return at + 1

    def _long(self, name: str) -> Argument | None:
        """Return the option of this name, where it is no cluster of letters."""
        options = self.line.options
        if self.is_go:
            bare = name[1:].removeprefix("-")
            if not bare or bare[0] == "-":
                return None
            return options.get(f"-{bare}") or options.get(f"--{bare}")
        if name in options and (len(name) > 2 or name[1] in self.line.prefix):
            return options[name]
        if self.line.parser is not Parser.GETOPT or not self.line.abbreviations:
            return None
        if not name.startswith("--"):
            return None
        fitting = {option for flag, option in options.items() if flag.startswith(name)}
        return fitting.pop() if len(fitting) == 1 else None

    def _take(
        self,
        option: Argument,
        at: int,
        carried: str | None,
    ) -> int | Misuse:
        """Record an option with its values. Return the place after them."""
        if fault := self.place(option, at):
            return fault
        if option.kind is Kind.FLAG:
            if carried is None or (self.is_go and _TRUTH.fullmatch(carried)):
                return at + 1
            return Misuse(at, f"{option.name} takes no value")
        own_values: list[_Value] = []
        if carried is not None:
            own_values.append(_Value(option, at, carried))
        most = max(option.fewest, 1)
        at += 1
        while len(own_values) < most and self._may_take(option, at):
            own_values.append(_Value(option, at, self.argv[at]))
            at += 1
        if len(own_values) < option.fewest:
            return Misuse(len(self.argv), f"{option.name} needs a value")
        self.values += own_values
        return at

    def _may_take(self, option: Argument, at: int) -> bool:
        """Return True for any word there is; for none like an option if no value is needed."""
        if at == len(self.argv):
            return False
        word = self.argv[at]
        return bool(option.fewest) or len(word) < 2 or word[0] not in self.line.prefix

    def _wrong_value(self) -> Misuse | None:
        faults = (self.value_fault(*value) for value in self.values)
        return next(filter(None, faults), None)

    def _deal(self, words: Sequence[int]) -> list[int]:
        """Give the words to the positionals. Return those left over.

        Each takes its words from the left, those behind one that takes any number from the right.
        """
        queue = deque(words)
        positionals = self.line.positionals
        wide = [n for n, argument in enumerate(positionals) if argument.most is None]
        middle = wide[0] if wide else len(positionals)
        dealt = []
        for argument in positionals[:middle]:
            places = [queue.popleft() for _ in range(min(argument.most or 0, len(queue)))]
            dealt.append((argument, places))
        for argument in reversed(positionals[middle + 1 :]):
            places = [queue.pop() for _ in range(min(argument.most or 0, len(queue)))]
            dealt.append((argument, places[::-1]))
        if wide:
            dealt.append((positionals[middle], list(queue)))
            queue.clear()
        self.unfilled = []
        for argument, places in dealt:
            if len(places) < argument.fewest or not places:
                self.unfilled.append(argument)
            for at in places:
                self.place_of[argument.name] = at
                self.values.append(_Value(argument, at, self.argv[at]))
        return list(queue)
