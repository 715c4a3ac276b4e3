"""The chat-completions wire: requests from messages, turns from replies. Pure.

A reply that is broken as a *reply* raises ReplyError: the server's fault. A tool call that is
broken inside a good reply is the model's, and becomes a ToolCall that says what is wrong with it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agenteval.core.call import ToolCall
from agenteval.core.trial import Message, Turn, Usage


class ReplyError(Exception):
    """The body is no chat completion, or only a part of one."""


def to_wire(message: Message) -> dict[str, Any]:
    """A message as the server reads it.

    Arguments that do not parse are sent back as an empty object: servers answer a replayed broken
    call with 400 or 500, which would void the trial for the model's own mistake.
    """
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": "{}" if call.garbled else call.raw},
            }
            for call in message.calls
        ]
    if message.role == "tool":
        wire["tool_call_id"] = message.call_id
    return wire


def tool_call(name: object, arguments: object, call_id: object, position: int) -> ToolCall:
    """One call of a reply; `arguments` is JSON text, or an object from servers that parse it.

    A missing id becomes `call-POSITION`; it only has to pair with its reply within the turn.
    """
    ident = call_id if isinstance(call_id, str) and call_id else f"call-{position}"
    called = name if isinstance(name, str) else ""
    if isinstance(arguments, Mapping):
        return ToolCall(ident, called, json.dumps(arguments), dict(arguments))
    raw = arguments if isinstance(arguments, str) else ""
    if not raw.strip():
        return ToolCall(ident, called, raw, {})
    try:
        parsed = json.loads(raw)
    except (json.JSONDecodeError, RecursionError) as error:
        return ToolCall(ident, called, raw, None, f"arguments are not JSON: {error}")
    if not isinstance(parsed, dict):
        return ToolCall(
            ident, called, raw, None, f"arguments are a JSON {type(parsed).__name__}, not an object"
        )
    return ToolCall(ident, called, raw, parsed)


def parse_reply(body: str, seconds: float) -> Turn:
    """The turn in a whole (not streamed) reply.

    Raises ReplyError when the body is no chat completion.
    """
    try:
        reply = json.loads(body)
        choice = reply["choices"][0]
        message = choice["message"]
        calls = message.get("tool_calls") or []
        return Turn(
            text=message.get("content") or "",
            calls=tuple(_calls(calls)),
            finish_reason=choice.get("finish_reason") or "",
            usage=usage(reply.get("usage")),
            raw=body,
            seconds=seconds,
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ReplyError(f"the reply is no chat completion: {excerpt(body)}") from error


def _calls(calls: Sequence[Any]) -> list[ToolCall]:
    return [
        tool_call(
            (call.get("function") or {}).get("name"),
            (call.get("function") or {}).get("arguments"),
            call.get("id"),
            position,
        )
        for position, call in enumerate(calls)
    ]


def usage(counts: Any) -> Usage:
    """Token counts of a reply; 0 for what the server leaves out."""
    if not isinstance(counts, Mapping):
        return Usage()
    return Usage(int(counts.get("prompt_tokens") or 0), int(counts.get("completion_tokens") or 0))


def excerpt(body: str, length: int = 120) -> str:
    """The first characters of a body on one line, for an error message."""
    flat = " ".join(body.split())
    return repr(flat if len(flat) <= length else flat[:length] + "...")
