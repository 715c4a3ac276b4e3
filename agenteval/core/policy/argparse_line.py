"""A script's command line as Python's argparse reads it.

Followed: `--name value` and `--name=value`, a prefix that fits one option
only, `-n5`, clusters of one-letter flags, `--`, negative numbers and words with a blank as values,
`--help` ending the reading. Positionals are dealt out between options: of `x --flag y` a second,
optional positional gets nothing and y is too much. That is the reading of Python 3.11, whichever
Python judges: a verdict is the same on all machines. Later ones take that y, and of an option with
several values a word with a dash. They differ in what a second `--` means, which never fits; nor
does any call of a script with sub-commands where more or less than one word may be a positional
before them: argparse looks at all words to tell which. An option that does not exist is told also
where `--help` behind it would end the reading.
"""

import re
from collections.abc import Sequence
from itertools import islice, takewhile

from agenteval.core.policy.command_line import (
    Argument,
    CommandLine,
    Invented,
    Kind,
    Misuse,
    bad_value,
    complaint,
    no_such,
    owed,
    unknown_option,
)

_Reading = tuple["Argument | None", str | None]
_NEGATIVE = re.compile(r"-\d+\Z|-\d*\.\d+\Z")


def read_argparse(line: CommandLine, argv: Sequence[str], start: int, root: str) -> Misuse | None:
    """The first way in which `argv[start:]` is no such command line; None when it is one."""
    return _Reader(line, argv, root).read(line, start)


