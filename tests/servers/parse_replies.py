"""What the tool parsers of vLLM and SGLang make of replies: run from unpacked wheels.

What a parser never calls (tensors, grammars, an engine) is given as empty stand-ins; a tokenizer
knows marks as tokens and all else as characters, so that a parser that looks deeper may do
otherwise than here.
"""

import importlib.abc
import importlib.machinery
import re
import sys
import types
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic_core import core_schema

_HIDDEN = """
    torch torchvision xgrammar triton tvm_ffi IPython prometheus_client opentelemetry anthropic
    prometheus_fastapi_instrumentator llguidance outlines_core cv2 numba ray gguf blake3
    vllm.platforms vllm._C vllm.config vllm.multimodal vllm.model_executor vllm.env_override
    vllm.v1 vllm.distributed vllm.compilation vllm.forward_context vllm.renderers.base
    vllm.renderers.registry vllm.utils.torch_utils vllm.inputs vllm.lora vllm.outputs vllm.engine
    vllm.sampling_params vllm.pooling_params vllm.sequence
"""
STANDINS = tuple(_HIDDEN.split())
Calls = list[tuple[str, str]]
Parse = Callable[[str, str, bool], tuple[str, Calls]]


class _Anything(type):
    def __getattr__(cls, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return _thing(name)

    __or__ = __ror__ = lambda _cls, _other: object


def _thing(name: str) -> type:
    def make(cls: type, *given: object, **_: object) -> object:  # as a decorator it changes nothing
        return given[0] if len(given) == 1 and callable(given[0]) else object.__new__(cls)

    schema = classmethod(lambda *_a: core_schema.any_schema())
    parts = {
        "__new__": make,
        "__init__": lambda *_a, **_k: None,
        "__call__": make,
        "__class_getitem__": classmethod(lambda cls, _key: cls),
        "__getattr__": lambda _self, part: _thing(part),
        "__get_pydantic_core_schema__": schema,
    }
    return _Anything(name, (), parts)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: object, target: object = None) -> Any:
        hidden = any(name == top or name.startswith(f"{top}.") for top in STANDINS)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if hidden else None

    def exec_module(self, module: types.ModuleType) -> None:
        module.__version__ = "0"  # type: ignore[attr-defined]
        module.__getattr__ = lambda name: _Anything.__getattr__(_Anything, name)  # type: ignore[method-assign]


def open_packages(wheels: Path) -> None:
    """Make both importable without running the code of a package's own first file."""
    sys.path.insert(0, str(wheels))
    sys.meta_path.insert(0, _Finder())
    for name in ("vllm", "sglang"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(wheels / name)]


BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "run",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}
_PLAIN = """
    <think> </think> <tool_call> </tool_call> [TOOL_CALLS] [ARGS] <|python_tag|>
    <|tool_calls_section_begin|> <|tool_calls_section_end|> <|tool_call_begin|>
    <|tool_call_argument_begin|> <|tool_call_end|>
"""
_BEGIN, _ONE, _SEP, _DONE, _END = (
    f"<\uff5c{name.replace('_', chr(0x2581))}\uff5c>"  # as DeepSeek writes its marks
    for name in (
        "tool_calls_begin",
        "tool_call_begin",
        "tool_sep",
        "tool_call_end",
        "tool_calls_end",
    )
)
MARKS = [*_PLAIN.split(), _BEGIN, _ONE, _SEP, _DONE, _END]
_K = "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"
_M3 = "]<]minimax[>["


def _plamo(*marks: str) -> str:
    return "".join(f"<|plamo:{mark}:plamo|>" for mark in marks)


def _invoked(prefix: str, block: str, attribute: str) -> tuple[str, str]:
    own = "" if ":" in block or "_function" in block else prefix
    before = f'<{own}{block}>\n<{prefix}invoke name="bash">\n<{prefix}parameter name="command"'
    return f"{before}{attribute}>", f"</{prefix}parameter>\n</{prefix}invoke>\n</{own}{block}>"


