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

A script's command line as click, typer, GNU getopt and Go's package flag read it.

They share what argparse does otherwise: an option takes the words behind it whatever they look
like, so `--sql -x` and `--sql --` give values; options are read before any value is looked at, and
of an option given twice the last counts.
"""

import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence, Sized
from itertools import islice, takewhile
from typing import NamedTuple

from agenteval.policy.command_lines import (
    NUMBERS,
    Argument,
    CommandLine,
    Invented,
    Kind,
    Misuse,
    Numbers,
    Parser,
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
    return _ArgparseReader(line, argv, root).read(line, start)


class _ArgparseReader:
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


_TRUTH = re.compile("1|t|T|true|TRUE|True|0|f|F|false|FALSE|False")  # of Go


class _Value(NamedTuple):
    argument: Argument
    at: int
    text: str


def read_plain(line: CommandLine, argv: Sequence[str], start: int, root: str) -> Misuse | None:
    """The first way in which `argv[start:]` is no such command line; None when it is one."""
    return _PlainReader(line, argv, root).read(line, start)


class _PlainReader:
    def __init__(self, script: CommandLine, argv: Sequence[str], root: str) -> None:
        self.script = script
        self.argv = argv
        self.root = root

    def read(self, line: CommandLine, at: int) -> Misuse | None:  # noqa: PLR0911 -- one a stage
        values: list[_Value] = []
        place_of: dict[str, int] = {}
        words = self._options(line, at, values, place_of)
        if isinstance(words, Misuse):
            return words
        if line.parser is not Parser.GO:  # that reads each at once; others forget earlier ones
            values = [
                v for v in values if v.argument.repeatable or v.at >= place_of[v.argument.name]
            ]
        numbers = _GO_NUMBERS if line.parser is Parser.GO else NUMBERS
        is_over = _is_over(line, place_of)
        unfilled, rest = _dealt(line, words, self.argv, values, place_of)
        if is_over:
            return self._before_help(
                line, [each for each in unfilled if each.name in place_of], values
            )
        fault = self._wrong_value(values, numbers) or owed(
            line, len(self.argv), place_of, unfilled, is_whole=not rest
        )
        if fault or not rest:
            return fault
        word = self.argv[rest[0]]
        if not line.commands:
            return Misuse(rest[0], f"{word!r} is one word too many")
        if word not in line.commands:
            if self._asks_for_help(line, rest[0]):
                return None
            return no_such(Invented.COMMAND, rest[0], word, line.commands)
        return self.read(line.commands[word], rest[0] + 1)

    def _before_help(
        self, line: CommandLine, begun: Sequence[Argument], values: Sequence[_Value]
    ) -> Misuse | None:
        """Return the fault before help is given: Go reads values at once, click counts them."""
        if line.parser is Parser.GO:
            return self._wrong_value(values, _GO_NUMBERS)
        return next(
            (Misuse(len(self.argv), f"{each.name} needs {each.fewest} values") for each in begun),
            None,
        )

    def _asks_for_help(self, line: CommandLine, at: int) -> bool:
        """Options where a sub-command should stand are read once more."""
        given: dict[str, int] = {}
        words = self._options(line, at, [], given)
        return not isinstance(words, Misuse) and _is_over(line, given)

    def _options(
        self, line: CommandLine, at: int, values: list[_Value], place_of: dict[str, int]
    ) -> list[int] | Misuse:
        """Read every option. Return the places of the words that are none."""
        words: list[int] = []
        is_first_word_last = bool(line.commands) or line.parser is Parser.GO
        while at < len(self.argv):
            word = self.argv[at]
            if line.parser is Parser.NONE:
                words.append(at)
            elif word == "--":
                return [*words, *range(at + 1, len(self.argv))]
            elif len(word) > 1 and word[0] in line.prefix:
                after = self._option(line, at, values, place_of)
                if not isinstance(after, int):
                    return after
                at = after
                if line.parser is Parser.GO and _is_over(line, place_of):
                    return words  # the others read all before they help
                continue
            elif is_first_word_last:
                return [*words, *range(at, len(self.argv))]
            else:
                words.append(at)
            at += 1
        return words

    def _option(
        self, line: CommandLine, at: int, values: list[_Value], place_of: dict[str, int]
    ) -> int | Misuse:
        word = self.argv[at]
        name, equals, carried = word.partition("=")
        if option := _long(line, name):
            return self._take(line, option, at, carried if equals else None, values, place_of)
        is_long = word[1] in line.prefix or line.parser is Parser.GO
        if is_long:
            return unknown_option(self.script, line, at, name)
        for place in range(1, len(word)):
            option = line.options.get(word[0] + word[place])
            if option is None:
                return unknown_option(self.script, line, at, name)
            if option.kind is not Kind.FLAG:
                tail = word[place + 1 :] or None
                return self._take(line, option, at, tail, values, place_of)
            self._take(line, option, at, None, values, place_of)
        return at + 1

    def _take(  # noqa: PLR0913, PLR0917 -- what a reader holds, and where it stands
        self,
        line: CommandLine,
        option: Argument,
        at: int,
        carried: str | None,
        values: list[_Value],
        place_of: dict[str, int],
    ) -> int | Misuse:
        """Record an option with its values. Return the place after them."""
        if option.repeatable is False and option.name in place_of:
            return Misuse(at, f"{option.name} may be given once only")
        place_of[option.name] = at
        if option.kind is Kind.FLAG:
            if carried is None or (line.parser is Parser.GO and _TRUTH.fullmatch(carried)):
                return at + 1
            return Misuse(at, f"{option.name} takes no value")
        own_values = [] if carried is None else [_Value(option, at, carried)]
        most = max(option.fewest, 1)
        at += 1
        while len(own_values) < most and at < len(self.argv) and self._may_take(line, option, at):
            own_values.append(_Value(option, at, self.argv[at]))
            at += 1
        if len(own_values) < option.fewest:
            return Misuse(len(self.argv), f"{option.name} needs a value")
        values += own_values
        return at

    def _may_take(self, line: CommandLine, option: Argument, at: int) -> bool:
        """A value that may be left out is no word that looks like an option."""
        word = self.argv[at]
        return bool(option.fewest) or len(word) < 2 or word[0] not in line.prefix

    def _wrong_value(self, values: Sequence[_Value], numbers: Numbers) -> Misuse | None:
        for argument, at, text in values:
            if fault := complaint(argument, text, self.root, numbers):
                return bad_value(argument, at, text, fault)
        return None


def _is_over(line: CommandLine, names: Iterable[str]) -> bool:
    """Return True if help was requested, which ends the reading."""
    return any(line.options[name].ends for name in names)


def _go_int(text: str) -> None:
    """A leading zero alone means octal, and 64 bits hold it."""
    if not -(1 << 63) <= int(_OCTAL.sub(r"\g<1>0o", _bare(text)), 0) < 1 << 63:
        raise ValueError(text)


def _go_float(text: str) -> None:
    is_hex = _HEX.fullmatch(_bare(text))
    value = float.fromhex(text) if is_hex else float(text)
    if not (math.isfinite(value) or _NO_NUMBER.fullmatch(text)):
        raise ValueError(text)


def _bare(text: str) -> str:
    """The text, without what Python reads in numbers and Go does not. Raises ValueError."""
    if not text.isascii() or text != text.strip():
        raise ValueError(text)
    return text


_OCTAL = re.compile(r"^([+-]?)0(?=[_0-7])")
_HEX = re.compile(r"[+-]?0[xX].*[pP].*")
_NO_NUMBER = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE)
_GO_NUMBERS: Numbers = {Kind.INT: _go_int, Kind.FLOAT: _go_float}


def _long(line: CommandLine, name: str) -> Argument | None:
    """The option of this name, where it is no cluster of letters."""
    if line.parser is Parser.GO:
        bare = name[1:].removeprefix("-")
        if not bare or bare[0] == "-":
            return None
        return line.options.get(f"-{bare}") or line.options.get(f"--{bare}")
    if name in line.options and (len(name) > 2 or name[1] in line.prefix):
        return line.options[name]
    if line.parser is not Parser.GETOPT or not line.abbreviations or not name.startswith("--"):
        return None
    found = {option for flag, option in line.options.items() if flag.startswith(name)}
    return found.pop() if len(found) == 1 else None


def _dealt(
    line: CommandLine,
    words: Sequence[int],
    argv: Sequence[str],
    values: list[_Value],
    place_of: dict[str, int],
) -> tuple[list[Argument], list[int]]:
    """Give the words to the positionals. Return those without words, and the words left over.

    Each takes its words from the left, those behind one that takes any number from the right.
    """
    queue = deque(words)
    unfilled: list[Argument] = []
    wide = [n for n, each in enumerate(line.positionals) if each.most is None]
    at = wide[0] if wide else len(line.positionals)
    dealt = [(each, _take_words(queue.popleft, queue, each)) for each in line.positionals[:at]]
    behind = reversed(line.positionals[at + 1 :])
    dealt += [(each, _take_words(queue.pop, queue, each)[::-1]) for each in behind]
    if wide:
        dealt.append((line.positionals[at], list(queue)))
        queue.clear()
    for argument, places in dealt:
        if len(places) < argument.fewest or not places:
            unfilled.append(argument)
        for at in places:
            place_of[argument.name] = at
            values.append(_Value(argument, at, argv[at]))
    return unfilled, list(queue)


def _take_words(take: Callable[[], int], queue: Sized, argument: Argument) -> list[int]:
    return [take() for _ in range(min(argument.most or 0, len(queue)))]
