"""Scripts' command lines written down as an allow list, as short as the format allows."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agenteval.config.allowlist_tables import ArgumentTable, CommandTable, ScriptTable
from agenteval.core.policy.command_line import Kind, Parser

RUNNER = "uv run"
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Derived:
    """The command line of one script. Without a `table`, the `remarks` say why there is none."""

    path: str
    table: ScriptTable | None
    remarks: tuple[str, ...] = ()


def to_text(scripts: Sequence[Derived]) -> str:
    """An allow list of these scripts, with a comment on each that could not be read whole."""
    lines = ['description = "Scripts, each with its own command line."']
    for script in scripts:
        lines.append("")
        lines += [_comment(f"{script.path}: {remark}") for remark in script.remarks]
        lines += block_of(script)
    if not any(script.table for script in scripts):
        lines += ["", "[bash]"]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    """One line: TOML takes no control characters in a comment."""
    return "# " + "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


def block_of(script: Derived) -> Iterator[str]:
    """The lines of one script's table."""
    table = script.table
    if table is None:
        return
    yield "[[bash.script]]"
    yield f"path = {_text(script.path)}"
    if table.runner != RUNNER:
        yield f"runner = {_text(table.runner)}"
    if table.parser is not Parser.ARGPARSE:
        yield f"parser = {_text(table.parser.value)}"
    yield from _body("bash.script", table)


def _body(key: str, line: CommandTable) -> Iterator[str]:
    yield from _own_keys(line)
    if line.positionals:
        yield f"positionals = [{', '.join(map(_value, line.positionals))}]"
    if line.options:
        yield f"[{key}.options]"
        for name, option in line.options.items():
            yield f"{_text(name)} = {_value(option)}"
    for name, command in line.commands.items():
        below = f"{key}.commands.{name if _BARE.fullmatch(name) else _text(name)}"
        if command.positionals or not command.options or any(_own_keys(command)):
            yield f"[{below}]"
        yield from _body(below, command)


def _own_keys(line: CommandTable) -> Iterator[str]:
    """Yield the keys in which a command line differs from the usual one, as TOML."""
    for name in _SIDES:
        value = getattr(line, name)
        if value != getattr(_USUAL, name):
            yield f"{name} = {_text(value)}"


_USUAL = CommandTable()
_SIDES = ("abbreviations", "prefix", "help", "command_optional", "exclusive", "one_of")


def _value(argument: ArgumentTable | str) -> str:
    """Return an option or a positional as the shortest TOML value that describes it."""
    if isinstance(argument, str):
        return _text(argument)
    table = {
        "name": argument.name,
        "kind": "" if argument.kind is Kind.STR else argument.kind.value,
        "choices": list(argument.choices),
        "nargs": "" if argument.nargs == 1 else argument.nargs,
        "aliases": list(argument.aliases),
        "required": argument.required,
        "repeatable": argument.repeatable,
        "ends": argument.ends,
    }
    pairs = {key: value for key, value in table.items() if value}
    if not pairs:
        return _text(Kind.STR.value)
    if len(pairs) == 1 and pairs.keys() <= {"name", "kind"}:
        return _text(*pairs.values())
    return f"{{ {', '.join(f'{key} = {_text(value)}' for key, value in pairs.items())} }}"


def _text(value: object) -> str:
    """A text, list, number or truth: TOML writes them as JSON does."""
    return json.dumps(value, ensure_ascii=False)
