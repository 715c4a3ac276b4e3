"""What the reasoning parsers of vLLM and SGLang make of replies, before a tool parser of hermes.

vLLM's are run through the class with which its server joins the two; SGLang's as its server does.
"""

from importlib import import_module

from parse_replies import BASH, FORMS, SCRIPT, Calls, Words, add

_HEAD, _TAIL = FORMS["hermes"]
_CALL, _THOUGHT, _ANSWER = _HEAD + SCRIPT + _TAIL, "I look into the kitchen.", "All is read."
PAIRS = {
    "think": ("<think>", "</think>"),
    "seed": ("<seed:think>", "</seed:think>"),
    "mistral": ("[THINK]", "[/THINK]"),
    "kimi": ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    "minimax-m3": ("<mm:think>", "</mm:think>"),
    "cohere": ("<|START_THINKING|>", "<|END_THINKING|>"),
    "gemma4": ("<|channel>thought\n", "<channel|>"),
    "granite": ("Here is my thought process:", "Here is my response:"),
    "plamo": ("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
    "harmony": ("<|channel|>analysis<|message|>", "<|end|>"),
}
REPLIES = {
    **{
        f"{name}: thought, call": f"{begin}{_THOUGHT}{end}\n\n{_CALL}"
        for name, (begin, end) in PAIRS.items()
    },
    "thought, words": f"<think>\n{_THOUGHT}\n</think>\n\n{_ANSWER}",
    "thought begun in the prompt, call": f"{_THOUGHT}\n</think>\n\n{_CALL}",
    "thought not closed, call": f"<think>\n{_THOUGHT}\n{_CALL}",
    "call within the thought, words": f"<think>\n{_THOUGHT}\n{_CALL}\n</think>\n\n{_ANSWER}",
    "call alone": _CALL,
    "words alone": _ANSWER,
    "thought alone": f"<think>\n{_THOUGHT}\n</think>",
    "cut within the thought": f"<think>\n{_THOUGHT}",
    "call, then a thought": f"{_CALL}\n<think>\n{_THOUGHT}\n</think>",
}
MARKS = [part for pair in PAIRS.values() for part in pair]
Message = tuple[str, str, Calls]  # reasoning, content, each call's name and raw arguments


def vllm(name: str, text: str, streamed: bool) -> Message:  # noqa: FBT001
    protocol = import_module("vllm.entrypoints.openai.chat_completion.protocol")
    manager = import_module("vllm.parser.parser_manager").ParserManager
    said = [{"role": "user", "content": "go"}]
    request = protocol.ChatCompletionRequest(model="m", messages=said, tools=[BASH])
    words = Words(text, MARKS)
    tools = "hf" if name == "hf" else "hermes"  # which goes with itself alone
    joined = manager.get_parser(tools, name, enable_auto_tools=True, model_name="m")
    parser = joined(words, request.tools)
    ids = [words.vocab[piece] for piece in words.pieces]
    if not streamed:
        reasoning, content, calls = parser.parse(
            text, request, enable_auto_tools=True, model_output_token_ids=ids
        )
        return reasoning or "", content or "", [(one.name, one.arguments) for one in calls or []]
    reasoning, content, made = "", "", dict[int, tuple[str, str]]()
    for at, piece in enumerate([*words.pieces, ""]):
        delta = parser.parse_delta(
            piece, ids[at : at + 1], request, prompt_token_ids=[], finished=not piece
        )
        if delta is not None:
            reasoning += delta.reasoning or ""
            content += delta.content or ""
            for one in delta.tool_calls or []:
                add(made, one.index, one.function.name, one.function.arguments)
    return reasoning, content, list(made.values())


def sglang(name: str, text: str, streamed: bool) -> Message:  # noqa: FBT001
    protocol = import_module("sglang.srt.entrypoints.openai.protocol")
    thoughts = import_module("sglang.srt.parser.reasoning_parser").ReasoningParser(
        name, stream_reasoning=streamed, tokenizer=Words(text, MARKS), tool_call_parser_active=True
    )
    tools = import_module("sglang.srt.function_call.function_call_parser").FunctionCallParser(
        [protocol.Tool(**BASH)], "hermes"
    )
    if not streamed:
        reasoning, normal = thoughts.parse_non_stream(text)
        content, found = normal or "", []
        if tools.has_tool_call(content):
            content, found = tools.parse_non_stream(content)
        return reasoning or "", content, [(one.name, one.parameters) for one in found]
    reasoning, content, made = "", "", dict[int, tuple[str, str]]()
    for piece in [*Words(text).pieces, None]:
        ends = piece is None
        more, normal = thoughts.parse_stream_end() if ends else thoughts.parse_stream_chunk(piece)
        reasoning += more or ""
        parts = [tools.parse_stream_chunk(normal)] if normal else []
        for part, found in [*parts, tools.parse_stream_end()] if ends else parts:
            content += part
            for one in found:
                add(made, one.tool_index, one.name, one.parameters)
    return reasoning, content, list(made.values())


def names(server: str) -> list[str]:
    if server == "sglang":
        return sorted(
            import_module("sglang.srt.parser.reasoning_parser").ReasoningParser.DetectorMap
        )
    manager = import_module("vllm.reasoning").ReasoningParserManager
    return sorted({*manager.reasoning_parsers, *manager.lazy_parsers})
