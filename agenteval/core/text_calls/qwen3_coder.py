"""The qwen3_coder dialect: <function=NAME> with a tag for each parameter, as Qwen3-Coder writes."""

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from agenteval.core import plain_json
from agenteval.core.garble import Schemas
from agenteval.core.text_calls.call import MOST, Dialect, TextCall, signatures, tagged_result

_OPEN = re.compile(r"(?:<tool_call>\s*)?<function=([^>\n]*)>")
_CLOSE = re.compile(r"\s*</tool_call>")
_PARAMETER = re.compile(r"<parameter=([^>\n]*)>")
_END, _PARAMETER_END = "</function>", "</parameter>"


def find(text: str, schemas: Schemas) -> Iterator[TextCall]:
    """Every call; values become what the tool's schema says, text where it says nothing."""
    for opened in islice(_OPEN.finditer(text), MOST):
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
    types = {name: one.get("type") for name, one in schema.get("properties", {}).items()}
    found, whole = {}, True
    for opened in islice(_PARAMETER.finditer(body), MOST):
        end = body.find(_PARAMETER_END, opened.end())
        whole = whole and end >= 0
        value = body[opened.end() :] if end < 0 else body[opened.end() : end]
        name = opened[1].strip()
        found[name] = _typed(value.removeprefix("\n").removesuffix("\n"), types.get(name))
    return found, whole


def _typed(value: str, kind: object) -> Any:
    """The value as JSON where its schema wants something else than text; text if it is none."""
    if kind in {None, "string"}:
        return value
    try:
        return plain_json.read(value)
    except ValueError:
        return value


def _instructions(schemas: Schemas) -> str:
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
    find=find,
    instructions=_instructions,
    result=tagged_result,
    stop=("<tool_response>",),
)
