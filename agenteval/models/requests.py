"""Chat-completions requests from the messages of a trial, with tools native or as text. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from agenteval.config.models import ModelEntry
from agenteval.core.chance import turn_seed
from agenteval.core.garble import Asked, Schemas
from agenteval.core.text_calls.dialects import DIALECTS
from agenteval.core.text_calls.text_call import Dialect
from agenteval.core.trial import Message
from agenteval.models.turns import sent_arguments, sent_name
from agenteval.protocols import ToolSchema

_ENCODER = msgspec.json.Encoder()


def request_body(
    entry: ModelEntry, messages: Sequence[Message], tools: Sequence[ToolSchema], seed: int
) -> bytes:
    """The whole request. A sampling seed of the entry goes before that of trial and turn."""
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
        request["messages"] = text_messages(messages, dialect, schemas_of(tools))
        if dialect.stop:
            request["stop"] = dialect.stop
    else:
        request["messages"] = [native_message(message) for message in messages]
        if tools:
            request["tools"] = tools
            if entry.tool_choice:
                request["tool_choice"] = entry.tool_choice
    return _ENCODER.encode(request | entry.sampling.model_dump(exclude_none=True))


def asked_of(entry: ModelEntry, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Asked:
    """What of this request may found a blame."""
    return Asked(
        schemas=schemas_of(tools),
        max_tokens=entry.sampling.max_tokens,
        parser=entry.tool_parser,
        dialect=entry.dialect if entry.tools == "text" else "",
        prompts=tuple(one.content for one in messages if one.role in {"system", "user"}),
    )


def schemas_of(tools: Sequence[ToolSchema]) -> Schemas:
    functions = [tool["function"] for tool in tools]
    return {function["name"]: function.get("parameters", {}) for function in functions}


def native_message(message: Message) -> Mapping[str, Any]:
    """A message as a server takes it; what it would refuse is mended."""
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
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


def text_messages(
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
    told = dialect.instructions(schemas)
    if wire and wire[0]["role"] == "system":
        wire[0]["content"] += "\n\n" + told
    else:
        wire.insert(0, {"role": "system", "content": told})
    return list(wire)


def _text_parts(messages: Sequence[Message], dialect: Dialect) -> Iterator[tuple[str, str]]:
    names: dict[str, str] = {}
    for message in messages:
        names.update((call.id, call.name) for call in message.calls)
        if message.role == "tool":
            yield "tool", dialect.result(names.get(message.call_id, ""), message.content)
        else:
            yield message.role, message.content
