"""The rules for tools: which exist, and what their arguments must be."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from agenteval.core.call import BASH

READ, WRITE = "read", "write"
_DIGITS = re.compile(r"[0-9]{1,9}(?:\.0+)?")
_MOST = 10**9  # lines; no file here has as many
# What befalls fastjsonschema in one that is none; its own error is a ValueError.
_NO_SCHEMA = (ArithmeticError, AttributeError, LookupError, RecursionError, SyntaxError, TypeError,
              ValueError, re.error)  # fmt: skip
_PATHS = ("path", "filePath", "file_path", "notebook_path")


@dataclass(frozen=True, slots=True)
class ToolRule:
    """A listed tool. `schema` is the JSON text of its parameters' schema; "" takes any object."""

    name: str
    description: str = ""
    schema: str = ""

    def complaint(self, arguments: Mapping[str, Any]) -> str:
        """Return the fault of the arguments, phrased as the fix; "" if they fit."""
        return _built_in_complaint(self.name, arguments) or (
            schema_complaint(self.schema, arguments) if self.schema else ""
        )


def path_argument(arguments: Mapping[str, Any]) -> str | None:
    """Return the path in a file tool's arguments, under any name that harnesses give it."""
    return next(iter(path_arguments(arguments)), None)


def path_arguments(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the different paths in the arguments; more than one makes a call ambiguous."""
    given = (arguments[key] for key in _PATHS if isinstance(arguments.get(key), str))
    return tuple(dict.fromkeys(given))


def lines_asked(arguments: Mapping[str, Any]) -> tuple[int, int | None]:
    """Return the first line of a read, counted from 1, and the number of lines; None for all.

    A value that is no such number counts as not given, as it does in other harnesses.
    """
    return _number(arguments.get("offset")) or 1, _number(arguments.get("limit"))


def _number(value: object) -> int | None:
    """A number of lines, also as a text or with a point: models write it so."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= _MOST:
        return None
    return None if value % 1 else int(value)


def _built_in_complaint(name: str, arguments: Mapping[str, Any]) -> str:
    if name == BASH and not isinstance(arguments.get("command"), str):
        return "bash needs `command`, a string"
    if name in {READ, WRITE} and path_argument(arguments) is None:
        return f"{name} needs `path`, a string"
    if name == WRITE and not isinstance(arguments.get("content"), str):
        return "write needs `content`, a string"
    return ""


def schema_complaint(schema: str, arguments: Mapping[str, Any]) -> str:
    """Return the fault of the arguments under a JSON Schema given as text; "" if they fit."""
    return _complaint_of(schema)(arguments)


@cache
def _complaint_of(schema: str) -> Callable[[Mapping[str, Any]], str]:
    from fastjsonschema import (  # noqa: PLC0415 -- 30 ms of start-up that no bash call needs
        JsonSchemaValueException,
    )

    check = compile_schema(schema)

    def complaint(arguments: Mapping[str, Any]) -> str:
        try:
            check(arguments)
        except JsonSchemaValueException as error:
            return str(error.message).replace("data.", "").replace("data ", "the arguments ", 1)
        except (ArithmeticError, RecursionError) as error:
            return f"its schema holds against nothing ({type(error).__name__})"
        return ""

    return complaint


@cache
def compile_schema(schema: str) -> Callable[[Mapping[str, Any]], object]:
    """The check that a JSON Schema describes. Raises ValueError when it is no valid schema."""
    import fastjsonschema  # noqa: PLC0415 -- as above

    no_remote = dict.fromkeys(("http", "https", "file", "ftp"), _refuse)
    try:
        check: Callable[[Mapping[str, Any]], object] = fastjsonschema.compile(
            json.loads(schema), handlers=no_remote, use_default=False
        )
    except _NO_SCHEMA as error:
        raise ValueError(" ".join(str(error).split())) from error
    return check


def _refuse(uri: str) -> Any:
    raise ValueError(f"a schema may not point elsewhere: {uri}")
