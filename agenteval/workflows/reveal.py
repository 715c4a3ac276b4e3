"""Run inside a sandbox as text: prints a script's command line as JSON, before it does anything.

The script is run up to the moment when it would read its command line; there it ends. argparse,
click and typer are listened to. What is printed follows MARK on a line of its own.
"""

import argparse
import contextlib
import importlib
import json
import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from functools import partialmethod
from pathlib import Path
from typing import Any, NoReturn

MARK = "agenteval-command-line "
_TAKES_NOTHING = (
    "_StoreTrueAction",
    "_StoreFalseAction",
    "_StoreConstAction",
    "_AppendConstAction",
    "_CountAction",
    "_VersionAction",
    "BooleanOptionalAction",
)
_COMPLETION = frozenset(("--install-completion", "--show-completion"))  # of every typer program
_REPEATS = ("_AppendAction", "_AppendConstAction", "_CountAction", "_ExtendAction")


def main(path: str, *libraries: str) -> None:
    """Run the script; `libraries` are folders in which click and typer may be found."""
    sys.argv = [path]
    sys.path.insert(0, str(Path(path).resolve().parent))
    sys.path += libraries
    for name in ("parse_args", "parse_known_args", "parse_intermixed_args"):
        setattr(argparse.ArgumentParser, name, partialmethod(_reveal, name))
    for module, owner in (
        ("click", "BaseCommand"),
        ("click", "Command"),
        ("typer._click.core", "Command"),
        ("typer.core", "TyperCommand"),
        ("typer.core", "TyperGroup"),
    ):
        with contextlib.suppress(ImportError, AttributeError):
            found = getattr(importlib.import_module(module), owner)
            found.main = partialmethod(_reveal_command, module.partition(".")[0])
    sys.excepthook = lambda kind, error, _: _end({"reason": f"{kind.__name__}: {error}"})
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as ended:
        _end({"reason": f"it ends ({ended.code}) before it reads a command line"})
    _end({"reason": "it reads no command line"})


def _end(said: dict[str, Any]) -> NoReturn:
    """Nothing of the script happens after this: no `finally`, nothing at exit."""
    sys.stdout.flush()
    os.write(1, f"\n{MARK}{json.dumps(said)}\n".encode())
    os._exit(0)


def _reveal(parser: argparse.ArgumentParser, asked: str, *_: Any, **__: Any) -> NoReturn:
    line = _parser(parser)
    if note := _ASKED.get(asked):
        line["notes"].append(note)
    _end({"parser": "argparse", **line})


_ASKED = {
    "parse_known_args": "it ignores options that it does not know; here they are denied",
    "parse_intermixed_args": "it takes positionals between options; here they stand together",
}


def _parser(parser: argparse.ArgumentParser) -> dict[str, Any]:
    line: dict[str, Any] = {"options": [], "positionals": [], "commands": {}, "notes": []}
    line |= {"abbreviations": parser.allow_abbrev, "prefix": parser.prefix_chars, "help": []}
    for action in parser._actions:  # noqa: SLF001 -- argparse has no other way to ask
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            line["commands"] = {name: _parser(each) for name, each in action.choices.items()}
            line["command_optional"] = not action.required
        elif isinstance(action, argparse._HelpAction):  # noqa: SLF001
            line["help"] += action.option_strings
        else:
            line["options" if action.option_strings else "positionals"].append(_action(action))
            line["notes"] += _left_out(action)
    line["groups"] = [
        {"names": [_names(each) for each in group._group_actions], "required": group.required}  # noqa: SLF001
        for group in parser._mutually_exclusive_groups  # noqa: SLF001
    ]
    if parser.fromfile_prefix_chars:
        line["notes"].append("it reads arguments from files too; here such a word is a value")
    return line


def _names(action: argparse.Action) -> list[str]:
    return list(action.option_strings) or [action.dest]


def _left_out(action: argparse.Action) -> Iterator[str]:
    if type(action).__module__ != "argparse":
        kind = type(action).__name__
        yield f"{_names(action)[-1]}: what its own action {kind} checks is not kept"


def _is_wanted(action: argparse.Action) -> bool:
    """Return True if argparse refuses the default of a positional `*` that is omitted."""
    default = action.default
    return bool(action.nargs == "*" and action.choices and default is not None) and (
        default not in list(action.choices or ())
    )


def _action(action: argparse.Action) -> dict[str, Any]:
    kind = type(action).__name__
    nargs = "+" if not action.option_strings and _is_wanted(action) else action.nargs or 1
    return {
        "ends": kind == "_VersionAction",
        "names": _names(action),
        "flag": kind in _TAKES_NOTHING or action.nargs == 0,
        "type": _type_name(action.type),
        "choices": [str(choice) for choice in action.choices or ()],
        "nargs": nargs,
        "required": bool(action.option_strings) and action.required,
        "repeatable": kind in _REPEATS,
    }


