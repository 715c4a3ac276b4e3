"""Allow lists: found by name or path, read, joined with what they extend, and made a policy.

First come the tables of a file as a user writes them, then the rules that they mean (`bash_rules`),
then files: `load_policy` for a list of ours, `load_any` also for another harness's config.
"""

import hashlib
import json
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from agenteval.config.files import LISTS, Roots, known_keys, note_hidden, read_toml, shipped
from agenteval.errors import UsageError
from agenteval.policy.command_lines import (
    Argument,
    CommandLine,
    CommandPattern,
    Kind,
    OneOf,
    Parser,
    PathRules,
)
from agenteval.policy.policy import READ, WRITE, OtherTools, Policy, ToolRule, compile_schema
from agenteval.policy.rules import THROUGH, BashRules, ScriptRule
from agenteval.shell.leaves import Construct
from agenteval.trial.call import BASH

# As argparse writes what takes all that is left.
REST = "..."
# Of one argument: all of them stand in the example of a call.
_MOST_VALUES = 1000
# Of values: the fewest, and the most.
_COUNTS: dict[str, tuple[int, int | None]] = {
    "?": (0, 1),
    "*": (0, None),
    "+": (1, None),
    REST: (0, None),
}


Texts = tuple[str, ...]


class Table(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A table with no keys but the named ones."""


class ArgumentTable(Table, frozen=True):
    """An option, or with `name` a positional.

    `nargs` is a count, "?", "*", "+", or for a last positional that takes options too "...".
    """

    kind: Kind = Kind.STR
    name: str = ""
    choices: Texts = ()
    nargs: int | str = 1
    aliases: Texts = ()
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
    help: Texts | None = None
    command_optional: bool = False


_Line = TypeVar("_Line", bound=CommandTable)


class ScriptTable(CommandTable, frozen=True, kw_only=True):
    path: str
    runner: str = "uv run"
    parser: Parser = Parser.ARGPARSE


class _ProgramTable(Table, frozen=True):
    """A program with any words but these options."""

    program: str
    without: Texts = msgspec.field(name="not")


class BashTable(Table, frozen=True):
    allow: tuple[str | _ProgramTable, ...] = ()
    deny: Texts = ()
    through: Texts = ()
    constructs: tuple[Construct, ...] = ()
    env: Texts = ()
    script: tuple[ScriptTable, ...] = ()


class _PathTable(Table, frozen=True):
    allow: Texts = ()
    deny: Texts = ()


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
    files: Texts = ()
    stated: Texts = ()
    bash: BashTable | None = None
    read: _PathTable | None = None
    write: _PathTable | None = None
    tools: dict[str, _ToolTable] = {}
    # At the top: `tools.other` is a tool of that name.
    other_tools: OtherTools | None = None


# The tables by the last name of the key that leads to them.
KEYS: dict[str, type[Table]] = {
    "bash": BashTable,
    "allow": _ProgramTable,
    "read": _PathTable,
    "write": _PathTable,
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
    scripts = [_script_rule(script) for script in table.script]
    for name in table.env:
        is_name = name.isascii() and name.isidentifier()
        if not is_name:
            raise ValueError(f"bash.env: {name!r} is no variable's name: give names without values")
    return BashRules(patterns, scripts, table.constructs, table.env, denied, table.through)


def _script_rule(script: ScriptTable) -> ScriptRule:
    if not script.path.strip():
        raise ValueError("bash.script: path: expected where a script lies, got nothing")
    path = posixpath.normpath(script.path)
    try:
        line = _command_line(script, script.parser)
    except ValueError as error:
        raise ValueError(f"bash.script {script.path}: {error}") from error
    return ScriptRule(path, tuple(script.runner.split()), line)


def _patterns(key: str, rules: Sequence[str | _ProgramTable]) -> list[CommandPattern]:
    try:
        return [_pattern(rule) for rule in rules]
    except ValueError as error:
        raise ValueError(f"bash.{key}: {error}") from error


def _pattern(rule: str | _ProgramTable) -> CommandPattern:
    if isinstance(rule, str):
        return CommandPattern.parse(rule)
    return CommandPattern.parse_without(rule.program, rule.without)


def _path_rules(table: _PathTable | None) -> PathRules:
    return PathRules(table.allow, table.deny) if table else PathRules()


def _tool_rule(name: str, table: _ToolTable, *, check: bool) -> ToolRule:
    """Return the rule for a tool. Raises ValueError for no JSON, or if `check` no JSON Schema."""
    schema = ""
    try:
        if table.parameters:
            schema = json.dumps(table.parameters, sort_keys=True)
        if schema and check:
            compile_schema(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"tools.{name}.parameters: no JSON Schema: {error}") from error
    return ToolRule(name, table.description, schema)


def _spelled_out_table(table: _Line) -> _Line:
    """Return the same with nothing abbreviated, as it is read: two ways to write it are one."""
    options = {name: _spelled_out(option) for name, option in sorted(table.options.items())}
    commands = {name: _spelled_out_table(line) for name, line in sorted(table.commands.items())}
    positionals = tuple(map(_spelled_out, table.positionals))
    return msgspec.structs.replace(
        table, options=options, positionals=positionals, commands=commands
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
    table = _spelled_out_table(table)
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
    """Raise ValueError for what no script with such a parser can say."""
    if parser is Parser.NONE and options:
        raise ValueError(
            f'options.{options[0].name}: with parser = "none" every word is a positional'
        )
    if parser is Parser.ARGPARSE:
        for positional in positionals[:-1]:
            if positional.is_rest:
                raise ValueError(f'{positional.name}: nargs "..." is for the last positional')
        return
    wide = [positional.name for positional in positionals if positional.most is None]
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
    """Yield the groups of which one may, or must, be given. Raises ValueError."""
    names = {argument.name: argument.name for argument in positionals}
    for option in options:
        names |= dict.fromkeys((option.name, *option.aliases), option.name)
    for key, groups in (("exclusive", table.exclusive), ("one_of", table.one_of)):
        for group in groups:
            if not group:
                raise ValueError(f"{key}: expected names of options, got an empty list")
            for name in group:
                if name not in names:
                    raise ValueError(f"{key}: {name} is no option or positional here")
            members = dict.fromkeys(names[name] for name in group)
            yield OneOf(tuple(members), key == "one_of")


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
    counts = _COUNTS.get(str(nargs))
    if counts is None:
        known = f'a count from 1 to {_MOST_VALUES}, "?", "*", "+" or "..."'
        raise ValueError(f"{name}: nargs is {known}, not {nargs!r}")
    return counts


# Lists, each extending the next.
_CHAIN = 32


def load_policy(
    name_or_path: str,
    *,
    roots: Roots,
    only_bash: bool = False,
    by_user: bool = True,
) -> Policy:
    """Return the policy of an allow list: a TOML file, or a name under the first root that has it.

    Raises UsageError when there is none, or when the file does not say what an allow list can.
    With `only_bash` the schemas of other tools are left unchecked: that takes 30 ms. Where a
    scenario names the list and not the user (`by_user`), no link is followed to it.
    """
    path = find(name_or_path, roots)
    is_named = by_user and _is_path(name_or_path)
    within = None if is_named else _base_of(path.absolute(), roots)
    allow_list = _read(path, roots, (), within)
    return policy(allow_list, name=path.stem, where=path, only_bash=only_bash)


def find(name_or_path: str, roots: Roots) -> Path:
    """Return the file of an allow list. Raises UsageError with the known names for none."""
    if _is_path(name_or_path):
        return Path(name_or_path)
    for root in roots:
        path = root / LISTS / f"{name_or_path}.toml"
        if os.path.lexists(path):
            note_hidden("allow list", name_or_path, path, shipped() / LISTS / path.name)
            return path
    known = sorted({path.stem for root in roots for path in (root / LISTS).glob("*.toml")})
    folders = ", ".join(str(root / LISTS) for root in roots)
    raise UsageError(
        f"no allow list {name_or_path!r} in {folders}. Known: {', '.join(known) or 'none'}"
    )


def files_of(name_or_path: str, roots: Roots) -> Iterator[Path]:
    """Yield the files of which `load_any` makes this policy. Raises UsageError for none."""
    harness, colon, path = name_or_path.partition(":")
    if colon and not Path(name_or_path).exists():
        yield Path(path or harness)
        return
    is_file = "." in name_or_path.rpartition("/")[2]
    at = Path(name_or_path) if is_file else find(name_or_path, roots)
    above: list[str] = []
    # Path.resolve raises for a loop of links.
    while (real := os.path.realpath(at)) not in above:
        yield at
        above.append(real)
        extends = read_toml(at).get("extends") if at.suffix == ".toml" else None
        if not isinstance(extends, str) or not extends:
            return
        at = _base(extends, at, roots)


def policy(
    allow_list: AllowList, *, name: str, where: Path | str, only_bash: bool = False
) -> Policy:
    """Return the policy of an allow list.

    Raises UsageError, beginning with `where`, when a rule cannot be.
    """
    try:
        rules = bash_rules(allow_list.bash or BashTable())
        tools = {
            tool: _tool_rule(tool, table, check=tool == BASH or not only_bash)
            for tool, table in allow_list.tools.items()
        }
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error
    for tool in (BASH, READ, WRITE):
        if getattr(allow_list, tool) is not None:
            tools.setdefault(tool, ToolRule(tool))
    return Policy(
        name=name,
        digest=_digest(allow_list),
        description=allow_list.description,
        bash=rules,
        read=_path_rules(allow_list.read),
        write=_path_rules(allow_list.write),
        tools=tools,
        files=frozenset(allow_list.files),
        stated=frozenset(allow_list.stated),
        other_tools=allow_list.other_tools or "deny",
    )


def _is_path(name_or_path: str) -> bool:
    return name_or_path.endswith(".toml") or "/" in name_or_path


def _base_of(path: Path, roots: Roots) -> Path:
    """Return the folder beneath which a list without a path is read: its project, or its own."""
    return next((root for root in roots if path.is_relative_to(root)), path.parent)


def _read(path: Path, roots: Roots, above: Texts, within: Path | None) -> AllowList:
    """Return the list with what it extends; `within` is what its file is read beneath."""
    allow_list = convert(path, read_toml(path, within))
    real = os.path.realpath(path)
    if real in above:
        chain = " extends ".join((*above, real))
        raise UsageError(f"{path}: an allow list may not extend itself ({chain})")
    if len(above) > _CHAIN:
        raise UsageError(f"{path}: more than {_CHAIN} lists extend one another: join some of them")
    if not allow_list.extends:
        return allow_list
    base = _base(allow_list.extends, path, roots)
    below = _base_of(Path(os.path.normpath(base)), roots)
    joined: AllowList = _joined(_read(base, roots, (*above, real), below), allow_list)
    return joined


def _base(extends: str, path: Path, roots: Roots) -> Path:
    """Return the extended list's file: a path counts from the extending one's, a name is found."""
    if "\0" in extends:
        raise UsageError(f"{path}: extends: {extends!r}: a path has no NUL in it")
    if extends.endswith(".toml") or "/" in extends:
        _check_extended(extends, path, roots)
        return path.parent / extends
    try:
        return find(extends, (path.parent.parent, *roots))
    except UsageError as error:
        raise UsageError(f"{path}: extends: {error}") from error


def _check_extended(extends: str, path: Path, roots: Roots) -> None:
    """Raise UsageError where a list of a project extends what its digest does not cover."""
    # The project's, and those that agenteval ships.
    folders = [root / LISTS for root in roots]
    target = Path(os.path.normpath(path.parent.absolute() / extends))
    if any(target.is_relative_to(folder) for folder in folders):
        return
    for folder in folders:
        if path.absolute().is_relative_to(folder):
            raise UsageError(
                f"{path}: extends: {extends!r} leads out of {folder}: put that list there"
            )


def convert(where: Path | str, content: dict[str, Any]) -> AllowList:
    """Return the tables of an allow list. Raises UsageError: file, key, what was expected."""
    if not content:
        raise UsageError(
            f"{where}: is empty, so no tool exists and nothing is allowed: begin with [bash] "
            f'allow = ["git status"]'
        )
    try:
        return msgspec.convert(content, AllowList)
    except RecursionError as error:
        raise UsageError(f"{where}: nests too deeply: no command line does so") from error
    except msgspec.ValidationError as error:
        message, _, key = str(error).partition(" - at `$")
        at = key.rstrip("`").replace("[...]", ".*").lstrip(".")
        place = f"{where}: {at}" if at else str(where)
        raise UsageError(f"{place}: {_in_words(message, at)}") from error


def _in_words(message: str, at: str) -> str:
    """Return msgspec's message on the table or value `at` in the words of our other messages."""
    last = re.sub(r"\[\d+\]|\.\*", "", at).rpartition(".")[2]
    quoted = re.findall("['`]([^'`]*)['`]", message)
    if "unknown field" in message:
        fields = KEYS.get(last, AllowList).__struct_fields__
        return f"unknown key {quoted[0]}; {known_keys(quoted[0], fields)}"
    if "missing required field" in message:
        return f"key {quoted[0]} is missing"
    if "enum value" in message:
        known = ", ".join(_CHOICES.get(last, Kind))
        return f"expected one of {known}, got {quoted[0]!r}"
    expected, got = map(_kinds_in_words, quoted)
    return f"expected {expected}, got {got}"


def _kinds_in_words(kinds: str) -> str:
    names = [kind for kind in kinds.split(" | ") if kind != "null"]
    return " or ".join(_WORDS.get(name, name) for name in names)


_CHOICES: dict[str, Iterable[str]] = {"constructs": Construct, "parser": Parser}
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}


