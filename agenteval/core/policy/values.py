"""What one argument of a listed script may be."""

import json
from dataclasses import dataclass
from enum import StrEnum

from agenteval.core.policy.patterns import normalise


class Kind(StrEnum):
    """What the value of an argument must be; a flag takes none."""

    STR = "str"
    INT = "int"
    FLOAT = "float"
    CHOICE = "choice"
    PATH = "path"
    JSON = "json"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Argument:
    """One option or positional. `most` None: any number of values."""

    name: str
    kind: Kind = Kind.STR
    choices: tuple[str, ...] = ()
    fewest: int = 1
    most: int | None = 1
    aliases: tuple[str, ...] = ()
    required: bool = False
    repeatable: bool = False


def complaint(argument: Argument, value: str, root: str) -> str:
    """What is wrong with a value, as the cure; empty when it fits."""
    if argument.kind is Kind.FLAG:
        return f"{argument.name} takes no value"
    if argument.choices and value not in argument.choices:
        return f"{argument.name} must be one of {', '.join(argument.choices)}, not {value!r}"
    if _fits(argument.kind, value, root):
        return ""
    return f"{argument.name} must be {_WANTED[argument.kind]}, not {value!r}"


_WANTED = {
    Kind.INT: "a whole number",
    Kind.FLOAT: "a number",
    Kind.JSON: "valid JSON",
    Kind.PATH: "a path inside the workspace",
}


def _fits(kind: Kind, value: str, root: str) -> bool:
    try:
        match kind:
            case Kind.INT:
                int(value)
            case Kind.FLOAT:
                float(value)
            case Kind.JSON:
                json.loads(value)
            case Kind.PATH:
                return normalise(value, root) is not None
            case _:
                pass
    except (ValueError, RecursionError):  # RecursionError: JSON nested some thousand deep
        return False
    return True
