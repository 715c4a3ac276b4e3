"""The page of all commands and options, generated from what the commands themselves say."""

import re
from collections.abc import Iterator
from typing import Any

import typer
from pages import PROJECT

from agenteval.cli.app import app

PAGE = PROJECT / "docs" / "commands.md"
HEAD = """# Commands and options

Generated from the commands themselves by `make docs-refresh`; `agenteval COMMAND --help` prints the
same.

An option with a variable of the environment can be set there too; what is given on the command line
comes first.
"""
VALUES = {"TyperPath": "PATH", "FloatParamType": "NUMBER", "IntParamType": "N"}


def every_command(command: Any = None, name: str = "agenteval") -> Iterator[tuple[str, Any]]:
    """Each with its whole name, groups before what is in them."""
    command = command or typer.main.get_command(app)
    yield name, command
    for word, inner in getattr(command, "commands", {}).items():
        yield from every_command(inner, f"{name} {word}")


def render() -> str:
    """The page as it should be."""
    return "\n".join([HEAD, *(_section(name, one) for name, one in every_command())])


def _section(name: str, command: Any) -> str:
    usage, asked = [name], [one for one in command.params if not getattr(one, "hidden", False)]
    options = [one for one in asked if one.param_type_name == "option"]
    arguments = [one for one in asked if one.param_type_name == "argument"]
    if getattr(command, "commands", {}):
        usage.append("COMMAND" if command.no_args_is_help else "[COMMAND]")
    usage += [_placed(one) for one in arguments]
    usage += [f"{one.opts[0]} {_value(one)}" for one in options if one.required]
    text = [f"## {name}", "", f"    {' '.join(usage)} [OPTIONS]", "", _help(command), ""]
    if arguments:
        text += [f"`{_placed(one)}`: {one.help}\n" for one in arguments]
    if options:
        text += ["| option | default | what it does |", "|---|---|---|", *map(_row, options), ""]
    return "\n".join(text)


def _help(command: Any) -> str:
    text = (command.help or "").replace("\b\n", "").strip()
    indented = re.sub(r"^  (?=\S)", "    ", text, flags=re.MULTILINE)
    return re.sub(r"\n{2,}", "\n\n", indented.replace("Examples:\n", "Examples:\n\n"))


def _placed(argument: Any) -> str:
    name = (argument.metavar or argument.name).upper()
    name = f"{name}..." if argument.nargs == -1 else name
    return name if argument.required else f"[{name}]"


def _row(option: Any) -> str:
    names = [*option.opts, *option.secondary_opts]
    value = "" if option.is_flag else f" {_value(option)}"
    variables = [option.envvar] if isinstance(option.envvar, str) else option.envvar or []
    told = [
        *([option.help] if option.help else []),
        *(["Required."] if option.required else []),
        *(["May be repeated."] if option.multiple and "repeated" not in option.help else []),
        *([f"Or: {', '.join(f'`{one}`' for one in variables)}."] if variables else []),
    ]
    default = option.default
    shown = "" if option.is_flag or default in {None, ""} else f"`{default}`"
    name = ", ".join(f"`{one}`" for one in names[:-1]) + (", " if names[1:] else "")
    name += f"`{names[-1]}{value}`".replace("|", "\\|")
    return f"| {name} | {shown} | {' '.join(told)} |"


def _value(option: Any) -> str:
    choices = getattr(option.type, "choices", None)
    if choices:
        return "|".join(choices)
    if option.metavar:
        return str(option.metavar)
    if hasattr(option.type, "min"):
        return "N"
    return VALUES.get(type(option.type).__name__, "TEXT")
