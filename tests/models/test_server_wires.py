"""The same turn as each server streams it, byte by byte after its sources: nothing of it is lost.

Each says "I look.", having thought "Hm.", calls bash and then read, and counts what it counts.
"""

import json
from dataclasses import dataclass

import pytest

from agenteval.config.models import ModelEntry
from agenteval.models.openai_client import OpenAIModel
from agenteval.trial.trial import Message, Usage

ASKED = [Message("system", "You keep notes."), Message("user", "List them.")]
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("bash", "read")
]
LS, README = '{"command": "ls"}', '{"path": "README.md"}'
HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}


@dataclass(frozen=True)
class Wire:
    events: tuple[str, ...]
    usage: Usage
    malformed: tuple[str, ...] = ()

    @property
    def body(self) -> str:
        return "".join(f"{event}\n\n" for event in self.events)


def chunk(delta: dict, finish: str | None = None, **more: object) -> str:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return f"data: {json.dumps({**HEAD, 'choices': [choice], **more})}"


def counted(choices: tuple = (), **usage: object) -> str:
    return f"data: {json.dumps({**HEAD, 'choices': list(choices), 'usage': usage})}"


def part(index: int | None, ident: str | None, name: str | None, arguments: object) -> dict:
    call = {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"tool_calls": [call if index is None else {"index": index, **call}]}


def pieces(index: int, *arguments: str) -> list[dict]:
    """What follows the head of a call: its arguments and nothing else."""
    return [{"tool_calls": [{"index": index, "function": {"arguments": one}}]} for one in arguments]


