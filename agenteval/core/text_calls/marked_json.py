"""Calls whose arguments are JSON, between marks that a model family has for them."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

from agenteval.core import plain
from agenteval.core.malformed import Schemas
from agenteval.core.text_calls import MOST, Dialect, TextCall, family, json_call


def _named(
    opens: re.Pattern[str], closes: re.Pattern[str], text: str, schemas: Schemas
) -> Iterator[TextCall]:
    """A name between marks, then an object of JSON; one that cannot be read goes to the end."""
    del schemas  # JSON has types of its own
    for opened in islice(opens.finditer(text), MOST):
        start, name = opened.start(), opened["name"].strip()
        try:
            found, end = plain.read_from(text, opened.end())
        except ValueError:
            found, end = None, len(text)
        if not isinstance(found, dict):
            closed = closes.search(text, opened.end())
            end = closed.end() if closed else len(text)
            yield TextCall(name, text[start:end], start, end, whole=False)
            continue
        raw = text[opened.end() : end]
        closed = closes.match(text, end)
        yield TextCall(name, raw, start, closed.end() if closed else end, whole=True)


_NAME = re.compile(r'"name"\s*:\s*"([^"\\]*)"')
_BEFORE, _BETWEEN = re.compile(r"\s*\[?\s*"), re.compile(r"\s*,\s*")


def _wrapped(
    opens: re.Pattern[str], closes: re.Pattern[str], text: str, schemas: Schemas
) -> Iterator[TextCall]:
    """Objects with name and arguments behind a mark: one, or a list of them."""
    del schemas  # JSON has types of its own
    for opened in islice(opens.finditer(text), MOST):
        start, inside = opened.start(), _after(_BEFORE, text, opened.end())
        call = json_call(text, inside)
        if call is None:
            closed = closes.search(text, inside)
            end = closed.end() if closed else len(text)
            name = _NAME.search(text, inside, end)
            yield TextCall(name[1] if name else "", text[start:end], start, end, whole=False)
        while call is not None:
            following = json_call(text, _after(_BETWEEN, text, call.end))
            end = _after(closes, text, call.end) if following is None else call.end
            yield replace(call, start=start, end=end)
            call, start = following, end


def _after(mark: re.Pattern[str], text: str, at: int) -> int:
    found = mark.match(text, at)
    return found.end() if found else at


def _wrap(name: str, begins: str, ends: str = "", *, listed: bool = False) -> Dialect:
    """Where `begins` has a space, there may be some or none."""
    opens = re.compile(r"\s*".join(map(re.escape, begins.split(" "))) + r"(?=\s*[\[{])")
    closes = re.compile(rf"\s*\]?\s*{re.escape(ends)}" if ends else r"\s*\]")
    one = '{"name": "NAME", "arguments": {"PARAMETER": "VALUE"}}'
    example = begins.replace(" ", "") + (f"[{one}]" if listed else one) + ends
    return family(name, begins.split(" ", maxsplit=1)[0], partial(_wrapped, opens, closes), example)


_PREFIX, _SUFFIX = re.compile(r"<\|tools_prefix\|>\s*(?=\[)"), re.compile(r"\s*<\|tools_suffix\|>")
_KEY = re.compile(r'\{\s*"([^"\\]*)"\s*:')


def _apertus(text: str, schemas: Schemas) -> Iterator[TextCall]:
    """A list of objects, each of whose one key is the name and whose value the arguments."""
    del schemas
    for opened in islice(_PREFIX.finditer(text), MOST):
        start = opened.start()
        try:
            found, end = plain.read_from(text, opened.end())
        except ValueError:
            found, end = None, len(text)
        calls = found if isinstance(found, list) else []
        if not calls or not all(isinstance(call, dict) for call in calls):
            name = _KEY.search(text, opened.end())
            yield TextCall(name[1] if name else "", text[start:end], start, end, whole=False)
            continue
        end = _after(_SUFFIX, text, end)
        for name, arguments in (pair for call in calls for pair in call.items()):
            raw = json.dumps(arguments, ensure_ascii=False)
            yield TextCall(name, raw, start, end, whole=True)


_DEEPSEEK_END = re.compile(
    r"\s*(?:```)?\s*<\uff5ctool▁call▁end\uff5c>(?:<\uff5ctool▁calls▁end\uff5c>)?"
)
_KIMI_END = re.compile(r"\s*<\|tool_call_end\|>(?:\s*<\|tool_calls?_section_end\|>)?")
_NOTHING = re.compile(r"(?!)")
MARKED_JSON = (
    family(
        "mistral",
        "[TOOL_CALLS]",
        partial(
            _named,
            re.compile(
                r"\[TOOL_CALLS\]\s*(?P<name>[\w.-]+)\s*(?:\[CALL_ID\][^\[{\n]*)?(?:\[ARGS\])?\s*(?=\{)"
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
                r"(?P<name>[^\n<]+)\n```(?:json)?\n(?=\{)"
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
                r"<\uff5ctool▁call▁begin\uff5c>(?P<name>[^\n<]+)<\uff5ctool▁sep\uff5c>\s*(?=\{)"
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
                r"<\|tool_call_begin\|>\s*(?:functions\.)?(?P<name>[^\s:<]+)(?::\d+)?\s*"
                r"<\|tool_call_argument_begin\|>\s*(?=\{)"
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
                r"<\|message\|>\s*(?=\{)"
            ),
            re.compile(r"\s*<\|call\|>"),
        ),
        "<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>"
        '{"PARAMETER": "VALUE"}<|call|>',
    ),
    family(
        "cohere",
        '"tool_name"',
        partial(
            _named,
            re.compile(r'"tool_name"\s*:\s*"(?P<name>[^"\\\n]+)"\s*,\s*"parameters"\s*:\s*(?=\{)'),
            re.compile(r"\s*\}\s*\]?\s*<\|END_ACTION\|>|\s*\}"),
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
                r"(?:<\|message_model\|>[\w.-]*)?<\|content_invoke_tool_json\|>\s*"
                r'\{\s*"name"\s*:\s*"(?P<name>[^"\\\n]*)"\s*,\s*"args"\s*:\s*(?=\{)'
            ),
            re.compile(r"\s*\}\s*(?:<\|end_message\|>)?"),
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
                r"<\|plamo:begin_tool_name:plamo\|>(?P<name>[^<\n]*)"
                r"<\|plamo:end_tool_name:plamo\|>\s*<\|plamo:begin_tool_arguments:plamo\|>"
                r"(?:<\|plamo:constrain\|>json<\|plamo:msg\|>)?\s*(?=\{)"
            ),
            re.compile(r"(?:\s*<\|plamo:end_tool_(?:arguments|requests?):plamo\|>)+"),
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
        _apertus,
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