def _reveal_command(command: Any, parser: str, *_: Any, **__: Any) -> NoReturn:
    _end({"parser": parser, **_command(command)})


def _command(command: Any, helps: Sequence[str] = ("--help",)) -> dict[str, Any]:
    settings = getattr(command, "context_settings", None) or {}
    helps = settings.get("help_option_names", helps)
    line: dict[str, Any] = {
        "options": [],
        "positionals": [],
        "notes": [*_untold(command, settings)],
    }
    for parameter in command.params:
        is_option = parameter.param_type_name == "option"
        if not _COMPLETION.isdisjoint(parameter.opts):
            continue
        line["options" if is_option else "positionals"].append(
            _parameter(parameter, is_option=is_option)
        )
        line["notes"] += _unkept(parameter)
    names = [name for option in line["options"] for name in option["names"]]
    has_help = getattr(command, "add_help_option", True)
    line["help"] = [name for name in helps if has_help and name not in names]
    line["prefix"] = "".join(dict.fromkeys(["-", *(name[0] for name in names)]))
    line["command_optional"] = bool(getattr(command, "invoke_without_command", False))
    line["commands"] = {
        name: _command(each, helps)
        for name, each in (getattr(command, "commands", None) or {}).items()
    }
    return line


def _untold(command: Any, settings: dict[str, Any]) -> Iterator[str]:
    """Yield the properties of a command that an allow list cannot express."""
    if getattr(command, "chain", False):
        yield "it takes many sub-commands in a row; here one"
    is_group = hasattr(command, "list_commands")
    if is_group and not getattr(command, "commands", None):
        yield "it finds its sub-commands when it runs: none is here"
    for key in ("ignore_unknown_options", "allow_extra_args"):
        if settings.get(key, getattr(command, key, False)) and not is_group:
            yield f"{key}: what it does not know is denied here"
    mixes = getattr(command, "allow_interspersed_args", True)
    if not is_group and not settings.get("allow_interspersed_args", mixes):
        yield "behind its first word it takes no options; here it does"
    if settings.get("token_normalize_func"):
        yield "names that it reads in more than one spelling are denied here in all but one"


def _unkept(parameter: Any) -> Iterator[str]:
    """Yield the properties of a parameter that an allow list cannot express."""
    name, kind = parameter.opts[0], parameter.type
    low, high = getattr(kind, "min", None), getattr(kind, "max", None)
    if (low is not None or high is not None) and not getattr(parameter, "count", False):
        yield f"{name}: its range {low} to {high} is not kept"
    if getattr(kind, "case_sensitive", True) is False:
        yield f"{name}: choices in other letters than these are denied here"
    if parameter.required and parameter.envvar:
        yield f"{name}: here it is required, where the script reads {parameter.envvar} too"
    if getattr(parameter, "prompt", None):
        yield f"{name}: the script asks for it where it is left out; here nobody answers"
    if parameter.is_eager and not _ends(parameter):
        yield f"{name}: it may end the script early; here what else is required is so beside it"


def _ends(parameter: Any) -> bool:
    """Return True if it is click's own --version."""
    callback = getattr(parameter.callback, "__module__", "") or ""
    return bool(parameter.is_eager and callback.endswith("click.decorators"))


def _parameter(parameter: Any, *, is_option: bool) -> dict[str, Any]:
    nargs: Any = parameter.nargs
    if not is_option and nargs == -1:
        nargs = "+" if parameter.required else "*"
    elif nargs == 1 and (
        getattr(parameter, "_flag_needs_value", False) if is_option else not parameter.required
    ):
        nargs = "?"
    counts = getattr(parameter, "count", False)
    return {
        "ends": is_option and _ends(parameter),
        "names": [*parameter.opts, *parameter.secondary_opts] if is_option else [parameter.name],
        "flag": bool(getattr(parameter, "is_flag", False) or counts),
        "type": _type_name(parameter.type),
        "choices": [str(_plain(choice)) for choice in getattr(parameter.type, "choices", ())],
        "nargs": nargs,
        "required": is_option and bool(parameter.required),
        "repeatable": is_option and bool(parameter.multiple or counts),
    }


def _plain(choice: Any) -> Any:
    """The name that click shows for the member of an Enum, else the choice itself."""
    return getattr(choice, "name", choice)


def _type_name(given: Any) -> str:
    """Return the name of a type: of a class, a function, or the class of an object of click's."""
    return getattr(given, "__name__", None) or ("" if given is None else type(given).__name__)


if __name__ == "__main__":
    main(*sys.argv[1:])