DONE = "data: [DONE]"
BASIC = {"prompt_tokens": 90, "completion_tokens": 40, "total_tokens": 130}
WIRES = {
    # 0.19: `reasoning` (before 0.11 `reasoning_content`); the head of a call, then its arguments.
    "vLLM": Wire(
        (
            chunk({"role": "assistant", "content": ""}, prompt_token_ids=None),
            chunk({"reasoning": "Hm."}),
            chunk({"content": "I "}),
            chunk({"content": "look."}),
            chunk(part(0, "chatcmpl-tool-1", "bash", "")),
            *(chunk(one) for one in pieces(0, '{"comm', 'and": "ls', '"}')),
            chunk(part(1, "chatcmpl-tool-2", "read", "")),
            *(chunk(one) for one in pieces(1, README)),
            chunk({"content": ""}, "tool_calls", stop_reason=None),
            counted(**BASIC, prompt_tokens_details={"cached_tokens": 64}),
            DONE,
        ),
        Usage(90, 40, cached_tokens=64),
    ),
    # 0.5: a name of null in every part but the first, and reasoning tokens beside the others.
    "SGLang": Wire(
        (
            chunk({"role": "assistant", "content": "", "tool_calls": None}, usage=None),
            chunk({"content": None, "reasoning_content": "Hm."}, usage=None),
            chunk({"content": "I look.", "tool_calls": None}),
            chunk(part(0, "call_1", "bash", "")),
            chunk(part(0, None, None, '{"command": ')),
            chunk(part(0, None, None, '"ls"}')),
            chunk(part(1, "call_2", "read", "")),
            chunk(part(1, None, None, README)),
            chunk({"role": None, "content": None}, "tool_calls", matched_stop=None),
            counted(**BASIC, reasoning_tokens=7, prompt_tokens_details={"cached_tokens": 64}),
            DONE,
        ),
        Usage(90, 40, reasoning_tokens=7, cached_tokens=64),
    ),
    # b6000 and later: an extra `timings`, ids of 32 characters.
    "llama.cpp": Wire(
        (
            chunk({"role": "assistant", "content": None}),
            chunk({"reasoning_content": "Hm."}),
            chunk({"content": "I look."}),
            chunk(part(0, "mWfQm2V5ik2nN9b2PYXkpB6L3vQbTzRa", "bash", "{")),
            *(chunk(one) for one in pieces(0, '"command"', ': "ls"', "}")),
            chunk(part(1, "nWfQm2V5ik2nN9b2PYXkpB6L3vQbTzRa", "read", "")),
            *(chunk(one) for one in pieces(1, README)),
            chunk({}, "tool_calls"),
            counted(**BASIC, prompt_tokens_details={"cached_tokens": 64}),
            DONE,
        ),
        Usage(90, 40, cached_tokens=64),
    ),
    # Calls come whole; before 0.6 every one of them with index 0.
    "Ollama": Wire(
        (
            chunk({"role": "assistant", "content": "", "reasoning": "Hm."}),
            chunk({"role": "assistant", "content": "I look."}),
            chunk({"role": "assistant", "content": "", **part(0, "call_1", "bash", LS)}),
            chunk({"role": "assistant", "content": "", **part(0, "call_2", "read", README)}),
            chunk({"role": "assistant", "content": ""}, "tool_calls"),
            counted(**BASIC),
            DONE,
        ),
        Usage(90, 40),
    ),
    # Keep-alives are comments, calls have no index, and an empty list stands where none is.
    "mlx-lm": Wire(
        (
            ": keepalive 512/900",
            chunk({"role": "assistant", "content": "", "reasoning": "Hm.", "tool_calls": []}),
            chunk({"role": "assistant", "content": "I look.", "tool_calls": []}),
            chunk({"role": "assistant", "content": "", **part(None, "a-1", "bash", LS)}),
            chunk({"role": "assistant", "content": "", **part(None, "a-2", "read", README)}),
            chunk({"role": "assistant", "content": "", "tool_calls": []}, "tool_calls"),
            counted(**BASIC, prompt_tokens_details={"cached_tokens": 64}),
            DONE,
        ),
        Usage(90, 40, cached_tokens=64),
    ),
    # The chunk of the usage has a choice; of what stands behind it all comes through.
    "LiteLLM": Wire(
        (
            chunk({"role": "assistant", "reasoning_content": "Hm.", "content": ""}),
            chunk({"content": "I look.", "provider_specific_fields": None}),
            chunk(part(0, "call_1", "bash", "")),
            *(chunk(one) for one in pieces(0, '{"command":', ' "ls"}')),
            chunk(part(1, "call_2", "read", README)),
            chunk({"content": None}, "tool_calls"),
            counted(
                ({"index": 0, "delta": {"content": None}, "finish_reason": None},),
                **BASIC,
                completion_tokens_details={"reasoning_tokens": 7},
            ),
            DONE,
        ),
        Usage(90, 40, reasoning_tokens=7),
    ),
    # A server behind LiteLLM that gives an object and no id (litellm 24095).
    "LiteLLM, before one that breaks the protocol": Wire(
        (
            chunk({"role": "assistant", "reasoning_content": "Hm.", "content": "I look."}),
            chunk(part(0, None, "bash", {"command": "ls"})),
            chunk(part(1, None, "read", {"path": "README.md"})),
            chunk({}, "tool_calls"),
            DONE,
        ),
        Usage(),
        ("object-arguments", "object-arguments", "missing-id", "missing-id"),
    ),
}


@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
async def test_each_server_is_read_to_the_same_turn(answering, reply, wire) -> None:
    with answering(reply("200 OK", "text/event-stream", wire.body)) as url:
        async with OpenAIModel(ModelEntry(base_url=url, model="m")) as model:
            turn = await model.ask(ASKED, TOOLS, seed=1)
    assert (
        turn.text,
        [(one.name, one.arguments) for one in turn.calls],
        (turn.finish_reason, turn.usage, tuple(one.kind for one in turn.malformed)),
        len({one.id for one in turn.calls}),
        turn.raw,
    ) == (
        "I look.",
        [("bash", {"command": "ls"}), ("read", {"path": "README.md"})],
        ("tool_calls", wire.usage, wire.malformed),
        2,
        wire.body,
    )
