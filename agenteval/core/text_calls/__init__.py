"""Tool calls written as text: the form of such a call, and the parts of a dialect.

`dialects` has the dialects by name.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agenteval.core import plain
from agenteval.core.malformed import Schemas

MOST = 64  # calls looked for in one text: each search may read it to its end
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TextCall:
    """One call found in a text, at `start` to `end`.

    `raw` is its argument text as JSON; of a call that is not `whole` (not written to its end, or
    not to be read) it is the text itself.
    """

    name: str
    raw: str
    start: int
    end: int
    whole: bool


Find = Callable[[str, Schemas], Iterable[TextCall]]


@dataclass(frozen=True, slots=True)
class Dialect:
    """A way to write calls and their results as text.

    `find` reads the calls of a text, `mark` is how one begins. `instructions` tells a model how to
    write one and `result` what came of it: an edit of either raises `version`, which is kept with
    the run. `stop` keeps a model from writing the result itself. `in_fences` says that a call may
    stand in a code fence; elsewhere such a call is only spoken about.
    """

    name: str
    version: int
    mark: str
    find: Find
    instructions: Callable[[Schemas], str]
    result: Callable[[str, str], str]
    stop: tuple[str, ...] = ()
    in_fences: bool = False

    @property
    def title(self) -> str:
        return f"{self.name}/{self.version}"


def fences(text: str) -> list[tuple[int, int]]:
    """Return begin and end of each code fence of a text; one that is not closed goes to its end."""
    marks = [found.start() for found in _FENCE.finditer(text)]
    if len(marks) % 2:
        marks.append(len(text))
    return list(zip(marks[::2], marks[1::2], strict=True))


def fenced(call: TextCall, places: Iterable[tuple[int, int]]) -> bool:
    """Return True if the call stands in a fence; a fence that begins with it is a part of it."""
    return any(start < call.start < end for start, end in places)


def json_call(text: str, start: int) -> TextCall | None:
    """Return the call in a JSON object with name and arguments at `start`; None if it is none."""
    try:
        value, end = plain.read_from(text, start)
    except ValueError:
        return None
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    for key in ("arguments", "parameters"):
        if key in value:
            return TextCall(value["name"], _as_text(value[key]), start, end, whole=True)
    return None


def _as_text(arguments: Any) -> str:
    """Return the arguments as JSON text; some models write the object as a string of JSON."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def signatures(schemas: Schemas) -> str:
    """Return the tools and their parameters, a line of JSON each."""
    return "\n".join(
        json.dumps({"name": name, "parameters": schema}) for name, schema in schemas.items()
    )


def tagged_result(name: str, content: str) -> str:
    """Return a tool's result as Qwen's chat templates write it."""
    del name  # results come in the order of their calls
    return f"<tool_response>\n{content}\n</tool_response>"


def family(name: str, mark: str, find: Find, example: str) -> Dialect:
    """Return a dialect that one example explains to a model."""

    def instructions(schemas: Schemas) -> str:
        return (
            f"# Tools\n\nYou can call functions. These are their signatures:\n<tools>\n"
            f"{signatures(schemas)}\n</tools>\n\nTo call one, write exactly this, then stop and "
            f"wait for the result:\n{example}"
        )

    return Dialect(name, 1, mark, find, instructions, tagged_result)


def kinds(schema: Any) -> Mapping[str, Any]:
    """Return the type of each parameter that a tool's schema names, as it stands there."""
    named = schema.get("properties") if isinstance(schema, Mapping) else None
    found = named.items() if isinstance(named, Mapping) else ()
    return {name: one.get("type") for name, one in found if isinstance(one, Mapping)}


def typed(value: str, kind: object) -> Any:
    """Return the value parsed as JSON if its schema is not of text; as text if that fails."""
    wanted = kind if isinstance(kind, list) else [kind]
    if None in wanted or "string" in wanted:
        return value
    try:
        return plain.read(value)
    except ValueError:
        return value
