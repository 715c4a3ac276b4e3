"""The chat-completions wire as servers really speak it: what of a reply is read, and how. Pure.

A reply that is broken as a *reply* raises ReplyError: the server's fault. A tool call that is
broken inside a good reply is kept as it came.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from agenteval.config.models import ModelEntry
from agenteval.core.arrival import LEGACY
from agenteval.core.cards import FIELD, Rule
from agenteval.core.chance import turn_seed
from agenteval.core.chunk import (
    Call,
    Function,
    ReplyError,
    Said,
    argument_text,
    read_chunk,
    usage,
)
from agenteval.core.malformed import Asked, Received, ReceivedCall, Schemas
from agenteval.core.plain import excerpt, is_byte
from agenteval.core.text_calls import Dialect
from agenteval.core.text_calls.dialects import DIALECTS
from agenteval.core.trial import Message, Usage
from agenteval.models.failures import broken_off, decode_body, error_in, refused_within
from agenteval.models.turns import sent_arguments, sent_name
from agenteval.protocols import ToolSchema


def readable(received: Received) -> Received:
    """The reply. Raises ReplyError where it has words and no call, and no byte of them is UTF-8."""
    words = received.text.strip() or received.reasoning.strip()
    if words and not received.calls and all(map(is_byte, words)):
        raise ReplyError("nothing in the reply is text: its bytes are no UTF-8")
    return received


def read_reply(body: bytes) -> tuple[Received, Usage]:
    """A whole (not streamed) reply.

    Raises ReplyError when the body is no chat completion, RefusedError when it is an error or was
    broken off.
    """
    try:
        chunk = read_chunk(body)
    except ReplyError as error:
        raise ReplyError(
            f"the reply is no chat completion: {excerpt(decode_body(body))}"
        ) from error
    choice = chunk.choices[0] if chunk.choices else None
    if choice is None or choice.message is None:
        if fault := error_in(chunk, body):
            raise refused_within(fault)
        raise ReplyError(f"the reply is no chat completion: {excerpt(decode_body(body))}")
    if fault := broken_off(choice):
        raise refused_within(fault, begun=True)
    used = usage(chunk.usage)
    received = Received(
        text=choice.message.words,
        reasoning=choice.message.thought,
        calls=_received_calls(choice.message),
        finish_reason=choice.finish_reason or "",
        completion_tokens=used.completion_tokens,
        hidden_tokens=used.reasoning_tokens,
        model=chunk.model or "",
        thought_in=choice.message.thought_in if choice.message.thought else "",
    )
    return readable(received), used


def _received_calls(message: Said) -> tuple[ReceivedCall, ...]:
    calls = tuple(map(_received_call, message.tool_calls or ()))
    if calls or message.function_call is None:
        return calls
    legacy = _received_call(Call(function=message.function_call))
    return (replace(legacy, id="call-0", mends=((LEGACY, legacy.name),)),)


def _received_call(call: Call) -> ReceivedCall:
    function = call.function or Function()
    raw, as_object = argument_text(function.arguments)
    return ReceivedCall(function.name or "", raw, call.id or "", as_object)


_ENCODER = msgspec.json.Encoder()


def request_body(
    entry: ModelEntry,
    messages: Sequence[Message],
    tools: Sequence[ToolSchema],
    seed: int,
    thought_in: str = FIELD,
) -> bytes:
    """The whole request. A sampling seed of the entry goes before that of trial and turn.

    Reasoning that goes back to the model is put into the field `thought_in`.
    """
    turns = sum(message.role == "assistant" for message in messages)
    request: dict[str, Any] = {
        "model": entry.model,
        "stream": entry.stream,
        "seed": turn_seed(seed, turns),
    }
    if entry.stream:
        request["stream_options"] = {"include_usage": True}
    if entry.tools == "text":
        dialect = DIALECTS[entry.dialect]
        request["messages"] = _text_messages(messages, dialect, schemas_of(tools))
        if dialect.stop:
            request["stop"] = dialect.stop
    else:
        thoughts = _sent_back(messages, entry.sends_reasoning)
        request["messages"] = [
            native_message(message, {thought_in: thought} if thought else {})
            for message, thought in zip(messages, thoughts, strict=True)
        ]
        if tools:
            request["tools"] = tools
            if entry.tool_choice:
                request["tool_choice"] = entry.tool_choice
    return _ENCODER.encode(request | entry.sampling.model_dump(exclude_none=True))


def asked_of(entry: ModelEntry, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Asked:
    """Return the parts of this request that can decide who is to blame for a malformed call."""
    return Asked(
        schemas=schemas_of(tools),
        max_tokens=entry.sampling.max_tokens,
        parser=entry.tool_parser,
        dialect=entry.dialect if entry.tools == "text" else "",
        prompts=tuple(one.content for one in messages if one.role in {"system", "user"}),
    )


def relayed_body(entry: ModelEntry, request: Mapping[str, Any], seed: int) -> bytes:
    """The request of another program, with what a run sets: model, seed, sampling, counts."""
    messages = request["messages"]
    turns = sum(message.get("role") == "assistant" for message in messages)
    ours: dict[str, Any] = {"model": entry.model, "seed": turn_seed(seed, turns)}
    if request.get("stream"):
        ours["stream_options"] = {"include_usage": True}
    return _ENCODER.encode({**request, **ours, **entry.sampling.model_dump(exclude_none=True)})


def asked_by(entry: ModelEntry, request: Mapping[str, Any]) -> Asked:
    """Return the parts of another program's request that can decide who is to blame for a fault."""
    contents = (
        message.get("content")
        for message in request["messages"]
        if message.get("role") in {"system", "user"}
    )
    return Asked(
        schemas=schemas_of(request.get("tools") or ()),
        max_tokens=entry.sampling.max_tokens or request.get("max_tokens"),
        parser=entry.tool_parser,
        dialect="",
        prompts=tuple(content for content in contents if isinstance(content, str)),
    )