def _joined(base: Any, own: Any) -> Any:
    """Return both lists' rules; of two for the same script or tool the extending list's counts."""
    if isinstance(base, Table) and isinstance(own, Table):
        both = {
            name: _joined(getattr(base, name), getattr(own, name)) for name in own.__struct_fields__
        }
        return type(own)(**both)
    if isinstance(base, dict) and isinstance(own, dict):
        return base | own
    if isinstance(base, tuple) and isinstance(own, tuple):
        rules = {_same_rule(rule): rule for rule in (*base, *own)}
        return tuple(rules.values())
    return own or base


def _same_rule(rule: object) -> object:
    """Return what two rules have in common of which one replaces the other."""
    return (rule.runner, rule.path) if isinstance(rule, ScriptTable) else rule


def _digest(allow_list: AllowList) -> str:
    """Return a name of the rules, not of the file: neither layout nor description changes it."""
    bash = allow_list.bash or BashTable()
    rules = msgspec.to_builtins(allow_list) | {
        "description": "",
        "extends": "",
        "scripts": [_spelled_out_table(script) for script in bash.script],
        "bash": None,
        "files": sorted(allow_list.files),
        "stated": sorted(allow_list.stated),
    }
    if allow_list.bash:
        rules["bash"] = (bash.allow, sorted(bash.constructs), sorted(bash.env))
        rules |= {"deny": bash.deny, "through": sorted(bash.through)}
    # What a list says that does not name it.
    if allow_list.other_tools in {None, "deny"}:
        del rules["other_tools"]
    canonical = msgspec.json.encode(rules, order="deterministic")
    return hashlib.sha256(canonical).hexdigest()[:12]


