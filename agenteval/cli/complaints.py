"""What is wrong with the arguments of a command: one line that says what, where, how to mend it."""

import re

from typer import TyperException

_QUOTED = re.compile(r"'(--?[a-z-]+)'")  # an option is known by its dashes
_NUMBERS = {"valid int range": "whole number", "valid float range": "number"}


def complaint(error: TyperException) -> str:
    """The line; empty where the parser has printed the help instead."""
    said = " ".join(error.format_message().split()).rstrip(".")
    if not said:
        return ""
    # Nothing public tells where an error belongs: all that the parser raises has these by itself.
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    if near := getattr(error, "possibilities", None):
        said = f"{getattr(error, 'message', said)}; did you mean {near[0]}?"
    elif parameter is not None:
        said = said.removeprefix("Invalid value for ")
        for kind, plain in _NUMBERS.items():
            said = said.replace(kind, plain)
    said = _QUOTED.sub(r"\1", said)
    command = context.command_path if context else "agenteval"
    where = " ".join(command.split()[1:])
    end = "" if said.endswith("?") else "."
    lead = f"{where}: " if where else ""
    return f"{lead}{said[:1].lower()}{said[1:]}{end} See {command} --help"
