"""Tool calls written as text: the form of such a call, and the parts of a dialect.

`dialects` has the dialects by name.

Dialects that model families write by themselves: the forms that servers' parsers read.
"""

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from agenteval.trial import text as plain
from agenteval.trial.call import Schemas

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


# What is written between the marks, as arguments.
Body = Callable[[str, Any], dict[str, Any] | None]


def _tagged(
    opens: re.Pattern[str], close: str, read: Body, text: str, schemas: Schemas
) -> Iterator[TextCall]:
    """A name, then what `read` takes for arguments, up to `close`."""
    for opened in islice(opens.finditer(text), MOST):
        start, name = opened.start(), opened["name"].strip()
        closing = text.find(close, opened.end())
        end = len(text) if closing < 0 else closing + len(close)
        body = text[opened.end() : closing if closing >= 0 else len(text)]
        arguments = read(body, schemas.get(name, {})) if closing >= 0 else None
        whole = arguments is not None
        raw = json.dumps(arguments, ensure_ascii=False) if whole else text[start:end]
        yield TextCall(name, raw, start, end, whole)


def _pairs(pattern: re.Pattern[str], body: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """None where more is opened than is closed, or more than a call has."""
    opens = re.finditer(pattern.pattern.partition("(")[0], body)
    if len(list(islice(opens, MOST + 1))) > MOST or "<" in pattern.sub("", body):
        return None
    types = kinds(schema)
    return {
        found[1].strip(): typed(found[2].removeprefix("\n").removesuffix("\n"), types.get(found[1]))
        for found in pattern.finditer(body)
    }


def _invoked(name: str, mark: str, prefix: str, example: str) -> Dialect:
    """XML whose tags are `invoke` and `parameter`, each with this prefix."""
    opens = re.compile(rf'<{prefix}invoke name="(?P<name>[^"\n]{{0,200}})">')
    pattern = (
        rf'<{prefix}parameter name="([^"\n]{{0,200}})"[^>\n]{{0,200}}>(.*?)</{prefix}parameter>'
    )
    read = partial(_pairs, re.compile(pattern, re.DOTALL))
    return family(name, mark, partial(_tagged, opens, f"</{prefix}invoke>", read), example)


def _invocation(prefix: str) -> str:
    parameter = f'<{prefix}parameter name="PARAMETER">VALUE</{prefix}parameter>'
    return f'<{prefix}invoke name="NAME">\n{parameter}\n</{prefix}invoke>'


def _keyed(name: str, mark: str, ends: tuple[str, str], pair: str, example: str) -> Dialect:
    """Between `ends` a name, then each key with its value as `pair` has them."""
    opens, closes = ends
    read = partial(_pairs, re.compile(pair, re.DOTALL))
    return family(name, mark, partial(_tagged, re.compile(opens), closes, read), example)


def _in_block(block: str, dialect: Dialect) -> Dialect:
    """Return the dialect for texts with this block; without it the form is another family's."""

    def find(text: str, schemas: Schemas) -> Iterator[TextCall]:
        if block in text:
            yield from dialect.find(text, schemas)

    return replace(dialect, mark=block, find=find)


def _gemma(name: str, begins: str, quote: str, ends: str) -> Dialect:
    """`call:NAME{key:value}`, whose texts stand between quotes of its own."""
    mark = re.escape(quote)
    part = re.compile(rf"{mark}(.*?){mark}|([{{,]\s*+)([A-Za-z_]\w*)\s*+:", re.DOTALL)

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

    opens = re.compile(rf"{re.escape(begins)}\s*+call:(?P<name>[\w.-]+)(?=\{{)")
    example = f"{begins}call:NAME{{PARAMETER:{quote}VALUE{quote}}}{ends}"
    return family(name, begins, partial(_tagged, opens, ends, read), example)


_TRIES = 50  # closing brackets at which a call of Python may end
_PARSED = 1 << 21  # characters of one text that are parsed as Python


def _python(opens: str, text: str, schemas: Schemas) -> Iterator[TextCall]:
    """Calls as Python writes them, with named arguments, of offered tools alone."""
    names = "|".join(map(re.escape, schemas))
    if not names:
        return
    pattern = re.compile(rf"(?:{opens})(?P<name>{names})\((?=\s*+(?:[A-Za-z_]\w*\s*+=|\)))")
    budget = _PARSED
    for opened in islice(pattern.finditer(text), MOST):
        start, begins = opened.start(), opened.start("name")
        parsed, budget = _python_call(text, begins, budget)
        if parsed is None:
            raw = text[start:]
            yield TextCall(opened["name"], raw, start, len(text), whole=False)
            return
        arguments, end = parsed
        raw = json.dumps(arguments, ensure_ascii=False)
        yield TextCall(opened["name"], raw, start, end, whole=True)


def _python_call(
    text: str, begins: int, budget: int
) -> tuple[tuple[dict[str, Any], int] | None, int]:
    """The arguments of a call and its end, and how many more characters may be parsed."""
    for closing in islice(re.finditer(r"\)", text[begins:]), _TRIES):
        budget -= closing.end()
        if budget < 0:
            break
        end = begins + closing.end()
        try:
            tree = ast.parse(text[begins:end], mode="eval").body
            if isinstance(tree, ast.Call) and not tree.args:
                arguments = {
                    str(keyword.arg): ast.literal_eval(keyword.value) for keyword in tree.keywords
                }
                return (arguments, end), budget
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return None, budget


_DSML, _GCML, _M3 = "\uff5cDSML\uff5c", "\uff5cGCML\uff5c", "]<]minimax[>["
_IFM = "<ifm|arg_key>PARAMETER</ifm|arg_key><ifm|arg_value>VALUE</ifm|arg_value>"
_GLM = r"<arg_key>(.*?)</arg_key>\s*+<arg_value>(.*?)</arg_value>"
_GLM_EXAMPLE = "<arg_key>PARAMETER</arg_key>\n<arg_value>VALUE</arg_value>\n</tool_call>"
FAMILIES = (
    _invoked("deepseek_v32", f"<{_DSML}invoke", _DSML, _invocation(_DSML)),
    _invoked("deepseek_v41", f"<{_DSML} invoke", f"{_DSML} ", _invocation(f"{_DSML} ")),
    _invoked("gigachat35", f"<{_GCML}invoke", _GCML, _invocation(_GCML)),
    _invoked("muse", "<atem:invoke", "atem:", _invocation("atem:")),
    _keyed(
        "minimax_m3",
        f"{_M3}<invoke",
        (rf'{re.escape(_M3)}<invoke name="(?P<name>[^"\n]{{0,200}})">', f"{_M3}</invoke>"),
        rf"{re.escape(_M3)}<([\w.-]+)>(.*?){re.escape(_M3)}</\1>",
        f'{_M3}<invoke name="NAME">{_M3}<PARAMETER>VALUE{_M3}</PARAMETER>{_M3}</invoke>',
    ),
    _in_block(
        "<dots_function_call>",
        _invoked(
            "dots",
            "<dots_function_call>",
            "",
            f"<dots_function_call>\n{_invocation('')}\n</dots_function_call>",
        ),
    ),
    _keyed(
        "hunyuan",
        "<tool_sep>",
        (r"<tool_call>\s*+(?P<name>[\w.-]+)\s*+<tool_sep>", "</tool_call>"),
        _GLM,
        f"<tool_call>NAME<tool_sep>\n{_GLM_EXAMPLE}",
    ),
    _keyed(
        "iquest",
        "<iquest_tool_call>",
        (r"<iquest_tool_call>\s*+(?P<name>[\w.-]+)", "</iquest_tool_call>"),
        _GLM,
        f"<iquest_tool_call>NAME\n{_GLM_EXAMPLE.replace('tool_call', 'iquest_tool_call')}",
    ),
    _keyed(
        "glm45",
        "<arg_key>",
        (r"<tool_call>\s*+(?P<name>[\w.-]+)\s*+(?=<arg_key>|</tool_call>)", "</tool_call>"),
        _GLM,
        f"<tool_call>NAME\n{_GLM_EXAMPLE}",
    ),
    _keyed(
        "k2_horizon",
        "<ifm|tool_call>",
        (r"<ifm\|tool_call>\s*+(?P<name>[\w.-]+)", "</ifm|tool_call>"),
        r"<ifm\|arg_key>(.*?)</ifm\|arg_key>\s*+(?:<ifm\|arg_type>.*?</ifm\|arg_type>\s*+)?"
        r"<ifm\|arg_value>(.*?)</ifm\|arg_value>",
        f"<ifm|tool_call>NAME{_IFM}</ifm|tool_call>",
    ),
    _keyed(
        "kimi_k3",
        "<|open|>call tool=",
        (
            r'<\|open\|>call tool="(?P<name>[^"\n]{0,200})"[^<\n]{0,200}<\|sep\|>',
            "<|close|>call<|sep|>",
        ),
        r'<\|open\|>argument key="([^"\n]{0,200})"[^<\n]{0,200}<\|sep\|>'
        r"(.*?)<\|close\|>argument<\|sep\|>",
        '<|open|>call tool="NAME" index="1"<|sep|><|open|>argument key="PARAMETER" '
        'type="string"<|sep|>VALUE<|close|>argument<|sep|><|close|>call<|sep|>',
    ),
    _keyed(
        "minicpm5",
        "<function name=",
        (r'<function name="(?P<name>[^"\n]{0,200})"[^>\n]{0,200}>', "</function>"),
        r'<param name="([^"\n]{0,200})"[^>\n]{0,200}>(?:<!\[CDATA\[)?(.*?)(?:\]\]>)?</param>',
        '<function name="NAME"><param name="PARAMETER">VALUE</param></function>',
    ),
    _invoked("minimax_m2", "<minimax:tool_call>", "", f"<minimax:tool_call>\n{_invocation('')}"),
    _invoked("step3", "<steptml:invoke", "steptml:", _invocation("steptml:")),
    _gemma("gemma4", "<|tool_call>", '<|"|>', "<tool_call|>"),
    _gemma("functiongemma", "<start_function_call>", "<escape>", "<end_function_call>"),
    family(
        "gemma",
        "```tool_code",
        partial(_python, r"```tool_code[ \t]*+\n\s*+(?:print\()?"),
        '```tool_code\nNAME(PARAMETER="VALUE")\n```',
    ),
    family(
        "pythonic",
        "[NAME(",
        partial(
            _python,
            r"<\|(?:python_start|tool_call_start)\|>\[?|<function_calls>\s*+"
            r"|(?:\A|\n)[ \t]*+\[|\),\s*+",
        ),
        '[NAME(PARAMETER="VALUE")]',
    ),
)
