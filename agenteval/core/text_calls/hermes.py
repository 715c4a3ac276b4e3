"""The hermes dialect: a JSON object in <tool_call> tags, as Hermes and Qwen2.5 models write it."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from agenteval.core.garble import Schemas
from agenteval.core.text_calls.call import (
    MOST,
    Dialect,
    TextCall,
    json_call,
    signatures,
    tagged_result,
)

_OPEN = re.compile(r"<tool_call>\s*(?=\{)")
_CLOSE = re.compile(r"\s*</tool_call>")
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]*)"')


def find(text: str, schemas: Schemas) -> Iterator[TextCall]:
    """Every call; one without its closing tag is whole when its object is."""
    del schemas  # JSON has types of its own
    for opened in islice(_OPEN.finditer(text), MOST):
        call = json_call(text, opened.end())
        if call is None:
            yield _broken(text, opened.start(), opened.end())
            continue
        closed = _CLOSE.match(text, call.end)
        yield replace(call, start=opened.start(), end=closed.end() if closed else call.end)


def _broken(text: str, start: int, inside: int) -> TextCall:
    """A call whose object cannot be read goes to its closing tag, or to the end of the text."""
    closing = text.find("</tool_call>", inside)
    end = len(text) if closing < 0 else closing + len("</tool_call>")
    name = _NAME.search(text, inside, end)
    return TextCall(name[1] if name else "", text[start:end], start, end, whole=False)


def _instructions(schemas: Schemas) -> str:
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
    find=find,
    instructions=_instructions,
    result=tagged_result,
    stop=("<tool_response>",),
)