class _Reader:
    def __init__(self, script: CommandLine, argv: Sequence[str], root: str) -> None:
        self.script = script
        self.argv = argv
        self.root = root
        self.ended = False  # by --help and the like

    def read(self, line: CommandLine, at: int) -> Misuse | None:  # noqa: PLR0911 -- a word each
        place_of: dict[str, int] = {}
        unfilled = list(line.positionals)
        run: list[int] = []  # where the words since the last option stand
        if line.commands and (loose := next(filter(_is_loose, unfilled), None)):
            return Misuse(at, f"{loose.name} must be one word, as a sub-command follows")
        while at < len(self.argv):
            word = self.argv[at]
            if word == "--":
                return self._last_words(line, at, unfilled, run, place_of) or self._owed(
                    line, place_of, unfilled
                )
            if _is_option(line, word):
                after = self._deal(unfilled, run, place_of) or self._option(line, at, place_of)
                if self.ended or not isinstance(after, int):
                    return None if isinstance(after, int) else after
                run, at = [], after
                continue
            if not run and (whole := self._rest_from(line, unfilled, at)):
                fault = self._deal(unfilled, whole, place_of)
                return fault or self._owed(line, place_of, unfilled, is_whole=True)
            if line.commands and len(run) == len(unfilled):
                if word not in line.commands:
                    return no_such(Invented.COMMAND, at, word, line.commands)
                before = self._deal(unfilled, run, place_of) or self._owed(line, place_of, unfilled)
                return before or self.read(line.commands[word], at + 1)
            run.append(at)
            at += 1
        return self._deal(unfilled, run, place_of) or self._owed(
            line, place_of, unfilled, is_whole=True
        )

    def _rest_from(self, line: CommandLine, unfilled: list[Argument], at: int) -> list[int]:
        """Return all words from here, if a positional that takes them can be reached from here."""
        if not unfilled or not unfilled[-1].is_rest:
            return []
        words = range(at, len(self.argv))
        plain = takewhile(lambda n: not self._is_mark(line, self.argv[n]), words)
        is_reached = sum(1 for _ in plain) >= sum(each.fewest for each in unfilled)
        return list(words) if is_reached else []

    @staticmethod
    def _is_mark(line: CommandLine, word: str) -> bool:
        return word == "--" or _is_option(line, word)

    def _last_words(
        self,
        line: CommandLine,
        at: int,
        unfilled: list[Argument],
        run: list[int],
        place_of: dict[str, int],
    ) -> Misuse | None:
        """Give the words behind the `--` that stands here to the positionals."""
        rest = range(at + 1, len(self.argv))
        again = next((n for n in rest if self.argv[n] == "--"), None)
        if again is not None:
            return Misuse(again, "-- may be given once only")
        if line.commands:
            return Misuse(at, "-- may not stand before a sub-command")
        if not unfilled:
            return Misuse(at, "nothing is left that could follow --")
        return self._deal(unfilled, [*run, *rest], place_of)

    def _deal(
        self, unfilled: list[Argument], run: Sequence[int], place_of: dict[str, int]
    ) -> Misuse | None:
        """Give the words of a run to as many unfilled positionals as can all get their words."""
        if not run:
            return None
        fitting: list[Argument] = []
        spare = len(run)
        while unfilled and spare >= unfilled[0].fewest:
            fitting.append(unfilled.pop(0))
            spare -= fitting[-1].fewest
        queue = iter(run)
        for argument in fitting:
            most_extra = spare if argument.most is None else argument.most - argument.fewest
            extra = min(spare, most_extra)
            spare -= extra
            for at in islice(queue, argument.fewest + extra):
                place_of[argument.name] = at
                if fault := complaint(argument, self.argv[at], self.root):
                    return bad_value(argument, at, self.argv[at], fault)
        if spare:
            at = next(queue)
            if unfilled:
                return Misuse(len(self.argv), f"{unfilled[0].name} is missing")
            return Misuse(at, f"{self.argv[at]!r} is one word too many")
        return None

    def _option(self, line: CommandLine, at: int, place_of: dict[str, int]) -> int | Misuse:
        """Read the option at `at` with its values. Return the place after them."""
        word = self.argv[at]
        option, value = _resolve(line, word)
        options = [option] if option else []
        if option and option.kind is Kind.FLAG and value and word[1] not in line.prefix:
            value = _clustered(line, word, value, options)
            option = options[-1] if value is None or options[-1].kind is not Kind.FLAG else None
        if option is None:
            return unknown_option(self.script, line, at, word.partition("=")[0])
        for member in options:
            if member.repeatable is False and member.name in place_of:
                return Misuse(at, f"{member.name} may be given once only")
            place_of[member.name] = at
        self.ended = any(member.ends for member in options)
        if value is not None:
            return self._carried(option, at, value) or at + 1
        return at + 1 if option.kind is Kind.FLAG else self._values(line, option, at + 1)

    def _carried(self, option: Argument, at: int, value: str) -> Misuse | None:
        """Return the fault of the value in the option's own word, or None."""
        if fault := complaint(option, value, self.root):
            return bad_value(option, at, value, fault)
        if option.fewest > 1 or value == "--":
            return Misuse(at, f"{option.name} needs its values as words of their own")
        return None

    def _values(self, line: CommandLine, option: Argument, start: int) -> int | Misuse:
        at = start
        while at < len(self.argv) and (option.most is None or at - start < option.most):
            if self._is_mark(line, self.argv[at]):
                break
            if fault := complaint(option, self.argv[at], self.root):
                return bad_value(option, at, self.argv[at], fault)
            at += 1
        if at - start < option.fewest:
            return Misuse(at, f"{option.name} needs a value")
        return at

    def _owed(
        self,
        line: CommandLine,
        place_of: dict[str, int],
        unfilled: list[Argument],
        *,
        is_whole: bool = False,
    ) -> Misuse | None:
        return owed(line, len(self.argv), place_of, unfilled, is_whole=is_whole)


def _clustered(line: CommandLine, word: str, letters: str, options: list[Argument]) -> str | None:
    """Add the other options of a cluster. Return the value of the last: -vqn5 is -v -q -n 5.

    A value behind a flag stands for a letter that is no option.
    """
    for place, letter in enumerate(letters):
        option = line.options.get(f"{word[0]}{letter}")
        if option is None:
            return letters[place:]
        options.append(option)
        if option.kind is not Kind.FLAG:
            return letters[place + 1 :] or None
    return None


def _is_loose(argument: Argument) -> bool:
    return (argument.fewest, argument.most) != (1, 1)


def _is_option(line: CommandLine, word: str) -> bool:
    if len(word) < 2 or word[0] not in line.prefix:
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
    if word[1] in line.prefix:
        if not line.abbreviations:
            return []
        return [(option, carried) for flag, option in line.options.items() if flag.startswith(name)]
    short = [(line.options[word[:2]], word[2:])] if word[:2] in line.options else []
    long = [(option, None) for flag, option in line.options.items() if flag.startswith(word)]
    return [*short, *long]
