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
        setattr(argparse.ArgumentParser, name, lambda parser, *_, **__: _end(_parser(parser)))
    for module, owner in (
        ("click", "BaseCommand"),
        ("click", "Command"),
        ("typer._click.core", "Command"),
        ("typer.core", "TyperCommand"),
        ("typer.core", "TyperGroup"),
    ):
        with contextlib.suppress(ImportError, AttributeError):
            found = getattr(importlib.import_module(module), owner)
            found.main = lambda command, *_, **__: _end(_command(command))
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


def _parser(parser: argparse.ArgumentParser) -> dict[str, Any]:
    line: dict[str, Any] = {"options": [], "positionals": [], "commands": {}}
    for action in parser._actions:  # noqa: SLF001 -- argparse has no other way to ask
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            line["commands"] = {name: _parser(each) for name, each in action.choices.items()}
        elif not isinstance(action, argparse._HelpAction):  # noqa: SLF001
            line["options" if action.option_strings else "positionals"].append(_action(action))
    return line


def _action(action: argparse.Action) -> dict[str, Any]:
    kind = type(action).__name__
    return {
        "names": list(action.option_strings) or [action.dest],
        "flag": kind in _TAKES_NOTHING or action.nargs == 0,
        "type": _type_name(action.type),
        "choices": [str(choice) for choice in action.choices or ()],
        "nargs": action.nargs or 1,
        "required": bool(action.option_strings) and action.required,
        "repeatable": kind in _REPEATS,
    }


def _command(command: Any) -> dict[str, Any]:
    line: dict[str, Any] = {"options": [], "positionals": [], "commands": {}}
    for parameter in command.params:
        is_option = parameter.param_type_name == "option"
        if not _COMPLETION.isdisjoint(parameter.opts):
            continue
        line["options" if is_option else "positionals"].append(
            _parameter(parameter, is_option=is_option)
        )
    line["commands"] = {
        name: _command(each) for name, each in (getattr(command, "commands", None) or {}).items()
    }
    return line


def _parameter(parameter: Any, *, is_option: bool) -> dict[str, Any]:
    nargs: Any = parameter.nargs
    if not is_option and nargs == -1:
        nargs = "+" if parameter.required else "*"
    elif not is_option and nargs == 1 and not parameter.required:
        nargs = "?"
    counts = getattr(parameter, "count", False)
    return {
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
    """The name of a type: of a class, a function, or what an object of click's is made of."""
    return getattr(given, "__name__", None) or ("" if given is None else type(given).__name__)


if __name__ == "__main__":
    main(*sys.argv[1:])
