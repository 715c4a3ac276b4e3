"""The dialects in which calls are written as text, by name; and calls that were left as text.

Here are the three that a model is told to use unless its family has one: `hermes`, `qwen3_coder`
and `json`.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from agenteval.replies.text_families import (
    MOST,
    Dialect,
    TextCall,
    after,
    broken,
    families,
    fenced,
    fences,
    json_call,
    kinds,
    of_own_lines,
    signatures,
    tagged,
    tagged_result,
    typed,
)
from agenteval.trial.call import Schemas

_CLOSE = r"\s*+</tool_call>"
_PARAMETER = re.compile(r"<parameter=([^>\n]{0,200})>")
_PARAMETER_END = "</parameter>"


def _parameters(body: str, schema: Any) -> dict[str, Any] | None:
    """Return the parameters of one call; None where one is not written to its end."""
    types = kinds(schema)
    parameters: dict[str, Any] = {}
    for opened in islice(_PARAMETER.finditer(body), MOST):
        end = body.find(_PARAMETER_END, opened.end())
        if end < 0:
            return None
        name = opened[1].strip()
        parameters[name] = typed(of_own_lines(body[opened.end() : end]), types.get(name))
    if parameters or not body.strip():
        return parameters
    value = typed(body.strip(), "object")  # Llama writes the arguments as JSON between the tags
    return value if isinstance(value, dict) else None


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
    find=partial(
        tagged,
        opens=r"(?:<tool_call>\s*+)?<function=(?P<name>[^>\n]{0,200})>",
        close="</function>",
        read=_parameters,
        behind=_CLOSE,
    ),
    instructions=_qwen3_coder_instructions,
    result=tagged_result,
    stop=("<tool_response>",),
)

_JSON_OPEN = re.compile(
    r'\{\s*+"name"\s*+:\s*+"([^"\\\n]{0,200})"\s*+,\s*+"(?:arguments|parameters)"\s*+:'
)


def _find_json(text: str, schemas: Schemas) -> Iterator[TextCall]:
    """Yield every object that names an offered tool and arguments; other JSON is no call."""
    over = 0
    for opened in islice(_JSON_OPEN.finditer(text), MOST):
        start, inside = opened.span()
        if start < over or opened[1] not in schemas:
            continue
        call = json_call(text, start)
        if call is None:  # it goes to the end of its fence, or of the text
            call = broken(text, start, inside, closes=r"(?=```)")
        over = call.end
        yield call


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


def _find_hermes(text: str, schemas: Schemas) -> Iterator[TextCall]:
    """Yield every call; one without its closing tag is whole when its object is."""
    del schemas  # JSON has types of its own
    for opened in islice(_HERMES_OPEN.finditer(text), MOST):
        start, inside = opened.span()
        if call := json_call(text, inside):
            yield replace(call, start=start, end=after(_CLOSE, text, call.end))
        else:
            yield broken(text, start, inside, closes="</tool_call>")


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

DIALECTS = {dialect.name: dialect for dialect in (HERMES, QWEN3_CODER, *families(), JSON)}
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
