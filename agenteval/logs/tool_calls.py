"""Tool calls as programs write them down: a table of shapes, in whatever message they stand.

A plug-in (group `agenteval.formats`) is a function that takes the object of a line and gives the
calls in it. It is asked about lines in which no shape of the table is found.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from agenteval import plugins
from agenteval.shell.gate import quoted
from agenteval.trial.call import BASH, ToolCall
from agenteval.trial.text import is_json

GROUP = "agenteval.formats"


class _Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A shape of a call; tool_calls.toml explains the fields."""

    name: str
    arguments: str
    type: str = ""
    tools: tuple[str, ...] = ()


class _Shapes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    shape: tuple[_Shape, ...]
    tools: Mapping[str, Mapping[str, str]]
    keys: Mapping[str, tuple[str, ...]]


_DATA = msgspec.toml.decode(
    Path(__file__).with_name("tool_calls.toml").read_bytes(),
    type=_Shapes,
)
_KEYS = _DATA.keys
_SHELLS = _DATA.tools["shells"]
_RECORD = {*_KEYS["holders"], *_KEYS["others"]}
# Of each shape, our names of its tools
_OUR_NAMES = [
    {name: ours for table in shape.tools for name, ours in _DATA.tools[table].items()}
    for shape in _DATA.shape
]
_ALL = {name: ours for table in _DATA.tools.values() for name, ours in table.items()}


def tool_calls(content: Mapping[str, Any]) -> list[ToolCall] | None:
    """Return the calls in the object of a line; None if it neither is one nor could hold any."""
    identifier = str(content.get("id", ""))
    command = _command(content)
    if command is not None:
        return [bash_call(command, identifier)]
    calls = list(_find_calls(content)) or list(_plugged(content))
    if calls:
        return calls
    name = _at(content, "function.name") or content.get("name")
    if isinstance(name, str) and not content.keys() & {"role", "content", "output"}:
        return [ToolCall(identifier, name, "{}", {})]
    return [] if content.keys() & _RECORD else None


def bash_call(command: str, identifier: str = "") -> ToolCall:
    return ToolCall(identifier, BASH, command, {"command": command})


def called(
    identifier: str,
    name: str,
    arguments: object,
) -> ToolCall:
    """Return the call with these arguments, an object or its text, by our own name of its tool."""
    return _in_our_names(_tool_call(identifier, name, arguments), _ALL)


def _plugged(content: Mapping[str, Any]) -> Iterator[ToolCall]:
    for name, read in plugins.load(GROUP, callable).items():
        try:
            yield from plugins.called(lambda reads: list(reads(content) or ()), read)
        except plugins.PluginError as error:
            raise plugins.PluginError(f"plug-in {name} ({GROUP}): {error}") from error


def _find_calls(content: object) -> Iterator[ToolCall]:
    if isinstance(content, list):
        for item in content:
            yield from _find_calls(item)
    elif isinstance(content, dict):
        call = _call_in(content)
        if call:
            yield call
            return
        for key in _KEYS["holders"]:
            yield from _find_calls(content.get(key))


def _call_in(content: Mapping[str, Any]) -> ToolCall | None:
    """Return the call that an object is, by the first shape that it has."""
    for shape, our_names in zip(
        _DATA.shape,
        _OUR_NAMES,
        strict=True,
    ):
        name = _at(content, shape.name)
        arguments = _at(content, shape.arguments)
        fits = not shape.type or shape.type == content.get("type")
        if fits and isinstance(name, str) and arguments is not None:
            identifiers = (str(content[key]) for key in _KEYS["ids"] if content.get(key))
            call = _tool_call(next(identifiers, ""), name, arguments)
            return _in_our_names(call, our_names)
    return None


def _at(content: Mapping[str, Any], path: str) -> Any:
    value: Any = content
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


# Lists and objects within each other; Python can walk and write a few times as many
DEEPEST = 200
TOO_DEEP = "nested too deep"

_NESTS = frozenset((dict, list))
_ODD = re.compile(r"NaN|Infinity|[eE]\+?\d{3}|\d{309}")


def is_deep(value: object) -> bool:
    """Return True if values are nested more deeply than is looked at."""
    level: list[Any] = [value] if type(value) in _NESTS else []
    for _ in range(DEEPEST):
        if not level:
            return False
        next_level: list[Any] = []
        for nest in level:
            values = nest.values() if type(nest) is dict else nest
            next_level += [value for value in values if type(value) in _NESTS]
        level = next_level
    return bool(level)


# In one text: each may take a hundred times the bytes that it is written in
MOST_VALUES = 1 << 20
TOO_MANY = f"more than {MOST_VALUES:,} values"
# Characters of the text of one call's arguments: a million tokens
LONGEST = 1 << 22
TOO_LONG = f"more than {LONGEST:,} characters"
# Bytes of all strings in one text, as Python holds them
MOST_HELD = 1 << 25
TOO_WIDE = f"strings that take more than {MOST_HELD:,} bytes of memory"
_STRING = re.compile(rb'"[^"]*"?')
_FOUR_BYTES = re.compile(rb"[\xf0-\xff]|\\u[dD][89abAB]")