def policy_warnings(given: str, policy: Policy) -> Iterator[str]:
    """Return a line for each key of another harness's settings that the verdicts do not follow."""
    return (f"{given}: {unheeded.line}" for unheeded in policy.unheeded)


def load_any(name_or_path: str, *, roots: Roots, only_bash: bool = False) -> Policy:
    """Return the policy behind a name or a path; `HARNESS:PATH` says whose config it is.

    Without that, a .rules file is Codex's, a .md an OpenCode agent's, and a JSON file is of the
    harness whose name or keys it has. `only_bash` is as in `load_policy`. Raises UsageError when
    it is none of these.
    """
    harness, colon, path = name_or_path.partition(":")
    file = name_or_path.rpartition("/")[2]
    if not colon and ("." not in file or file.endswith(".toml")):
        return load_policy(name_or_path, roots=roots, only_bash=only_bash)
    from agenteval.dialects import registry  # noqa: PLC0415 -- start-up: ours needs none of them

    reader = registry.reader(harness) if colon else None
    if reader and not path:
        raise UsageError(f"{name_or_path}: names no file: expected one behind the colon")
    if not reader and not registry.is_foreign(name_or_path):
        return load_policy(name_or_path, roots=roots, only_bash=only_bash)
    config = Path(path if reader else name_or_path)
    with registry.naming(config):
        reader = reader or registry.reader_of(config)
        return reader(config)