def schemas_of(tools: Sequence[ToolSchema]) -> Schemas:
    functions = [tool["function"] for tool in tools]
    return {function["name"]: function.get("parameters") or {} for function in functions}


def _sent_back(messages: Sequence[Message], rule: Rule) -> list[str]:
    """The reasoning that goes with each message; "" for none.

    The tool loop is all that came after the last message of the user.
    """
    asked = (at for at, message in enumerate(messages) if message.role == "user")
    begins = {"always": 0, "drop": len(messages)}.get(rule, max(asked, default=0))
    return [message.reasoning if at >= begins else "" for at, message in enumerate(messages)]


def native_message(message: Message, thought: Mapping[str, str]) -> Mapping[str, Any]:
    """A message as a server takes it, with this field; what it would refuse is mended."""
    wire: dict[str, Any] = {"role": message.role, "content": message.content, **thought}
    if message.calls:
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": sent_name(call), "arguments": sent_arguments(call)},
            }
            for call in message.calls
        ]
    if message.role == "tool":
        wire["tool_call_id"] = message.call_id
    return wire


def _text_messages(
    messages: Sequence[Message], dialect: Dialect, schemas: Schemas
) -> list[Mapping[str, Any]]:
    """The conversation of a model without tools: instructions, its own words, results as words.

    All results of a turn are one message of the user: templates want the roles to alternate.
    """
    wire: list[dict[str, Any]] = []
    for role, content in _text_parts(messages, dialect):
        if role == "tool" and wire[-1]["role"] == "user":
            wire[-1]["content"] += "\n" + content
        else:
            wire.append({"role": "user" if role == "tool" else role, "content": content})
    instructions = dialect.instructions(schemas)
    if wire and wire[0]["role"] == "system":
        wire[0]["content"] += "\n\n" + instructions
    else:
        wire.insert(0, {"role": "system", "content": instructions})
    return list(wire)


def _text_parts(messages: Sequence[Message], dialect: Dialect) -> Iterator[tuple[str, str]]:
    names: dict[str, str] = {}
    for message in messages:
        names.update((call.id, call.name) for call in message.calls)
        if message.role == "tool":
            yield "tool", dialect.result(names.get(message.call_id, ""), message.content)
        else:
            yield message.role, message.content
