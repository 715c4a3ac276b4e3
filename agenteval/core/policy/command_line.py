"""Command lines of listed scripts: options, positionals, sub-commands, and who reads them."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from agenteval.core.nearest import names
from agenteval.core.policy.patterns import normalise


class Kind(StrEnum):
    """The kind of value that an argument must have; a flag takes none."""

    STR = "str"
    INT = "int"
    FLOAT = "float"
    CHOICE = "choice"
    PATH = "path"
    JSON = "json"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Argument:
    """One option or positional. `most` None: any number of values.

    `repeatable` None: it may be given again, and the last one counts; True: each one counts.
    `ends` marks an option at which the script stops, as for help. `is_rest` marks a positional that
    takes all that is left, options too.
    """

    name: str
    kind: Kind = Kind.STR
    choices: tuple[str, ...] = ()
    fewest: int = 1
    most: int | None = 1
    aliases: tuple[str, ...] = ()
    required: bool = False
    repeatable: bool | None = None
    ends: bool = False
    is_rest: bool = False


Numbers = Mapping[Kind, Callable[[str], object]]
NUMBERS: Numbers = {Kind.INT: int, Kind.FLOAT: float}


def complaint(argument: Argument, value: str, root: str, numbers: Numbers = NUMBERS) -> str:
    """Return the fault of a value, phrased as the fix; empty if it fits.

    `numbers` read those of a kind and raise ValueError or OverflowError about any other text.
    """
    if argument.kind is Kind.FLAG:
        return f"{argument.name} takes no value"
    if argument.choices and value not in argument.choices:
        return f"{argument.name} must be one of {', '.join(argument.choices)}, not {value!r}"
    if _fits(argument.kind, value, root, numbers):
        return ""
    return f"{argument.name} must be {_WANTED[argument.kind]}, not {value!r}"


_WANTED = {
    Kind.INT: "a whole number",
    Kind.FLOAT: "a number",
    Kind.JSON: "valid JSON",
    Kind.PATH: "a path inside the workspace",
}


def _fits(kind: Kind, value: str, root: str, numbers: Numbers) -> bool:
    try:
        match kind:
            case Kind.INT | Kind.FLOAT:
                numbers[kind](value)
            case Kind.JSON:
                json.loads(value)
            case Kind.PATH:
                return normalise(value, root) is not None
    except (ValueError, OverflowError, RecursionError):  # of JSON nested some thousand deep
        return False
    return True


class Parser(StrEnum):
    """The parser of a script's command line. Each finds other words in the same text."""

    ARGPARSE = "argparse"
    CLICK = "click"
    TYPER = "typer"
    GETOPT = "getopt"  # GNU's getopt_long, and Python's gnu_getopt
    GO = "go"  # the package flag
    NONE = "none"  # every word is a positional


@dataclass(frozen=True, slots=True)
class OneOf:
    """Options of which one may be given, and with `required` must be."""

    names: tuple[str, ...]
    required: bool = False


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The words that may follow a script's path, or the name of one of its sub-commands.

    `abbreviations` says whether a prefix that fits one long option is that option, `prefix` with
    which characters an option may begin, `command_optional` whether a sub-command may be left out.
    """

    options: Mapping[str, Argument]  # by every name and alias, those for help among them
    positionals: tuple[Argument, ...] = ()
    commands: Mapping[str, "CommandLine"] = field(default_factory=dict)
    parser: Parser = Parser.ARGPARSE
    abbreviations: bool = True
    prefix: str = "-"
    groups: tuple[OneOf, ...] = ()
    command_optional: bool = False
    helps: tuple[str, ...] | None = None  # None: as every such parser has them

    @classmethod
    def of(  # noqa: PLR0913 -- a command line has that many sides
        cls,
        options: Collection[Argument] = (),
        positionals: tuple[Argument, ...] = (),
        commands: Mapping[str, "CommandLine"] | None = None,
        *,
        parser: Parser = Parser.ARGPARSE,
        prefix: str = "-",
        helps: Sequence[str] | None = None,
        abbreviations: bool = True,
        groups: Iterable[OneOf] = (),
        command_optional: bool = False,
    ) -> Self:
        """`helps` are the options that print help; None for those that the parser has itself."""
        own = helps_of(parser, prefix) if helps is None else tuple(helps)
        known = (Argument(own[0], Kind.FLAG, aliases=own[1:], ends=True),) if own else ()
        by_name = {
            n: option for option in (*known, *options) for n in (option.name, *option.aliases)
        }
        return cls(
            by_name,
            positionals,
            commands or {},
            parser,
            abbreviations,
            prefix,
            tuple(groups),
            command_optional,
            None if helps is None else own,
        )

    def flags(self) -> Iterator[str]:
        """Every option's name, of the sub-commands too."""
        yield from self.options
        for command in self.commands.values():
            yield from command.flags()

    def own_options(self) -> Iterator[Argument]:
        """Each option once, without those for help."""
        helps = helps_of(self.parser, self.prefix) if self.helps is None else self.helps
        for option in dict.fromkeys(self.options.values()):
            if not option.ends or (option.name, *option.aliases) != helps:
                yield option


