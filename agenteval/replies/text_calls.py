"""Tool calls written as text: the form of such a call, the dialects, and calls left as text.

The parts of a dialect come first, then a reader for each kind of notation. `families.toml` lists
the dialects with their marks: those of model families, and three that a model is told to use unless
its family has one, `hermes`, `qwen3_coder` and `json`.
"""

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from agenteval.lazily import read_table
from agenteval.trial import text as plain
from agenteval.trial.call import Schemas

_MOST = 64  # calls looked for in one text: each search may read it to its end
_CALL_NAME = r'"name"\s*+:\s*+"([^"\\]{0,200})"'
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


def _fenced(call: TextCall, places: Iterable[tuple[int, int]]) -> bool:
    """Return True if the call stands in a fence; a fence that begins with it is a part of it."""
    return any(start < call.start < end for start, end in places)


def _json_call(text: str, start: int) -> TextCall | None:
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


def _signatures(schemas: Schemas) -> str:
    """Return the tools and their parameters, a line of JSON each."""
    return "\n".join(
        json.dumps({"name": name, "parameters": schema}) for name, schema in schemas.items()
    )


def _tagged_result(name: str, content: str) -> str:
    """Return a tool's result as Qwen's chat templates write it."""
    del name  # results come in the order of their calls
    return f"<tool_response>\n{content}\n</tool_response>"


def _json_result(name: str, content: str) -> str:
    return json.dumps({"tool": name, "result": content}, ensure_ascii=False)


