"""The dialects in which calls are written as text, by name; and calls that were left as text."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from agenteval.core.malformed import Schemas
from agenteval.core.text_calls import (
    MOST,
    Dialect,
    TextCall,
    fenced,
    fences,
    json_call,
    kinds,
    signatures,
    tagged_result,
    typed,
)
from agenteval.core.text_calls.families import FAMILIES
from agenteval.core.text_calls.marked_json import MARKED_JSON

_FUNCTION_OPEN = re.compile(r"(?:<tool_call>\s*+)?<function=([^>\n]{0,200})>")
_CLOSE = re.compile(r"\s*+</tool_call>")
_PARAMETER = re.compile(r"<parameter=([^>\n]{0,200})>")
_END, _PARAMETER_END = "</function>", "</parameter>"


def _find_qwen3_coder(text: str, schemas: Schemas) -> Iterator[TextCall]:
    """Every call; values become what the tool's schema says, text where it says nothing."""
    for opened in islice(_FUNCTION_OPEN.finditer(text), MOST):
        name = opened[1].strip()
        closing = text.find(_END, opened.end())
        body = text[opened.end() :] if closing < 0 else text[opened.end() : closing]
        end = len(text) if closing < 0 else _closed(text, closing + len(_END))
        arguments, whole = _parameters(body, schemas.get(name, {}))
        whole = whole and closing >= 0
        raw = json.dumps(arguments, ensure_ascii=False) if whole else text[opened.start() : end]
        yield TextCall(name, raw, opened.start(), end, whole)


def _closed(text: str, end: int) -> int:
    closed = _CLOSE.match(text, end)
    return closed.end() if closed else end


def _parameters(body: str, schema: Any) -> tuple[dict[str, Any], bool]:
    """The parameters of one call, and whether each is written to its end."""
    types = kinds(schema)
    parameters, whole = {}, True
    for opened in islice(_PARAMETER.finditer(body), MOST):
        end = body.find(_PARAMETER_END, opened.end())
        whole = whole and end >= 0
        value = body[opened.end() :] if end < 0 else body[opened.end() : end]
        name = opened[1].strip()
        parameters[name] = typed(value.removeprefix("\n").removesuffix("\n"), types.get(name))
    return (parameters, whole) if parameters or not body.strip() else _object(body)


def _object(body: str) -> tuple[dict[str, Any], bool]:
    """Llama writes the arguments as JSON between the tags."""
    value = typed(body.strip(), "object")
    return (value, True) if isinstance(value, dict) else ({}, False)


def _qwen3_coder_instructions(schemas: Schemas) -> str:
    return f"""\
# Tools

You can call functions. These are their signatures:
<tools>
{signatures(schemas)}
</tools>

To call one, write exactly this, with every value on lines of its own, then stop and wait for the \
result:
<tool_call>
<function=NAME>
<parameter=PARAMETER>
value
</parameter>
</function>
</tool_call>"""


QWEN3_CODER = Dialect(
    name="qwen3_coder",
    version=1,
    mark="<function=",
    find=_find_qwen3_coder,
    instructions=_qwen3_coder_instructions,
    result=tagged_result,
    stop=("<tool_response>",),
)


_JSON_OPEN = re.compile(
    r'\{\s*+"name"\s*+:\s*+"([^"\\\n]{0,200})"\s*+,\s*+"(?:arguments|parameters)"\s*+:'
)


def _find_json(text: str, schemas: Schemas) -> Iterator[TextCall]:
    """Every object that names an offered tool and arguments: any other JSON is none of ours."""
    over = 0
    for opened in islice(_JSON_OPEN.finditer(text), MOST):
        if opened.start() < over or opened[1] not in schemas:
            continue
        call = json_call(text, opened.start()) or _broken_json(text, opened)
        over = call.end
        yield call


def _broken_json(text: str, opened: re.Match[str]) -> TextCall:
    """An object that cannot be read goes to the end of its fence, or of the text."""
    fence = text.find("```", opened.end())
    end = len(text) if fence < 0 else fence
    return TextCall(opened[1], text[opened.start() : end], opened.start(), end, whole=False)


def _json_instructions(schemas: Schemas) -> str:
    return f"""\
# Tools

You can call functions. These are their signatures:
{signatures(schemas)}

To call one, answer with nothing but a JSON object, then stop and wait for the result:
{{"name": <function-name>, "arguments": <args-json-object>}}"""


def _json_result(name: str, content: str) -> str:
    return json.dumps({"tool": name, "result": content}, ensure_ascii=False)


JSON = Dialect(
    name="json",
    version=1,
    mark='{"name"',
    find=_find_json,
    instructions=_json_instructions,
    result=_json_result,
    in_fences=True,
)


_HERMES_OPEN = re.compile(r"<tool_call>\s*+(?=\{)")
_NAME = re.compile(r'"name"\s*+:\s*+"([^"\\]{0,200})"')


def _find_hermes(text: str, schemas: Schemas) -> Iterator[TextCall]:
    """Every call; one without its closing tag is whole when its object is."""
    del schemas  # JSON has types of its own
    for opened in islice(_HERMES_OPEN.finditer(text), MOST):
        call = json_call(text, opened.end())
        if call is None:
            yield _broken_hermes(text, opened.start(), opened.end())
            continue
        yield replace(call, start=opened.start(), end=_closed(text, call.end))


def _broken_hermes(text: str, start: int, inside: int) -> TextCall:
    """A call whose object cannot be read goes to its closing tag, or to the end of the text."""
    closing = text.find("</tool_call>", inside)
    end = len(text) if closing < 0 else closing + len("</tool_call>")
    name = _NAME.search(text, inside, end)
    return TextCall(name[1] if name else "", text[start:end], start, end, whole=False)


def _hermes_instructions(schemas: Schemas) -> str:
    return f"""\
# Tools

You can call functions. These are their signatures:
<tools>
{signatures(schemas)}
</tools>

To call one, write a JSON object with its name and its arguments within <tool_call></tool_call> \
tags, then stop and wait for the result:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""


HERMES = Dialect(
    name="hermes",
    version=1,
    mark="<tool_call>",
    find=_find_hermes,
    instructions=_hermes_instructions,
    result=tagged_result,
    stop=("<tool_response>",),
)


DIALECTS = {
    dialect.name: dialect for dialect in (HERMES, QWEN3_CODER, *MARKED_JSON, *FAMILIES, JSON)
}
LONGEST = 1 << 18  # characters of a text that are searched


def read_calls(text: str, dialect: Dialect, schemas: Schemas) -> list[TextCall]:
    """Return the calls in the dialect that a model was instructed to use; a mention is none."""
    fenced_places = [] if dialect.in_fences else fences(text)
    return [
        call for call in dialect.find(text[:LONGEST], schemas) if not fenced(call, fenced_places)
    ]


def calls_left(text: str, schemas: Schemas) -> Iterator[tuple[Dialect, TextCall, bool]]:
    """Calls of any dialect in a text that should hold none, and whether each stands in a fence."""
    if not any(mark in text for mark in "<{[`"):
        return
    text = text[:LONGEST]
    fenced_places, earlier_calls = fences(text), list[TextCall]()
    for dialect in DIALECTS.values():
        for call in dialect.find(text, schemas):
            if not any(other.start <= call.start < other.end for other in earlier_calls):
                earlier_calls.append(call)
                yield dialect, call, fenced(call, fenced_places)
