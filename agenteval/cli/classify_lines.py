"""What `agenteval classify` reads: lines of JSON, each a command or a whole tool call."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agenteval.core.call import BASH, ToolCall


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that holds no call. `number` counts from 1."""

    number: int
    reason: str


def read_lines(lines: Iterable[str]) -> Iterator[ToolCall | BadLine]:
    """One call or complaint for each line that is not blank, as it comes."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield _call(json.loads(line))
            except (ValueError, RecursionError) as error:
                yield BadLine(number, str(error))


def bash_call(command: str) -> ToolCall:
    return ToolCall("", BASH, command, {"command": command})


def _call(content: Any) -> ToolCall:
    """Raises ValueError when there is neither a command nor a tool's name in it."""
    if not isinstance(content, dict):
        raise ValueError(  # noqa: TRY004 -- a bad line, as JSON that does not parse is
            f"expected an object, got {type(content).__name__}"
        )
    identifier = str(content.get("id", ""))
    if isinstance(content.get("function"), dict):  # as chat-completions servers nest it
        content = content["function"]
    if isinstance(content.get("name"), str):
        return _tool_call(identifier, content["name"], content.get("arguments", {}))
    if isinstance(content.get("command"), str):
        return _tool_call(identifier, BASH, {"command": content["command"]})
    raise ValueError('expected "command" (a string), or "name" and "arguments"')


def _tool_call(identifier: str, name: str, arguments: object) -> ToolCall:
    """Arguments may come as an object or as the JSON text of one; text that is none is garbled."""
    if isinstance(arguments, Mapping):
        return ToolCall(identifier, name, json.dumps(arguments), arguments)
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
    try:
        parsed: Any = json.loads(raw)
    except (ValueError, RecursionError) as error:
        return ToolCall(identifier, name, raw, None, str(error))
    if not isinstance(parsed, dict):
        return ToolCall(identifier, name, raw, None, f"a JSON {type(parsed).__name__}, no object")
    return ToolCall(identifier, name, raw, parsed)
