"""The tables of an allow list as a user writes them, and the rules that they mean."""

import json
import posixpath
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from agenteval.core.policy.arguments import ToolRule, compile_schema
from agenteval.core.policy.bash import THROUGH, BashRules, ScriptRule
from agenteval.core.policy.command_line import Argument, CommandLine, Kind, OneOf, Parser
from agenteval.core.policy.patterns import CommandPattern, PathRules
from agenteval.core.policy.policy import OtherTools
from agenteval.core.shell.leaves import Construct

REST = "..."  # as argparse writes what takes all that is left
_MOST_VALUES = 1000  # of one argument: all of them stand in the example of a call


class Table(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A table with no keys but the named ones."""


class ArgumentTable(Table, frozen=True):
    """An option, or with `name` a positional.

    `nargs` is a count, "?", "*", "+", or for a last positional that takes options too "...".
    """

    kind: Kind = Kind.STR
    name: str = ""
    choices: tuple[str, ...] = ()
    nargs: int | str = 1
    aliases: tuple[str, ...] = ()
    required: bool = False
    repeatable: bool | None = None
    ends: bool = False


class CommandTable(Table, frozen=True):
    """The words that may follow a script or a sub-command; a string stands for the kind alone."""

    options: dict[str, Kind | ArgumentTable] = {}
    positionals: tuple[str | ArgumentTable, ...] = ()
    commands: dict[str, "CommandTable"] = {}
    exclusive: tuple[tuple[str, ...], ...] = ()
    one_of: tuple[tuple[str, ...], ...] = ()
    abbreviations: bool = True
    prefix: str = "-"
    help: tuple[str, ...] | None = None
    command_optional: bool = False


_Line = TypeVar("_Line", bound=CommandTable)


class ScriptTable(CommandTable, frozen=True, kw_only=True):
    path: str
    runner: str = "uv run"
    parser: Parser = Parser.ARGPARSE


class _ProgramTable(Table, frozen=True):
    """A program with any words but these options."""

    program: str
    without: tuple[str, ...] = msgspec.field(name="not")


class BashTable(Table, frozen=True):
    allow: tuple[str | _ProgramTable, ...] = ()
    deny: tuple[str, ...] = ()
    through: tuple[str, ...] = ()
    constructs: tuple[Construct, ...] = ()
    env: tuple[str, ...] = ()
    script: tuple[ScriptTable, ...] = ()


class PathTable(Table, frozen=True):
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class _ToolTable(Table, frozen=True):
    """A tool beyond bash, read and write; `parameters` is a JSON Schema."""

    description: str = ""
    parameters: dict[str, Any] = {}


class AllowList(Table, frozen=True):
    """A whole file. A tool exists when its table does, even an empty one.

    `other_tools` says what a hook does with a tool that is neither listed nor known.
    """

    description: str = ""
    extends: str = ""
    files: tuple[str, ...] = ()
    stated: tuple[str, ...] = ()
    bash: BashTable | None = None
    read: PathTable | None = None
    write: PathTable | None = None
    tools: dict[str, _ToolTable] = {}
    other_tools: OtherTools | None = None  # at the top: `tools.other` is a tool of that name


# The tables by the last name of the key that leads to them.
KEYS: dict[str, type[Table]] = {
    "bash": BashTable,
    "allow": _ProgramTable,
    "read": PathTable,
    "write": PathTable,
    "tools": _ToolTable,
    "script": ScriptTable,
    "commands": CommandTable,
    "options": ArgumentTable,
    "positionals": ArgumentTable,
}


def bash_rules(table: BashTable) -> BashRules:
    """Raises ValueError, its text naming the key, when a rule can mean nothing."""
    patterns = _patterns("allow", table.allow)
    denied = _patterns("deny", table.deny)
    for wrapper in table.through:
        if wrapper not in THROUGH:
            raise ValueError(f"bash.through: {wrapper}: expected one of {', '.join(THROUGH)}")
    scripts = []
    for script in table.script:
        if not script.path.strip():
            raise ValueError("bash.script: path: expected where a script lies, got nothing")
        path = posixpath.normpath(script.path)
        try:
            scripts.append(
                ScriptRule(path, tuple(script.runner.split()), _command_line(script, script.parser))
            )
        except ValueError as error:
            raise ValueError(f"bash.script {script.path}: {error}") from error
    for name in table.env:
        if not (name.isascii() and name.isidentifier()):
            raise ValueError(f"bash.env: {name!r} is no variable's name: give names without values")
    return BashRules(patterns, scripts, table.constructs, table.env, denied, table.through)


def _patterns(key: str, rules: Sequence[str | _ProgramTable]) -> tuple[CommandPattern, ...]:
    try:
        return tuple(
            CommandPattern.parse(rule)
            if isinstance(rule, str)
            else CommandPattern.parse_without(rule.program, rule.without)
            for rule in rules
        )
    except ValueError as error:
        raise ValueError(f"bash.{key}: {error}") from error


def path_rules(table: PathTable | None) -> PathRules:
    return PathRules(table.allow, table.deny) if table else PathRules()


def tool_rule(name: str, table: _ToolTable, *, check: bool) -> ToolRule:
    """Raises ValueError for no JSON; also, if `check`, when it is no JSON Schema."""
    try:
        schema = json.dumps(table.parameters, sort_keys=True) if table.parameters else ""
        if schema and check:
            compile_schema(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"tools.{name}.parameters: no JSON Schema: {error}") from error
    return ToolRule(name, table.description, schema)


def spelled_out(table: _Line) -> _Line:
    """The same with nothing abbreviated, as it is read: two ways to write it are one."""
    return msgspec.structs.replace(
        table,
        options={name: _spelled_out(option) for name, option in sorted(table.options.items())},
        positionals=tuple(map(_spelled_out, table.positionals)),
        commands={name: spelled_out(line) for name, line in sorted(table.commands.items())},
    )


def _spelled_out(argument: str | ArgumentTable) -> ArgumentTable:
    if isinstance(argument, Kind):
        argument = ArgumentTable(kind=argument)
    elif isinstance(argument, str):
        argument = ArgumentTable(name=argument)
    if argument.kind is Kind.CHOICE and argument.choices:
        return msgspec.structs.replace(argument, kind=Kind.STR)
    return argument


def _command_line(table: CommandTable, parser: Parser) -> CommandLine:
    table = spelled_out(table)
    if not table.prefix or table.prefix.isalnum():
        raise ValueError(f"prefix: expected the characters before an option, got {table.prefix!r}")
    options = [_argument(name, option) for name, option in table.options.items()]
    for option in options:
        for name in (option.name, *option.aliases):
            if name[:1] not in table.prefix:
                raise ValueError(
                    f"options.{name}: an option begins with {' or '.join(table.prefix)}; or list a "
                    "positional"
                )
    positionals = tuple(_argument("", place) for place in table.positionals)
    _check_for(parser, options, positionals)
    return CommandLine.of(
        options,
        positionals,
        {name: _command_line(command, parser) for name, command in table.commands.items()},
        parser=parser,
        prefix=table.prefix,
        helps=table.help,
        abbreviations=table.abbreviations,
        groups=[*_groups(table, options, positionals)],
        command_optional=table.command_optional,
    )


def _check_for(
    parser: Parser, options: Sequence[Argument], positionals: Sequence[Argument]
) -> None:
    """Raises ValueError for what no script with such a parser can say."""
    if parser is Parser.NONE and options:
        raise ValueError(
            f'options.{options[0].name}: with parser = "none" every word is a positional'
        )
    if parser is Parser.ARGPARSE:
        rest = next((each for each in positionals[:-1] if each.is_rest), None)
        if rest:
            raise ValueError(f'{rest.name}: nargs "..." is for the last positional')
        return
    wide = [each.name for each in positionals if each.most is None]
    if len(wide) > 1:
        raise ValueError(f"{wide[1]}: one positional may take any number of words, {wide[0]} does")
    for option in options:
        if option.most is None:
            raise ValueError(
                f"options.{option.name}: {parser} knows options with a count of values"
            )


def _groups(
    table: CommandTable, options: Sequence[Argument], positionals: Sequence[Argument]
) -> Iterator[OneOf]:
    names = {name: each.name for each in options for name in (each.name, *each.aliases)}
    names |= {each.name: each.name for each in positionals}
    for key, groups in (("exclusive", table.exclusive), ("one_of", table.one_of)):
        for group in groups:
            unknown = next((name for name in group if name not in names), None)
            if unknown is not None:
                raise ValueError(f"{key}: {unknown} is no option or positional here")
            if not group:
                raise ValueError(f"{key}: expected names of options, got an empty list")
            yield OneOf(tuple(dict.fromkeys(names[name] for name in group)), key == "one_of")


def _argument(name: str, given: str | ArgumentTable) -> Argument:
    table = _spelled_out(given)
    name = name or table.name
    if not name:
        raise ValueError("a positional needs a name")
    if table.kind is Kind.CHOICE:
        raise ValueError(f"{name}: a choice needs choices")
    fewest, most = _counts(name, table.nargs)
    return Argument(
        name,
        table.kind,
        table.choices,
        fewest,
        most,
        table.aliases,
        table.required,
        table.repeatable,
        table.ends,
        table.nargs == REST,
    )


def _counts(name: str, nargs: int | str) -> tuple[int, int | None]:
    if isinstance(nargs, int) and 0 < nargs <= _MOST_VALUES:
        return nargs, nargs
    counts = {"?": (0, 1), "*": (0, None), "+": (1, None), REST: (0, None)}.get(str(nargs))
    if counts is None:
        known = f'a count from 1 to {_MOST_VALUES}, "?", "*", "+" or "..."'
        raise ValueError(f"{name}: nargs is {known}, not {nargs!r}")
    return counts
