"""The tables of an allow list as a user writes them, and the rules that they mean."""

import json
import posixpath
from typing import Any, TypeVar

import msgspec

from agenteval.core.policy.arguments import Argument, Kind, ToolRule, compile_schema
from agenteval.core.policy.bash import BashRules, ScriptRule
from agenteval.core.policy.patterns import CommandPattern, PathRules
from agenteval.core.policy.script import CommandLine
from agenteval.core.shell.leaves import Construct


class Table(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A table with no keys but the named ones."""


class ArgumentTable(Table, frozen=True):
    """An option, or with `name` a positional. `nargs` is a count, "?", "*" or "+"."""

    kind: Kind = Kind.STR
    name: str = ""
    choices: tuple[str, ...] = ()
    nargs: int | str = 1
    aliases: tuple[str, ...] = ()
    required: bool = False
    repeatable: bool = False


class CommandTable(Table, frozen=True):
    """What may follow a script or a sub-command; a string stands for the kind alone."""

    options: dict[str, Kind | ArgumentTable] = {}
    positionals: tuple[str | ArgumentTable, ...] = ()
    commands: dict[str, "CommandTable"] = {}


_Line = TypeVar("_Line", bound=CommandTable)


class ScriptTable(CommandTable, frozen=True, kw_only=True):
    path: str
    runner: str = "uv run"


class BashTable(Table, frozen=True):
    allow: tuple[str, ...] = ()
    constructs: tuple[Construct, ...] = ()
    env: tuple[str, ...] = ()
    script: tuple[ScriptTable, ...] = ()


class PathTable(Table, frozen=True):
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class ToolTable(Table, frozen=True):
    """A tool beyond bash, read and write; `parameters` is a JSON Schema."""

    description: str = ""
    parameters: dict[str, Any] = {}


class AllowList(Table, frozen=True):
    """A whole file. A tool exists when its table does, even an empty one."""

    description: str = ""
    extends: str = ""
    files: tuple[str, ...] = ()
    stated: tuple[str, ...] = ()
    bash: BashTable | None = None
    read: PathTable | None = None
    write: PathTable | None = None
    tools: dict[str, ToolTable] = {}


# The tables by the last name of the key that leads to them.
KEYS: dict[str, type[Table]] = {
    "bash": BashTable,
    "read": PathTable,
    "write": PathTable,
    "tools": ToolTable,
    "script": ScriptTable,
    "commands": CommandTable,
    "options": ArgumentTable,
    "positionals": ArgumentTable,
}


def bash_rules(table: BashTable) -> BashRules:
    """Raises ValueError, its text naming the key, when a rule can mean nothing."""
    try:
        patterns = tuple(CommandPattern.parse(rule) for rule in table.allow)
    except ValueError as error:
        raise ValueError(f"bash.allow: {error}") from error
    scripts = []
    for script in table.script:
        if not script.path.strip():
            raise ValueError("bash.script: path: expected where a script lies, got nothing")
        path = posixpath.normpath(script.path)
        try:
            scripts.append(ScriptRule(path, tuple(script.runner.split()), _command_line(script)))
        except ValueError as error:
            raise ValueError(f"bash.script {script.path}: {error}") from error
    for name in table.env:
        if not (name.isascii() and name.isidentifier()):
            raise ValueError(f"bash.env: {name!r} is no variable's name: give names without values")
    return BashRules(patterns, scripts, table.constructs, table.env)


def path_rules(table: PathTable | None) -> PathRules:
    return PathRules(table.allow, table.deny) if table else PathRules()


def tool_rule(name: str, table: ToolTable, *, check: bool) -> ToolRule:
    """Raises ValueError when `check` finds that the parameters are no JSON Schema."""
    schema = json.dumps(table.parameters, sort_keys=True) if table.parameters else ""
    if schema and check:
        try:
            compile_schema(schema)
        except ValueError as error:
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


def _command_line(table: CommandTable) -> CommandLine:
    table = spelled_out(table)
    options = [_argument(name, option) for name, option in table.options.items()]
    for option in options:
        for name in (option.name, *option.aliases):
            if not name.startswith("-"):
                raise ValueError(f"options.{name}: an option begins with -; or list a positional")
    positionals = tuple(_argument("", place) for place in table.positionals)
    commands = {name: _command_line(command) for name, command in table.commands.items()}
    return CommandLine.of(options, positionals, commands)


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
    )


def _counts(name: str, nargs: int | str) -> tuple[int, int | None]:
    if isinstance(nargs, int) and nargs > 0:
        return nargs, nargs
    counts = {"?": (0, 1), "*": (0, None), "+": (1, None)}.get(str(nargs))
    if counts is None:
        raise ValueError(f'{name}: nargs is a count from 1, "?", "*" or "+", not {nargs!r}')
    return counts