def helps_of(parser: Parser, prefix: str = "-") -> tuple[str, ...]:
    """Return the options for help that such a parser has without a definition."""
    if parser in {Parser.CLICK, Parser.TYPER}:
        return ("--help",)
    if parser is Parser.GO:
        return ("-help", "-h")
    if parser in {Parser.GETOPT, Parser.NONE}:
        return ()
    mark = "-" if "-" in prefix else prefix[0]
    return (f"{mark}{mark}help", f"{mark}h")


@dataclass(frozen=True, slots=True)
class Misuse:
    """The reason why a command line does not fit, and the word where it fails.

    A place past the last word means that something is missing. `invented` is what exists nowhere
    in the script: an option, a sub-command, a choice's value; `near` is what exists and is like it.
    """

    at: int
    hint: str
    invented: str = ""
    kind: "Invented | None" = None
    near: str = ""


class Invented(StrEnum):
    """The part of a script's command line that a call made up."""

    OPTION = "option"
    COMMAND = "sub-command"
    VALUE = "value"


def no_such(what: Invented, at: int, word: str, known: Collection[str]) -> Misuse:
    """An option or sub-command that is not there, with the nearest one as the cure."""
    shown = [name for name in sorted(known) if name.lstrip("-+/") not in {"h", "help"}]
    near = names(frozenset(shown)).nearest(word)
    cure = f"did you mean {near}?" if near else f"use {', '.join(shown) or 'none'}"
    return Misuse(at, f"there is no {what} {word}: {cure}", word, what, near)


def unknown_option(script: CommandLine, line: CommandLine, at: int, name: str) -> Misuse:
    """`name` is no option of `line`, which is `script` or one of its sub-commands."""
    if name in script.flags():
        return Misuse(at, f"{name} does not belong here, but to another sub-command")
    if line.abbreviations and sum(flag.startswith(name) for flag in line.options) > 1:
        return Misuse(at, f"{name} could be more than one option: write it out")
    return no_such(Invented.OPTION, at, name, line.options)


def bad_value(argument: Argument, at: int, value: str, fault: str) -> Misuse:
    """`fault` is what is wrong with the value; of a choice a plain word was made up."""
    is_made_up = bool(argument.choices) and value.replace("-", "").replace("_", "").isalnum()
    if not is_made_up:
        return Misuse(at, fault)
    near = names(frozenset(argument.choices)).nearest(value)
    return Misuse(at, fault, value, Invented.VALUE, near)


def owed(
    line: CommandLine,
    end: int,
    place_of: Mapping[str, int],
    unfilled: Iterable[Argument],
    *,
    is_whole: bool,
) -> Misuse | None:
    """Return what is missing at the `end`, or may not stand together, once each word has its place.

    `place_of` has the place of each option and positional, `unfilled` are the positionals without
    words. With `is_whole` no sub-command has come.
    """
    for option in line.options.values():
        if option.required and option.name not in place_of:
            return Misuse(end, f"{option.name} is required")
    for argument in unfilled:
        if argument.fewest:
            return Misuse(end, f"{argument.name} is missing")
    for group in line.groups:
        members = [name for name in group.names if name in place_of]
        if len(members) > 1:
            at = max(place_of[name] for name in members)
            return Misuse(at, f"{' and '.join(members[:2])} exclude each other: give one of them")
        if group.required and not members:
            return Misuse(end, f"one of {', '.join(group.names)} is required")
    if is_whole and line.commands and not line.command_optional:
        return Misuse(end, f"a sub-command is needed: {', '.join(line.commands)}")
    return None
