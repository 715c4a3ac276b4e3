"""How model families write calls by themselves: the forms that the parsers of servers read."""

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from agenteval.core import plain
from agenteval.core.malformed import Schemas
from agenteval.core.text_calls.text_call import (
    MOST,
    Dialect,
    Find,
    TextCall,
    signatures,
    tagged_result,
)

Body = Callable[
    [str, Any], dict[str, Any] | None
]  # what is written between the marks, as arguments


def _dialect(name: str, mark: str, find: Find, example: str) -> Dialect:
    def instructions(schemas: Schemas) -> str:
        return (
            f"# Tools\n\nYou can call functions. These are their signatures:\n<tools>\n"
            f"{signatures(schemas)}\n</tools>\n\nTo call one, write exactly this, then stop and "
            f"wait for the result:\n{example}"
        )

    return Dialect(name, 1, mark, find, instructions, tagged_result)


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


def _tagged(
    opens: re.Pattern[str], close: str, read: Body, text: str, schemas: Schemas
) -> Iterator[TextCall]:
    """A name, then what `read` takes for arguments, up to `close`."""
    for opened in islice(opens.finditer(text), MOST):
        start, name = opened.start(), opened["name"].strip()
        closing = text.find(close, opened.end())
        end = len(text) if closing < 0 else closing + len(close)
        body = text[opened.end() : closing if closing >= 0 else len(text)]
        found = read(body, schemas.get(name, {})) if closing >= 0 else None
        whole = found is not None
        raw = json.dumps(found, ensure_ascii=False) if whole else text[start:end]
        yield TextCall(name, raw, start, end, whole)


def typed(value: str, kind: object) -> Any:
    """The value as JSON where its schema wants something else than text; text if it is none."""
    if kind in {None, "string"}:
        return value
    try:
        return plain.read(value)
    except ValueError:
        return value


def _pairs(pattern: re.Pattern[str], body: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """None where more is opened than is closed."""
    types = {name: one.get("type") for name, one in schema.get("properties", {}).items()}
    left = pattern.sub("", body)
    if "<" in left:
        return None
    return {
        found[1].strip(): typed(found[2].removeprefix("\n").removesuffix("\n"), types.get(found[1]))
        for found in pattern.finditer(body)
    }


def _invoked(name: str, mark: str, prefix: str, example: str) -> Dialect:
    """XML whose tags are `invoke` and `parameter`, each with this prefix."""
    opens = re.compile(rf'<{prefix}invoke name="(?P<name>[^"\n]*)">')
    pattern = rf'<{prefix}parameter name="([^"\n]*)"[^>\n]*>(.*?)</{prefix}parameter>'
    read = partial(_pairs, re.compile(pattern, re.DOTALL))
    return _dialect(name, mark, partial(_tagged, opens, f"</{prefix}invoke>", read), example)


def _invocation(prefix: str) -> str:
    parameter = f'<{prefix}parameter name="PARAMETER">VALUE</{prefix}parameter>'
    return f'<{prefix}invoke name="NAME">\n{parameter}\n</{prefix}invoke>'


def _gemma(name: str, begins: str, quote: str, ends: str) -> Dialect:
    """`call:NAME{key:value}`, whose texts stand between quotes of its own."""
    mark = re.escape(quote)
    part = re.compile(rf"{mark}(.*?){mark}|([{{,]\s*)([A-Za-z_]\w*)\s*:", re.DOTALL)

    def spelt(found: re.Match[str]) -> str:
        if found[3] is None:
            return json.dumps(found[1])
        return f"{found[2]}{json.dumps(found[3])}:"

    def read(body: str, schema: Any) -> dict[str, Any] | None:
        del schema
        try:
            found = plain.read(part.sub(spelt, body))
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    opens = re.compile(rf"{re.escape(begins)}\s*call:(?P<name>[\w.-]+)(?=\{{)")
    example = f"{begins}call:NAME{{PARAMETER:{quote}VALUE{quote}}}{ends}"
    return _dialect(name, begins, partial(_tagged, opens, ends, read), example)


_TRIES = 50  # closing brackets at which a call of Python may end


def _python(opens: str, text: str, schemas: Schemas) -> Iterator[TextCall]:
    """Calls as Python writes them, with named arguments, of offered tools alone."""
    names = "|".join(map(re.escape, schemas))
    if not names:
        return
    pattern = re.compile(rf"(?:{opens})(?P<name>{names})\((?=\s*(?:[A-Za-z_]\w*\s*=|\)))")
    for opened in islice(pattern.finditer(text), MOST):
        start, begins = opened.start(), opened.start("name")
        found = _python_call(text, begins)
        if found is None:
            raw = text[start:]
            yield TextCall(opened["name"], raw, start, len(text), whole=False)
            return
        arguments, end = found
        raw = json.dumps(arguments, ensure_ascii=False)
        yield TextCall(opened["name"], raw, start, end, whole=True)


def _python_call(text: str, begins: int) -> tuple[dict[str, Any], int] | None:
    for closing in islice(re.finditer(r"\)", text[begins:]), _TRIES):
        end = begins + closing.end()
        try:
            tree = ast.parse(text[begins:end], mode="eval").body
            if isinstance(tree, ast.Call) and not tree.args:
                return {str(one.arg): ast.literal_eval(one.value) for one in tree.keywords}, end
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return None


_DEEPSEEK_END = re.compile(
    r"\s*(?:```)?\s*<\uff5ctool▁call▁end\uff5c>(?:<\uff5ctool▁calls▁end\uff5c>)?"
)
_KIMI_END = re.compile(r"\s*<\|tool_call_end\|>(?:\s*<\|tool_calls?_section_end\|>)?")
_NOTHING = re.compile(r"(?!)")
_GLM = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)

FAMILIES = (
    _dialect(
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
    _dialect(
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
    _dialect(
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
    _invoked(
        "deepseek_v32",
        "<\uff5cDSML\uff5cinvoke",
        "\uff5cDSML\uff5c",
        _invocation("\uff5cDSML\uff5c"),
    ),
    _dialect(
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
    _dialect(
        "glm45",
        "<arg_key>",
        partial(
            _tagged,
            re.compile(r"<tool_call>\s*(?P<name>[\w.-]+)\s*(?=<arg_key>|</tool_call>)"),
            "</tool_call>",
            partial(_pairs, _GLM),
        ),
        "<tool_call>NAME\n<arg_key>PARAMETER</arg_key>\n<arg_value>VALUE</arg_value>\n</tool_call>",
    ),
    _invoked("minimax_m2", "<minimax:tool_call>", "", f"<minimax:tool_call>\n{_invocation('')}"),
    _invoked("step3", "<steptml:invoke", "steptml:", _invocation("steptml:")),
    _dialect(
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
    _gemma("gemma4", "<|tool_call>", '<|"|>', "<tool_call|>"),
    _gemma("functiongemma", "<start_function_call>", "<escape>", "<end_function_call>"),
    _dialect(
        "gemma",
        "```tool_code",
        partial(_python, r"```tool_code\s*\n\s*(?:print\()?"),
        '```tool_code\nNAME(PARAMETER="VALUE")\n```',
    ),
    _dialect(
        "pythonic",
        "[NAME(",
        partial(
            _python,
            r"<\|(?:python_start|tool_call_start)\|>\[?|<function_calls>\s*|(?:\A|\n)\s*\[|\),\s*",
        ),
        '[NAME(PARAMETER="VALUE")]',
    ),
    _dialect(
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
)