FORMS = {  # before the command, behind it
    "hermes": ('<tool_call>\n{"name": "bash", "arguments": {"command": "', '"}}\n</tool_call>'),
    "qwen3_coder": (
        "<tool_call>\n<function=bash>\n<parameter=command>\n",
        "\n</parameter>\n</function>\n</tool_call>",
    ),
    "glm45": (
        "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>",
        "</arg_value>\n</tool_call>",
    ),
    "kimi_k2": (f'{_K}{{"command": "', '"}<|tool_call_end|><|tool_calls_section_end|>'),
    "deepseek_v31": (f'{_BEGIN}{_ONE}bash{_SEP}{{"command": "', f'"}}{_DONE}{_END}'),
    "llama3_json": ('{"name": "bash", "parameters": {"command": "', '"}}'),
    "mistral": ('[TOOL_CALLS][{"name": "bash", "arguments": {"command": "', '"}}]'),
    "pythonic": ('[bash(command="', '")]'),
    "apertus": ('<|tools_prefix|>[{"bash": {"command": "', '"}}]<|tools_suffix|>'),
    "deepseek_v3": (
        f'{_BEGIN}{_ONE}function{_SEP}bash\n```json\n{{"command": "',
        f'"}}\n```{_DONE}{_END}',
    ),
    "deepseek_v32": _invoked("\uff5cDSML\uff5c", "function_calls", ' string="true"'),
    "deepseek_v4": _invoked("\uff5cDSML\uff5c", "tool_calls", ' string="true"'),
    "deepseek_v41": _invoked("\uff5cDSML\uff5c ", "calls", ' string="true"'),
    "dots": _invoked("", "dots_function_call", ""),
    "functiongemma": (
        "<start_function_call>call:bash{command:<escape>",
        "<escape>}<end_function_call>",
    ),
    "gemma4": ('<|tool_call>call:bash{command:<|"|>', '<|"|>}<tool_call|>'),
    "gigachat3": ('<|function_call|>{"name": "bash", "arguments": {"command": "', '"}}'),
    "gigachat35": _invoked("\uff5cGCML\uff5c", "tool_calls", ' string="true"'),
    "granite": ('<|tool_call|>[{"name": "bash", "arguments": {"command": "', '"}}]'),
    "granite-20b-fc": ('<function_call> {"name": "bash", "arguments": {"command": "', '"}}'),
    "hunyuan": (
        "<tool_calls>\n<tool_call>bash<tool_sep>\n<arg_key>command</arg_key>\n<arg_value>",
        "</arg_value>\n</tool_call>\n</tool_calls>",
    ),
    "inkling": (
        '<|message_model|>bash<|content_invoke_tool_json|>{"name": "bash", "args": {"command": "',
        '"}}<|end_message|>',
    ),
    "internlm": (
        '<|action_start|><|plugin|>\n{"name": "bash", "parameters": {"command": "',
        '"}}<|action_end|>',
    ),
    "jamba": ('<tool_calls>[{"name": "bash", "arguments": {"command": "', '"}}]</tool_calls>'),
    "k2_horizon": (
        "<ifm|tool_calls><ifm|tool_call>bash<ifm|arg_key>command</ifm|arg_key><ifm|arg_value>",
        "</ifm|arg_value></ifm|tool_call></ifm|tool_calls>",
    ),
    "kimi_k3": (
        (
            '<|open|>tools<|sep|><|open|>call tool="bash" index="1"<|sep|>'
            '<|open|>argument key="command" type="string"<|sep|>'
        ),
        "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
    ),
    "lfm2": ('<|tool_call_start|>[bash(command="', '")]<|tool_call_end|>'),
    "longcat": (
        '<longcat_tool_call>{"name": "bash", "arguments": {"command": "',
        '"}}</longcat_tool_call>',
    ),
    "minicpm5": ('<function name="bash"><param name="command">', "</param></function>"),
    "minimax_m2": _invoked("", "minimax:tool_call", ""),
    "minimax_m3": (
        f'{_M3}<tool_call>\n{_M3}<invoke name="bash">{_M3}<command>',
        f"{_M3}</command>{_M3}</invoke>\n{_M3}</tool_call>",
    ),
    "muse": _invoked("atem:", "function_calls", ""),
    "olmo3": ('<function_calls>bash(command="', '")</function_calls>'),
    "phi4_mini_json": ('functools[{"name": "bash", "arguments": {"command": "', '"}}]'),
    "plamo3": (
        _plamo("begin_tool_requests", "begin_tool_request", "begin_tool_name")
        + "bash"
        + _plamo("end_tool_name", "begin_tool_arguments")
        + '<|plamo:constrain|>json<|plamo:msg|>{"command": "',
        '"}' + _plamo("end_tool_arguments", "end_tool_request", "end_tool_requests"),
    ),
    "seed_oss": (
        "<seed:tool_call>\n<function=bash>\n<parameter=command>",
        "</parameter>\n</function>\n</seed:tool_call>",
    ),
    "step3": (
        (
            "<\uff5ctool_calls_begin\uff5c><\uff5ctool_call_begin\uff5c>function<\uff5ctool_sep\uff5c>"
            '<steptml:invoke name="bash"><steptml:parameter name="command">'
        ),
        (
            "</steptml:parameter></steptml:invoke>"
            "<\uff5ctool_call_end\uff5c><\uff5ctool_calls_end\uff5c>"
        ),
    ),
    "cohere": (
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "bash", "parameters": {"command": "',
        '"}}]<|END_ACTION|>',
    ),
    "harmony": (
        ('<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{"command": "'),
        '"}<|call|>',
    ),
}
SCRIPT = "uv run scripts/notes.py list --notebook kitchen | head -5"
CUT = SCRIPT.removesuffix(" -5")
REPLIES = {
    **{f"{name}: good": head + SCRIPT + tail for name, (head, tail) in FORMS.items()},
    **{f"{name}: cut": head + CUT for name, (head, _) in FORMS.items()},
    "hermes: quotes not escaped": FORMS["hermes"][0] + 'echo "a"' + FORMS["hermes"][1],
    "no call": "I have looked at every note of the kitchen, "
    "and there is none that is left to read.",
}


class Words:
    """As much of a tokenizer as a parser asks for: marks are tokens, the rest are characters."""

    def __init__(self, text: str, known: Sequence[str] = ()) -> None:
        marks = r"<[^<>\s]+>|\[TOOL_CALLS\]|\[ARGS\]|\[/?THINK\]|\u25c1/?think\u25b7|."
        self.pieces = re.findall(marks, text, flags=re.DOTALL)
        every = dict.fromkeys([*self.pieces, *MARKS, *known])
        self.vocab = {piece: at for at, piece in enumerate(every)}
        self.get_vocab, self.convert_tokens_to_ids = self.vocab.copy, self.vocab.get
        self.text_of = {at: piece for piece, at in self.vocab.items()}
        self.all_special_tokens: list[str] = []
        self.all_special_ids: list[int] = []
        self.eos_token_id = None

    def encode(self, text: str, **_: object) -> list[int]:
        return [self.vocab[piece] for piece in Words(text).pieces if piece in self.vocab]

    def decode(self, ids: Sequence[int] | int, **_: object) -> str:
        return "".join(self.text_of[at] for at in ([ids] if isinstance(ids, int) else ids))


def vllm(name: str, text: str, streamed: bool) -> tuple[str, Calls]:  # noqa: FBT001
    """The content, and each call's name and raw arguments."""
    protocol = import_module("vllm.entrypoints.openai.chat_completion.protocol")
    said = [{"role": "user", "content": "go"}]
    request = protocol.ChatCompletionRequest(model="m", messages=said, tools=[BASH])
    words = Words(text)
    manager = import_module("vllm.tool_parsers").ToolParserManager
    parser = manager.get_tool_parser(name)(words, request.tools)
    if not streamed:
        found = parser.extract_tool_calls(text, request)
        calls = [(one.function.name, one.function.arguments) for one in found.tool_calls or []]
        return found.content or "", calls
    before, ids, content, made = "", [], "", {}
    for piece in words.pieces:
        after, new = before + piece, [words.vocab[piece]]
        delta = parser.extract_tool_calls_streaming(
            before, after, piece, ids, ids + new, new, request
        )
        before, ids = after, ids + new
        if delta is not None:
            content += delta.content or ""
            for one in delta.tool_calls or []:
                add(made, one.index, one.function.name, one.function.arguments)
    if made and (rest := parser.get_remaining_unstreamed_args()):  # sent with the finish
        add(made, max(made), "", rest)
    return content, list(made.values())


def sglang(name: str, text: str, streamed: bool) -> tuple[str, Calls]:  # noqa: FBT001
    module = import_module("sglang.srt.function_call.function_call_parser")
    protocol = import_module("sglang.srt.entrypoints.openai.protocol")
    parser = module.FunctionCallParser([protocol.Tool(**BASH)], name)
    if not streamed:
        content, found = parser.parse_non_stream(text)
        return content, [(call.name, call.parameters) for call in found]
    content, made = "", {}
    for piece in [*Words(text).pieces, None]:
        ends = piece is None
        part, found = parser.parse_stream_end() if ends else parser.parse_stream_chunk(piece)
        content += part
        for call in found:
            add(made, call.tool_index, call.name, call.parameters)
    return content, list(made.values())


def add(
    calls: dict[int, tuple[str, str]], at: int, name: str | None, arguments: str | None
) -> None:
    known = calls.get(at, ("", ""))
    calls[at] = (known[0] + (name or ""), known[1] + (arguments or ""))


def names(server: str) -> list[str]:
    if server == "sglang":
        module = import_module("sglang.srt.function_call.function_call_parser")
        return sorted(module.FunctionCallParser.ToolCallParserEnum)
    manager = import_module("vllm.tool_parsers").ToolParserManager
    return sorted({*manager.tool_parsers, *manager.lazy_parsers})