def kinds(schema: Any) -> Mapping[str, Any]:
    """Return the type of each parameter that a tool's schema names, as it stands there."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return {}
    return {
        name: value.get("type") for name, value in properties.items() if isinstance(value, Mapping)
    }


def typed(value: str, kind: object) -> Any:
    """Return the value parsed as JSON if its schema is not of text; as text if that fails."""
    types = kind if isinstance(kind, list) else [kind]
    if None in types or "string" in types:
        return value
    try:
        return plain.read(value)
    except ValueError:
        return value


# Readers of one family's calls, by the patterns and marks of its row in `families.toml`. A search
# for each opening mark may read the text to its end, so their number is limited.


def _openings(pattern: str, text: str) -> Iterator[re.Match[str]]:
    return islice(re.finditer(pattern, text), _MOST)


def _after(pattern: str, text: str, at: int) -> int:
    """Return the offset behind what matches at `at`; `at` itself where nothing does."""
    match = re.compile(pattern).match(text, at)
    return match.end() if match else at


def _broken(
    text: str,
    start: int,
    inside: int,
    *,
    closes: str,
    named: str = _CALL_NAME,
) -> TextCall:
    """Return a call that cannot be read, up to the mark behind `inside` that ends it or the end."""
    closed = re.compile(closes).search(text, inside)
    raw = text[start : closed.end() if closed else len(text)]
    name = re.search(named, raw)
    return TextCall(name[1] if name else "", raw, start, start + len(raw), whole=False)


def _named(
    text: str,
    schemas: Schemas,
    *,
    opens: str,
    closes: str,
) -> Iterator[TextCall]:
    """Find a name between marks, then an object of JSON."""
    del schemas  # JSON has types of its own
    for opened in _openings(opens, text):
        start, inside = opened.span()
        name = opened["name"].strip()
        try:
            arguments, end = plain.read_from(text, inside)
        except ValueError:
            arguments = None
        if isinstance(arguments, dict):
            raw = text[inside:end]
            yield TextCall(name, raw, start, _after(closes, text, end), whole=True)
        else:
            yield replace(_broken(text, start, inside, closes=closes), name=name)


def _wrapped(
    text: str,
    schemas: Schemas,
    *,
    opens: str,
    closes: str,
    keyed: bool = False,
) -> Iterator[TextCall]:
    """Find objects, each with name and arguments, behind a mark: one, or a list of them."""
    del schemas  # JSON has types of its own
    read, named = (_keyed_call, _KEY) if keyed else (_json_call, _CALL_NAME)
    for opened in _openings(opens, text):
        start = opened.start()
        at = _after(r"\s*+(?:\[\s*+)?", text, opened.end())
        goes_on = True
        while goes_on:
            call = read(text, at)
            if call is None:
                yield _broken(text, start, at, closes=closes, named=named)
                break
            at = _after(r"\s*+(?:[,;]\s*+)?", text, call.end)
            goes_on = text.startswith("{", at)
            end = call.end if goes_on else _after(closes, text, call.end)
            yield replace(call, start=start, end=end)
            start = at


_KEY = r'\{\s*+"([^"\\]{0,200})"\s*+:'


def _keyed_call(text: str, at: int) -> TextCall | None:
    """Return the call in an object whose one key is its name, and whose value its arguments."""
    try:
        value, end = plain.read_from(text, at)
    except ValueError:
        return None
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((name, arguments),) = value.items()
    return TextCall(name, json.dumps(arguments, ensure_ascii=False), at, end, whole=True)


# Reads the text between the marks of a call as its arguments, by the schema of its tool.
_Body = Callable[[str, Any], dict[str, Any] | None]


def _tagged(  # noqa: PLR0913 -- what tells one notation from another
    text: str,
    schemas: Schemas,
    *,
    opens: str,
    close: str,
    read: _Body,
    behind: str = "",
) -> Iterator[TextCall]:
    """Find a name, then what `read` takes for arguments, up to `close` and what stands behind."""
    for opened in _openings(opens, text):
        start, inside = opened.span()
        name = opened["name"].strip()
        closing = text.find(close, inside)
        arguments = None
        end = len(text)
        if closing >= 0:
            arguments = read(text[inside:closing], schemas.get(name, {}))
            end = _after(behind, text, closing + len(close))
        is_whole = arguments is not None
        raw = json.dumps(arguments, ensure_ascii=False) if is_whole else text[start:end]
        yield TextCall(name, raw, start, end, is_whole)


def _pairs(
    text: str,
    schemas: Schemas,
    *,
    opens: str,
    close: str,
    pair: str,
) -> Iterator[TextCall]:
    """Find a name, then each parameter with its value."""
    return _tagged(text, schemas, opens=opens, close=close, read=partial(_parameters, pair))


def _parameters(
    pair: str,
    body: str,
    schema: Mapping[str, Any],
) -> dict[str, Any] | None:
    """Return the parameters; None where more is opened than closed, or more than a call has."""
    pattern = re.compile(pair, re.DOTALL)
    openings = list(islice(re.finditer(pair.partition("(")[0], body), _MOST + 1))
    if len(openings) > _MOST or "<" in pattern.sub("", body):
        return None
    types = kinds(schema)
    parameters: dict[str, Any] = {}
    for match in pattern.finditer(body):
        parameters[match[1].strip()] = typed(_of_own_lines(match[2]), types.get(match[1]))
    return parameters


def _of_own_lines(value: str) -> str:
    """Return a value without the ends of lines that set it apart from its tags."""
    return value.removeprefix("\n").removesuffix("\n")


def _gemma(
    text: str,
    schemas: Schemas,
    *,
    opens: str,
    close: str,
    quote: str,
) -> Iterator[TextCall]:
    """Find `call:NAME{key:value}`, whose texts stand between quotes of its own."""
    return _tagged(text, schemas, opens=opens, close=close, read=partial(_unquoted, quote))


def _unquoted(quote: str, body: str, schema: Any) -> dict[str, Any] | None:
    del schema  # values are written as in JSON
    mark = re.escape(quote)
    part = re.compile(rf"{mark}(.*?){mark}|([{{,]\s*+)([A-Za-z_]\w*)\s*+:", re.DOTALL)
    try:
        value = plain.read(part.sub(_as_json, body))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _as_json(part: re.Match[str]) -> str:
    text, before, key = part.groups()
    return json.dumps(text) if key is None else f"{before}{json.dumps(key)}:"


_TRIES = 50  # closing brackets at which a call of Python may end
_PARSED = 1 << 21  # characters of one text that are parsed as Python


def _python(text: str, schemas: Schemas, *, opens: str) -> Iterator[TextCall]:
    """Calls as Python writes them, with named arguments, of offered tools alone."""
    names = "|".join(map(re.escape, schemas))
    if not names:
        return
    pattern = rf"(?:{opens})(?P<name>{names})\((?=\s*+(?:[A-Za-z_]\w*\s*+=|\)))"
    budget = _PARSED  # each try at a closing bracket parses the text from the name on
    for opened in _openings(pattern, text):
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
                keywords = tree.keywords
                arguments = {str(one.arg): ast.literal_eval(one.value) for one in keywords}
                return (arguments, end), budget
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return None, budget


# Readers of the dialects that we give to models ourselves.

_CLOSE = r"\s*+</tool_call>"
_PARAMETER = re.compile(r"<parameter=([^>\n]{0,200})>")
_PARAMETER_END = "</parameter>"


def _own_parameters(body: str, schema: Any) -> dict[str, Any] | None:
    """Return the parameters of one call; None where one is not written to its end."""
    types = kinds(schema)
    parameters: dict[str, Any] = {}
    for opened in islice(_PARAMETER.finditer(body), _MOST):
        end = body.find(_PARAMETER_END, opened.end())
        if end < 0:
            return None
        name = opened[1].strip()
        parameters[name] = typed(_of_own_lines(body[opened.end() : end]), types.get(name))
    if parameters or not body.strip():
        return parameters
    value = typed(body.strip(), "object")  # Llama writes the arguments as JSON between the tags
    return value if isinstance(value, dict) else None


def _qwen3_coder(text: str, schemas: Schemas, *, opens: str) -> Iterator[TextCall]:
    return _tagged(
        text,
        schemas,
        opens=opens,
        close="</function>",
        read=_own_parameters,
        behind=_CLOSE,
    )


_JSON_OPEN = re.compile(
    r'\{\s*+"name"\s*+:\s*+"([^"\\\n]{0,200})"\s*+,\s*+"(?:arguments|parameters)"\s*+:'
)


def _find_json(text: str, schemas: Schemas) -> Iterator[TextCall]:
    """Yield every object that names an offered tool and arguments; other JSON is no call."""
    over = 0
    for opened in islice(_JSON_OPEN.finditer(text), _MOST):
        start, inside = opened.span()
        if start < over or opened[1] not in schemas:
            continue
        call = _json_call(text, start)
        if call is None:  # it goes to the end of its fence, or of the text
            call = _broken(text, start, inside, closes=r"(?=```)")
        over = call.end
        yield call


_HERMES_OPEN = re.compile(r"<tool_call>\s*+(?=\{)")


def _find_hermes(text: str, schemas: Schemas) -> Iterator[TextCall]:
    """Yield every call; one without its closing tag is whole when its object is."""
    del schemas  # JSON has types of its own
    for opened in islice(_HERMES_OPEN.finditer(text), _MOST):
        start, inside = opened.span()
        if call := _json_call(text, inside):
            yield replace(call, start=start, end=_after(_CLOSE, text, call.end))
        else:
            yield _broken(text, start, inside, closes="</tool_call>")


_READERS: Mapping[str, Callable[..., Iterator[TextCall]]] = {
    "named": _named,
    "wrapped": _wrapped,
    "pairs": _pairs,
    "gemma": _gemma,
    "python": _python,
    "hermes": _find_hermes,
    "qwen3_coder": _qwen3_coder,
    "json": _find_json,
}


def _dialect(  # noqa: PLR0913 -- the keys of a row in `families.toml`
    name: str,
    reads: str,
    mark: str,
    example: str,
    *,
    lead: str = "To call one, write exactly this, then stop and wait for the result",
    result: str = "tagged",
    block: bool = False,
    in_fences: bool = False,
    stop: Sequence[str] = (),
    **patterns: Any,
) -> Dialect:
    """Return a dialect that one example explains to a model."""
    find: Find = partial(_READERS[reads], **patterns)

    def find_in_block(text: str, schemas: Schemas) -> Iterable[TextCall]:
        return find(text, schemas) if mark in text else ()

    def instructions(schemas: Schemas) -> str:
        tools = _signatures(schemas)
        if not in_fences:
            tools = f"<tools>\n{tools}\n</tools>"
        heading = "# Tools\n\nYou can call functions. These are their signatures:"
        return f"{heading}\n{tools}\n\n{lead}:\n{example}"

    return Dialect(
        name=name,
        version=1,
        mark=mark,
        find=find_in_block if block else find,
        instructions=instructions,
        result=_json_result if result == "json" else _tagged_result,
        stop=tuple(stop),
        in_fences=in_fences,
    )


DIALECTS = {
    name: _dialect(name, **row)
    for name, row in read_table("agenteval.replies", "families.toml").items()
}
LONGEST = 1 << 18  # characters of a text that are searched


def read_calls(text: str, dialect: Dialect, schemas: Schemas) -> list[TextCall]:
    """Return the calls in the dialect that a model was instructed to use; a mention is none."""
    fenced_places = [] if dialect.in_fences else fences(text)
    return [
        call for call in dialect.find(text[:LONGEST], schemas) if not _fenced(call, fenced_places)
    ]


def calls_left(text: str, schemas: Schemas) -> Iterator[tuple[Dialect, TextCall, bool]]:
    """Yield calls of any dialect in a text that should hold none, and if each is in a fence."""
    if not any(mark in text for mark in "<{[`"):
        return
    text = text[:LONGEST]
    fenced_places = fences(text)
    earlier_calls: list[TextCall] = []
    for dialect in DIALECTS.values():
        for call in dialect.find(text, schemas):
            if not any(other.start <= call.start < other.end for other in earlier_calls):
                earlier_calls.append(call)
                yield dialect, call, _fenced(call, fenced_places)
