"""The dialects in which calls are written as text, by name; and calls that were left as text.

Calls whose arguments are JSON, between marks that a model family has for them.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from agenteval.replies.text_families import (
    FAMILIES,
    MOST,
    Dialect,
    TextCall,
    family,
    fenced,
    fences,
    json_call,
    kinds,
    signatures,
    tagged_result,
    typed,
)
from agenteval.trial import text as plain
from agenteval.trial.call import Schemas


def _named(
    opens: re.Pattern[str], closes: re.Pattern[str], text: str, schemas: Schemas
) -> Iterator[TextCall]:
    """A name between marks, then an object of JSON; one that cannot be read goes to the end."""
    del schemas  # JSON has types of its own
    for opened in islice(opens.finditer(text), MOST):
        start, name = opened.start(), opened["name"].strip()
        try:
            arguments, end = plain.read_from(text, opened.end())
        except ValueError:
            arguments, end = None, len(text)
        if isinstance(arguments, dict):
            raw = text[opened.end() : end]
            yield TextCall(name, raw, start, _after(closes, text, end), whole=True)
        else:
            yield replace(_broken(closes, text, start, opened.end()), name=name)


_CALL_NAME = re.compile(r'"name"\s*+:\s*+"([^"\\]{0,200})"')
_BEFORE, _BETWEEN = re.compile(r"\s*+(?:\[\s*+)?"), re.compile(r"\s*+(?:[,;]\s*+)?")


def _wrapped(  # noqa: PLR0913 -- what tells one family's marks from another's
    opens: re.Pattern[str],
    closes: re.Pattern[str],
    text: str,
    schemas: Schemas,
    *,
    read: Callable[[str, int], TextCall | None] = json_call,
    named: re.Pattern[str] = _CALL_NAME,
) -> Iterator[TextCall]:
    """Objects, each with name and arguments, behind a mark: one, or a list of them."""
    del schemas  # JSON has types of its own
    for opened in islice(opens.finditer(text), MOST):
        start, at, goes_on = opened.start(), _after(_BEFORE, text, opened.end()), True
        while goes_on:
            call = read(text, at)
            if call is None:
                broken = _broken(closes, text, start, at)
                name = named.search(broken.raw)
                yield replace(broken, name=name[1] if name else "")
                break
            at = _after(_BETWEEN, text, call.end)
            goes_on = text.startswith("{", at)
            end = call.end if goes_on else _after(closes, text, call.end)
            yield replace(call, start=start, end=end)
            start = at


def _broken(closes: re.Pattern[str], text: str, start: int, inside: int) -> TextCall:
    """Return a call that cannot be read, up to the mark behind `inside` that ends it or the end."""
    closed = closes.search(text, inside)
    end = closed.end() if closed else len(text)
    return TextCall("", text[start:end], start, end, whole=False)


def _after(mark: re.Pattern[str], text: str, at: int) -> int:
    match = mark.match(text, at)
    return match.end() if match else at


def _wrap(name: str, begins: str, ends: str = "", *, listed: bool = False) -> Dialect:
    """Return the dialect of these marks; a space in `begins` stands for any white space or none."""
    mark = r"\s*+".join(map(re.escape, begins.split(" ")))
    is_word = begins.isalpha()  # which prose has, too
    around = (r"(?<!\w)", r'(?=\[?\s*+\{\s*+"name")') if is_word else ("", r"(?=\s*+[\[{])")
    opens = re.compile(mark.join(around))
    closes = re.compile(rf"(?<!\s)\s*+(?:\]\s*+)?{re.escape(ends)}" if ends else r"(?<!\s)\s*+\]")
    one = '{"name": "NAME", "arguments": {"PARAMETER": "VALUE"}}'
    example = begins.replace(" ", "") + (f"[{one}]" if listed else one) + ends
    return family(name, begins.split(" ", maxsplit=1)[0], partial(_wrapped, opens, closes), example)


_PREFIX = re.compile(r"<\|tools_prefix\|>\s*+(?=\[)")
_SUFFIX = re.compile(r"(?<!\s)\s*+(?:\]\s*+)?<\|tools_suffix\|>")
_KEY = re.compile(r'\{\s*+"([^"\\]{0,200})"\s*+:')


def _keyed_call(text: str, at: int) -> TextCall | None:
    """The call in an object whose one key is its name, and whose value its arguments."""
    try:
        value, end = plain.read_from(text, at)
    except ValueError:
        value, end = None, at
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((name, arguments),) = value.items()
    return TextCall(name, json.dumps(arguments, ensure_ascii=False), at, end, whole=True)


_DEEPSEEK_END = re.compile(
    r"(?<!\s)\s*+(?:```\s*+)?<\uff5ctool▁call▁end\uff5c>(?:<\uff5ctool▁calls▁end\uff5c>)?"
)
_KIMI_END = re.compile(r"(?<!\s)\s*+<\|tool_call_end\|>(?:\s*+<\|tool_calls?_section_end\|>)?")
_NOTHING = re.compile(r"(?!)")
MARKED_JSON = (
    family(
        "mistral",
        "[TOOL_CALLS]",
        partial(
            _named,
            re.compile(
                r"\[TOOL_CALLS\]\s*+(?P<name>[\w.-]+)\s*+(?:\[CALL_ID\][^\[{\n]{0,200})?(?:\[ARGS\])?\s*+(?=\{)"
            ),
            _NOTHING,
        ),
        '[TOOL_CALLS]NAME[ARGS]{"PARAMETER": "VALUE"}',
    ),
    family(
        "deepseek_v3",
        "<\uff5ctool▁call▁begin\uff5c>",
        partial(
            _named,
            re.compile(
                r"<\uff5ctool▁call▁begin\uff5c>\w+<\uff5ctool▁sep\uff5c>"
                r"(?P<name>[^\n<]{1,200})\n```(?:json)?\n(?=\{)"
            ),
            _DEEPSEEK_END,
        ),
        "<\uff5ctool▁call▁begin\uff5c>function<\uff5ctool▁sep\uff5c>NAME\n```json\n"
        '{"PARAMETER": "VALUE"}\n```<\uff5ctool▁call▁end\uff5c>',
    ),
    family(
        "deepseek_v31",
        "<\uff5ctool▁call▁begin\uff5c>",
        partial(
            _named,
            re.compile(
                r"<\uff5ctool▁call▁begin\uff5c>(?P<name>[^\n<]{1,200})<\uff5ctool▁sep\uff5c>\s*+(?=\{)"
            ),
            _DEEPSEEK_END,
        ),
        '<\uff5ctool▁call▁begin\uff5c>NAME<\uff5ctool▁sep\uff5c>{"PARAMETER": "VALUE"}'
        "<\uff5ctool▁call▁end\uff5c>",
    ),
    family(
        "kimi_k2",
        "<|tool_call_begin|>",
        partial(
            _named,
            re.compile(
                r"<\|tool_call_begin\|>\s*+(?:functions\.)?(?P<name>[^\s:<]{1,200})(?::\d+)?\s*+"
                r"<\|tool_call_argument_begin\|>\s*+(?=\{)"
            ),
            _KIMI_END,
        ),
        '<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{"PARAMETER": "VALUE"}'
        "<|tool_call_end|>",
    ),
    family(
        "harmony",
        "<|message|>",
        partial(
            _named,
            re.compile(
                r"(?:<\|channel\|>\w+ )?to=functions\.(?P<name>[\w-]+)[^{\n]{0,80}?"
                r"<\|message\|>\s*+(?=\{)"
            ),
            re.compile(r"(?<!\s)\s*+<\|call\|>"),
        ),
        "<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>"
        '{"PARAMETER": "VALUE"}<|call|>',
    ),
    family(
        "cohere",
        '"tool_name"',
        partial(
            _named,
            re.compile(
                r'"tool_name"\s*+:\s*+"(?P<name>[^"\\\n]{1,200})"\s*+,\s*+"parameters"\s*+:\s*+(?=\{)'
            ),
            re.compile(r"(?<!\s)\s*+\}(?:\s*+\]?\s*+<\|END_ACTION\|>)?"),
        ),
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "NAME", "parameters": '
        '{"PARAMETER": "VALUE"}}]<|END_ACTION|>',
    ),
    family(
        "inkling",
        "<|content_invoke_tool_json|>",
        partial(
            _named,
            re.compile(
                r"(?:<\|message_model\|>[\w.-]*)?<\|content_invoke_tool_json\|>\s*+"
                r'\{\s*+"name"\s*+:\s*+"(?P<name>[^"\\\n]{0,200})"\s*+,\s*+"args"\s*+:\s*+(?=\{)'
            ),
            re.compile(r"(?<!\s)\s*+\}\s*+(?:<\|end_message\|>)?"),
        ),
        '<|message_model|>NAME<|content_invoke_tool_json|>{"name": "NAME", "args": '
        '{"PARAMETER": "VALUE"}}<|end_message|>',
    ),
    family(
        "plamo3",
        "<|plamo:begin_tool_name:plamo|>",
        partial(
            _named,
            re.compile(
                r"<\|plamo:begin_tool_name:plamo\|>(?P<name>[^<\n]{0,200})"
                r"<\|plamo:end_tool_name:plamo\|>\s*+<\|plamo:begin_tool_arguments:plamo\|>"
                r"(?:<\|plamo:constrain\|>json<\|plamo:msg\|>)?\s*+(?=\{)"
            ),
            re.compile(r"(?<!\s)(?:\s*+<\|plamo:end_tool_(?:arguments|requests?):plamo\|>)+"),
        ),
        "<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|>"
        "<|plamo:begin_tool_name:plamo|>NAME<|plamo:end_tool_name:plamo|>"
        "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>"
        '{"PARAMETER": "VALUE"}<|plamo:end_tool_arguments:plamo|>'
        "<|plamo:end_tool_request:plamo|><|plamo:end_tool_requests:plamo|>",
    ),
    family(
        "apertus",
        "<|tools_prefix|>",
        partial(_wrapped, _PREFIX, _SUFFIX, read=_keyed_call, named=_KEY),
        '<|tools_prefix|>[{"NAME": {"PARAMETER": "VALUE"}}]<|tools_suffix|>',
    ),
    _wrap("mistral_json", "[TOOL_CALLS]", listed=True),
    _wrap("granite", "<|tool_call|>", listed=True),
    _wrap("granite_20b", "<function_call>"),
    _wrap("internlm", "<|action_start|> <|plugin|>", "<|action_end|>"),
    _wrap("jamba", "<tool_calls>", "</tool_calls>", listed=True),
    _wrap("longcat", "<longcat_tool_call>", "</longcat_tool_call>"),
    _wrap("phi4_mini", "functools", listed=True),
    _wrap("gigachat3", "<|function_call|>"),
    _wrap("llama3_json", "<|python_tag|>"),
)

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
