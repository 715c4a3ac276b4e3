"""Anthropic's messages in terms of chat completions: requests there, replies back. Pure.

What a served model reads is then chat completions whatever the program speaks: a run says so.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agenteval.core.chunk import Call, Choice, Chunk, Function, Said, argument_text, usage
from agenteval.harness.http_server import event

Json = Mapping[str, Any]
_ENDS = {"tool_calls": "tool_use", "length": "max_tokens"}


def to_chat(body: Json) -> dict[str, Any]:
    """The same request as chat completions have it; what they have no word for is left out."""
    asked: dict[str, Any] = {"messages": [*_messages(body)], "stream": bool(body.get("stream"))}
    for name, value in (("max_tokens", "max_tokens"), ("stop", "stop_sequences")):
        if body.get(value):
            asked[name] = body[value]
    asked |= {name: body[name] for name in ("temperature", "top_p") if name in body}
    if tools := [_tool(tool) for tool in body.get("tools") or () if "input_schema" in tool]:
        asked["tools"] = tools
    return asked


def _tool(tool: Json) -> Json:
    described = {"name": tool["name"], "description": tool.get("description", "")}
    return {"type": "function", "function": {**described, "parameters": tool["input_schema"]}}


def _messages(body: Json) -> Iterator[dict[str, Any]]:
    if system := _text(body.get("system")):
        yield {"role": "system", "content": system}
    for message in body.get("messages") or ():
        blocks = _blocks(message.get("content"))
        if message.get("role") == "assistant":
            yield _said(blocks)
        else:
            yield from _heard(blocks)


def _blocks(content: object) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    listed = content if isinstance(content, list) else ()
    return [block for block in listed if isinstance(block, Mapping)]


def _text(content: object) -> str:
    return "\n\n".join(str(one.get("text", "")) for one in _blocks(content) if one.get("text"))


def _said(blocks: Sequence[Json]) -> dict[str, Any]:
    calls = [_called(block) for block in blocks if block.get("type") == "tool_use"]
    text = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    message: dict[str, Any] = {"role": "assistant", "content": text}
    return message | ({"tool_calls": calls} if calls else {})


def _called(block: Json) -> Json:
    asked = {"name": block.get("name"), "arguments": json.dumps(block.get("input") or {})}
    return {"id": block.get("id"), "type": "function", "function": asked}


def _heard(blocks: Sequence[Json]) -> Iterator[dict[str, Any]]:
    """Results first: chat completions want them right behind the calls."""
    for block in blocks:
        if block.get("type") == "tool_result":
            content = _text(block.get("content"))
            yield {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": content}
    if text := _text([block for block in blocks if block.get("type") == "text"]):
        yield {"role": "user", "content": text}


@dataclass(slots=True)
class Stream:
    """A chat-completions stream as events of messages, piece by piece.

    `ident` is of this reply alone: programs join replies of one id.
    """

    ident: str
    model: str
    _blocks: int = 0
    _open: str = ""  # text, or the index of a call
    _end: str = "end_turn"
    _usage: dict[str, int] = field(default_factory=lambda: {"input_tokens": 0, "output_tokens": 0})
    _begun: bool = False

    def feed(self, chunk: Chunk) -> Iterator[bytes]:
        if not self._begun:
            self._begun = True
            yield event("message_start", message=self._message([], None))
        self._count(chunk)
        for choice in chunk.choices or ():
            delta = choice.delta or Said()
            if delta.content:
                yield from self._opened("text", {"type": "text", "text": ""})
                yield self._delta({"type": "text_delta", "text": delta.content})
            for call in delta.called:
                yield from self._call(call)
            if choice.finish_reason:
                self._end = _ENDS.get(choice.finish_reason, "end_turn")

    def _call(self, call: Call) -> Iterator[bytes]:
        function, index = call.function or Function(), call.index or 0
        use = {"type": "tool_use", "id": call.id or f"call-{index}"}
        yield from self._opened(f"call {index}", {**use, "name": function.name or "", "input": {}})
        text, _ = argument_text(function.arguments)
        if text:
            yield self._delta({"type": "input_json_delta", "partial_json": text})

    def _opened(self, what: str, block: Json) -> Iterator[bytes]:
        if self._open == what:
            return
        yield from self._closed()
        yield event("content_block_start", index=self._blocks, content_block=block)
        self._open = what

    def _closed(self) -> Iterator[bytes]:
        if self._open:
            yield event("content_block_stop", index=self._blocks)
            self._blocks, self._open = self._blocks + 1, ""

    def _delta(self, delta: Json) -> bytes:
        return event("content_block_delta", index=self._blocks, delta=delta)

    def ended(self) -> Iterator[bytes]:
        yield from self._closed()
        yield event("message_delta", delta={"stop_reason": self._end}, usage=self._usage)
        yield event("message_stop")

    def whole(self, reply: Chunk) -> Json:
        """The same of a reply that came whole."""
        self._count(reply)
        choice = (reply.choices or [Choice()])[0]
        said = choice.message or Said()
        blocks: list[Json] = [{"type": "text", "text": said.content}] if said.content else []
        for at, call in enumerate(said.called):
            function = call.function or Function()
            use = {"type": "tool_use", "id": call.id or f"call-{at}", "name": function.name or ""}
            blocks.append({**use, "input": _object(argument_text(function.arguments)[0])})
        return self._message(blocks, _ENDS.get(choice.finish_reason or "", "end_turn"))

    def _count(self, chunk: Chunk) -> None:
        if chunk.usage:
            used = usage(chunk.usage)
            counts = {"input_tokens": used.prompt_tokens, "output_tokens": used.completion_tokens}
            self._usage.update(counts)

    def _message(self, content: Sequence[Json], end: str | None) -> Json:
        named = {"id": self.ident, "type": "message", "role": "assistant", "model": self.model}
        return {**named, "content": content, "stop_reason": end, "usage": self._usage}


def _object(arguments: str) -> Json:
    """The protocol has no place for arguments that are no object."""
    try:
        read = json.loads(arguments)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, Mapping) else {}
