"""Anthropic's messages in terms of chat completions: requests there, replies back. Pure.

A served model then reads chat completions in whatever dialect the program speaks: the run states
it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agenteval.harness.http import event
from agenteval.trial.call import CUT, ToolCall
from agenteval.trial.trial import Turn, Usage

Json = Mapping[str, Any]


def to_chat(body: Json) -> dict[str, Any]:
    """The same request as chat completions have it; what they have no word for is left out."""
    request: dict[str, Any] = {"messages": [*_messages(body)], "stream": bool(body.get("stream"))}
    for name, value in (("max_tokens", "max_tokens"), ("stop", "stop_sequences")):
        if body.get(value):
            request[name] = body[value]
    request |= {name: body[name] for name in ("temperature", "top_p") if name in body}
    if tools := [_tool(tool) for tool in body.get("tools") or () if "input_schema" in tool]:
        request["tools"] = tools
    return request


def _tool(tool: Json) -> Json:
    described = {"name": tool["name"], "description": tool.get("description", "")}
    return {"type": "function", "function": {**described, "parameters": tool["input_schema"]}}


def _messages(body: Json) -> Iterator[dict[str, Any]]:
    if system := _text(body.get("system")):
        yield {"role": "system", "content": system}
    for message in body.get("messages") or ():
        blocks = _blocks(message.get("content"))
        if message.get("role") == "assistant":
            yield _assistant_message(blocks)
        else:
            yield from _user_messages(blocks)


def _blocks(content: object) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    listed = content if isinstance(content, list) else ()
    return [block for block in listed if isinstance(block, Mapping)]


def _text(content: object) -> str:
    return "\n\n".join(str(one.get("text", "")) for one in _blocks(content) if one.get("text"))


def _assistant_message(blocks: Sequence[Json]) -> dict[str, Any]:
    calls = [_called(block) for block in blocks if block.get("type") == "tool_use"]
    text = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    message: dict[str, Any] = {"role": "assistant", "content": text}
    return message | ({"tool_calls": calls} if calls else {})


def _called(block: Json) -> Json:
    asked = {"name": block.get("name"), "arguments": json.dumps(block.get("input") or {})}
    return {"id": block.get("id"), "type": "function", "function": asked}


def _user_messages(blocks: Sequence[Json]) -> Iterator[dict[str, Any]]:
    """Results first: chat completions want them right behind the calls."""
    for block in blocks:
        if block.get("type") == "tool_result":
            content = _text(block.get("content"))
            yield {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": content}
    if text := _text([block for block in blocks if block.get("type") == "text"]):
        yield {"role": "user", "content": text}


@dataclass(slots=True)
class Stream:
    """A reply as events of messages.

    `ident` is of this reply alone: programs join replies of one id.
    """

    ident: str
    model: str
    _speaks: bool = False

    def begun(self) -> Iterator[bytes]:
        yield event("message_start", message=self._message([], None, Usage()))

    def words(self, text: str) -> Iterator[bytes]:
        if not text:
            yield event("ping")  # thoughts and arguments take long, and are not told as they come
            return
        if not self._speaks:
            self._speaks = True
            yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        yield _delta(0, {"type": "text_delta", "text": text})

    def ended(self, turn: Turn) -> Iterator[bytes]:
        if self._speaks:
            yield event("content_block_stop", index=0)
        for at, call in enumerate(turn.calls, start=int(self._speaks)):
            yield event("content_block_start", index=at, content_block=_use(call, {}))
            if call.raw:
                yield _delta(at, {"type": "input_json_delta", "partial_json": call.raw})
            yield event("content_block_stop", index=at)
        yield event("message_delta", delta={"stop_reason": _end(turn)}, usage=_counts(turn.usage))
        yield event("message_stop")

    def failed(self, said: str) -> Iterator[bytes]:
        yield event("error", error={"type": "api_error", "message": said})

    def whole(self, turn: Turn) -> Json:
        words: list[Json] = [{"type": "text", "text": turn.text}] if turn.text else []
        # The protocol has no place for arguments that are no object.
        calls = [_use(call, call.arguments or {}) for call in turn.calls]
        return self._message([*words, *calls], _end(turn), turn.usage)

    def _message(self, content: Sequence[Json], end: str | None, usage: Usage) -> Json:
        named = {"id": self.ident, "type": "message", "role": "assistant", "model": self.model}
        return {**named, "content": content, "stop_reason": end, "usage": _counts(usage)}


def _delta(at: int, delta: Json) -> bytes:
    return event("content_block_delta", index=at, delta=delta)


def _use(call: ToolCall, given: Json) -> Json:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": given}


def _end(turn: Turn) -> str:
    if turn.finish_reason in CUT:
        return "max_tokens"
    return "tool_use" if turn.calls else "end_turn"


def _counts(usage: Usage) -> Json:
    return {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens}
