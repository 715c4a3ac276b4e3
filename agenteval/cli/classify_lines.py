"""What `agenteval classify` reads: lines of JSON, each with commands or whole tool calls."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agenteval.core.call import ToolCall
from agenteval.formats.tool_calls import tool_calls


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that holds no call. `number` counts from 1.

    `reason` is "" for a message or a line of a session that could have held one.
    """

    number: int
    reason: str = ""


def read_lines(lines: Iterable[str]) -> Iterator[ToolCall | BadLine]:
    """The calls, or one complaint, of each line that is not blank, as it comes."""
    for number, line in enumerate(lines, 1):
        if line.strip() in {"{", "["}:
            yield BadLine(number, "a document of many lines; give an object a line, as by jq -c")
            return
        if line.strip():
            try:
                yield from _calls(json.loads(line), number)
            except (ValueError, RecursionError) as error:
                yield BadLine(number, str(error))


def _calls(content: object, number: int) -> Iterator[ToolCall | BadLine]:
    if not isinstance(content, dict):
        yield BadLine(number, f"expected an object, got {type(content).__name__}")
        return
    calls = tool_calls(content)
    if calls is None:
        yield BadLine(number, 'expected "command" (a string), or "name" and "arguments"')
    elif calls:
        yield from calls
    else:
        yield BadLine(number)
