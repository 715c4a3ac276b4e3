"""The json dialect: a bare JSON object with name and arguments, in a code fence or not."""

import json
import re
from collections.abc import Iterator
from itertools import islice

from agenteval.core.garble import Schemas
from agenteval.core.text_calls.call import MOST, Dialect, TextCall, json_call, signatures

_OPEN = re.compile(r'\{\s*"name"\s*:\s*"([^"\\\n]*)"\s*,\s*"(?:arguments|parameters)"\s*:')


def find(text: str, schemas: Schemas) -> Iterator[TextCall]:
    """Every object that names an offered tool and arguments: any other JSON is none of ours."""
    over = 0
    for opened in islice(_OPEN.finditer(text), MOST):
        if opened.start() < over or opened[1] not in schemas:
            continue
        call = json_call(text, opened.start()) or _broken(text, opened)
        over = call.end
        yield call


def _broken(text: str, opened: re.Match[str]) -> TextCall:
    """An object that cannot be read goes to the end of its fence, or of the text."""
    fence = text.find("```", opened.end())
    end = len(text) if fence < 0 else fence
    return TextCall(opened[1], text[opened.start() : end], opened.start(), end, whole=False)


def _instructions(schemas: Schemas) -> str:
    return f"""\
# Tools

You can call functions. These are their signatures:
{signatures(schemas)}

To call one, answer with nothing but a JSON object, then stop and wait for the result:
{{"name": <function-name>, "arguments": <args-json-object>}}"""


def _result(name: str, content: str) -> str:
    return json.dumps({"tool": name, "result": content}, ensure_ascii=False)


JSON = Dialect(
    name="json",
    version=1,
    mark='{"name"',
    find=find,
    instructions=_instructions,
    result=_result,
    in_fences=True,
)