def has_too_many(text: str | bytes) -> bool:
    """Return True if JSON text would become too many values; counted without parsing it."""
    if len(text) <= MOST_VALUES:
        return False
    content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if _marks(content, 0, len(content)) <= MOST_VALUES:
        return False
    content = _without_escapes(content)
    count = 0
    end = 0
    for string in _STRING.finditer(content):
        count += _marks(content, end, string.start())
        end = string.end()
        if count > MOST_VALUES:
            return True
    return (
        count
        + _marks(
            content,
            end,
            len(content),
        )
        > MOST_VALUES
    )


def excess(content: bytes) -> str:
    """Return why JSON would take too much memory once it is decoded; "" if it would not."""
    if has_too_many(content):
        return TOO_MANY
    return TOO_WIDE if _is_too_wide(content) else ""


def _is_too_wide(content: bytes) -> bool:
    """Return True if its strings take too much: one character may widen each other of its string.

    Python holds a string in 1, 2 or 4 bytes a character, as its widest character needs.
    """
    if 4 * len(content) <= MOST_HELD or (content.isascii() and b"\\u" not in content):
        return len(content) > MOST_HELD
    content = _without_escapes(content)
    held = 0
    for string in _STRING.finditer(content):
        held += (string.end() - string.start()) * _width(content, *string.span())
        if held > MOST_HELD:
            return True
    return False


def _width(
    content: bytes,
    start: int,
    end: int,
) -> int:
    """Return the bytes of each character of the string there, at most."""
    if _FOUR_BYTES.search(content, start, end):
        return 4
    part = content[start:end]
    return 1 if part.isascii() and b"\\u" not in part else 2


def _without_escapes(content: bytes) -> bytes:
    r"""Return JSON without its `\\` and `\"`, so that each quote begins or ends a string.

    A pattern that reads the escapes takes 80 bytes of memory for each of them.
    """
    return content.replace(b"\\\\", b"").replace(b'\\"', b"")


def _marks(
    content: bytes,
    start: int,
    end: int,
) -> int:
    """Return the number of commas and opening brackets there: about as many as values."""
    return sum(
        content.count(
            mark,
            start,
            end,
        )
        for mark in (b",", b"[", b"{")
    )


def _tool_call(
    identifier: str,
    name: str,
    arguments: object,
) -> ToolCall:
    """Return the call; its arguments are an object or its JSON text, and other text malformed."""
    if is_deep(arguments):
        return ToolCall(identifier, name, "", None, TOO_DEEP)
    raw = _written(arguments)
    if len(raw) > LONGEST:
        return ToolCall(
            identifier,
            name,
            raw[:LONGEST],
            None,
            TOO_LONG,
        )
    parsed: Any = arguments
    if isinstance(arguments, dict):
        fault = _odd(raw, arguments)
    else:
        parsed, fault = _parsed(raw)
    return ToolCall(
        identifier,
        name,
        raw,
        None if fault else parsed,
        fault,
    )


def _parsed(raw: str) -> tuple[Any, str]:
    """Return the arguments in this text, and what is wrong with it."""
    if has_too_many(raw):
        return None, TOO_MANY
    try:
        parsed: Any = json.loads(raw)
    except (ValueError, RecursionError) as error:
        return None, str(error)
    if is_deep(parsed):
        return None, TOO_DEEP
    if not isinstance(parsed, dict):
        return None, f"a JSON {type(parsed).__name__}, no object"
    return parsed, _odd(raw, parsed)


def _odd(raw: str, arguments: object) -> str:
    """Return the fault of what is JSON to Python alone; "" for none.

    No database keeps it, and a run takes it for malformed.
    """
    if not _ODD.search(raw) or is_json(arguments):
        return ""
    return "NaN or Infinity, which is no JSON"


def _written(arguments: Any) -> str:
    """Write arguments as `json.dumps` does, which is slow for more than one text at a time."""
    match arguments:
        case str():
            return arguments
        case {"command": str(command)} if len(arguments) == 1:
            return f'{{"command": {json.dumps(command)}}}'
    return json.dumps(arguments)


def _in_our_names(call: ToolCall, names: Mapping[str, str]) -> ToolCall:
    """Return the call in our own names; a name that is not known stays.

    Where a command started is left out: the workspace of a log is not known.
    """
    arguments = call.arguments or {}
    # As Codex has it, in whatever message
    if isinstance(arguments.get("command"), list):
        names = _SHELLS
    name = names.get(call.name)
    command = _command(arguments) if name == BASH else None
    if command is not None:
        rights = {key: arguments[key] for key in _KEYS["rights"] if arguments.get(key)}
        return ToolCall(
            call.id,
            BASH,
            command,
            {"command": command, **rights},
        )
    return replace(call, name=name) if name else call


def _command(arguments: Mapping[str, Any]) -> str | None:
    """Return the command for bash, given as text or as words; None if there is none."""
    command = arguments.get("command", arguments.get("cmd"))
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        return _script(command)
    return command if isinstance(command, str) else None


def _script(argv: Sequence[str]) -> str:
    match argv:
        case [shell, "-c" | "-lc", text] if shell.rpartition("/")[2] in {"bash", "sh", "zsh"}:
            return text
    return " ".join(map(quoted, argv))
