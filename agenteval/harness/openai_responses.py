"""OpenAI's responses in terms of chat completions: requests there, replies back. Pure.

What a served model reads is then chat completions whatever the program speaks: a run says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agenteval.core.chunk import Call, Choice, Chunk, Function, Said, argument_text, usage
from agenteval.harness.http_server import event

Json = Mapping[str, Any]


def to_chat(body: Json) -> dict[str, Any]:
    """The same request as chat completions have it; tools of the server's own are left out."""
    asked: dict[str, Any] = {"messages": [*_messages(body)], "stream": bool(body.get("stream"))}
    asked |= {name: body[name] for name in ("temperature", "top_p") if body.get(name) is not None}
    if body.get("max_output_tokens"):
        asked["max_tokens"] = body["max_output_tokens"]
    if tools := [tool for tool in body.get("tools") or () if tool.get("type") == "function"]:
        asked["tools"] = [{"type": "function", "function": _function(tool)} for tool in tools]
    return asked


def _function(tool: Json) -> Json:
    described = {"name": tool.get("name"), "description": tool.get("description") or ""}
    return {**described, "parameters": tool.get("parameters") or {}}


def _messages(body: Json) -> Iterator[dict[str, Any]]:
    """Calls that stand together, and the words before them, are one message."""
    if body.get("instructions"):
        yield {"role": "system", "content": body["instructions"]}
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given or ()
    said: dict[str, Any] | None = None
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call" or item.get("role") == "assistant":
            said = said or {"role": "assistant", "content": ""}
            _add(said, item)
            continue
        if kind == "reasoning":
            continue
        if said:
            yield said
            said = None
        yield from _heard(kind, item)
    if said:
        yield said


def _add(said: dict[str, Any], item: Json) -> None:
    if item.get("role") == "assistant":
        said["content"] += _text(item.get("content"))
        return
    function = {"name": item.get("name"), "arguments": item.get("arguments") or "{}"}
    call = {"id": item.get("call_id"), "type": "function", "function": function}
    said.setdefault("tool_calls", []).append(call)


def _heard(kind: str, item: Json) -> Iterator[dict[str, Any]]:
    if kind == "function_call_output":
        content = _text(item.get("output"))
        yield {"role": "tool", "tool_call_id": item.get("call_id"), "content": content}
    elif kind == "message":
        role = "system" if item.get("role") in {"system", "developer"} else "user"
        yield {"role": role, "content": _text(item.get("content"))}


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts: Sequence[object] = content if isinstance(content, list) else ()
    return "\n\n".join(str(one.get("text", "")) for one in parts if isinstance(one, Mapping))


@dataclass(slots=True)
class Stream:
    """A chat-completions stream as events of responses. A call is told of when it is whole."""

    ident: str
    model: str
    _text: list[str] = field(default_factory=list)
    _calls: dict[int, dict[str, str]] = field(default_factory=dict)
    _usage: dict[str, Any] = field(default_factory=dict)
    _begun: bool = False

    def feed(self, chunk: Chunk) -> Iterator[bytes]:
        if not self._begun:
            self._begun = True
            yield event("response.created", response=self._response("in_progress", []))
        self._count(chunk)
        for choice in chunk.choices or ():
            delta = choice.delta or Said()
            if delta.content:
                yield from self._words(delta.content)
            for call in delta.called:
                self._call(call.index or 0, call)

    def _words(self, text: str) -> Iterator[bytes]:
        if not self._text:
            yield event("response.output_item.added", output_index=0, item=self._message(""))
        self._text.append(text)
        place = {"item_id": f"msg-{self.ident}", "output_index": 0, "content_index": 0}
        yield event("response.output_text.delta", delta=text, **place)

    def _call(self, index: int, call: Call) -> None:
        known = self._calls.setdefault(index, {"call_id": "", "name": "", "arguments": ""})
        function = call.function or Function()
        known["call_id"] = known["call_id"] or call.id or ""
        known["name"] += function.name or ""
        known["arguments"] += argument_text(function.arguments)[0]

    def ended(self) -> Iterator[bytes]:
        items = self._items()
        for at, item in enumerate(items):
            yield event("response.output_item.done", output_index=at, item=item)
        yield event("response.completed", response=self._response("completed", items))

    def whole(self, reply: Chunk) -> Json:
        """The same of a reply that came whole."""
        self._count(reply)
        said = (reply.choices or [Choice()])[0].message or Said()
        if said.content:
            self._text.append(said.content)
        for at, call in enumerate(said.called):
            self._call(at, call)
        return self._response("completed", self._items())

    def _items(self) -> list[Json]:
        said = [self._message("".join(self._text))] if self._text else []
        calls = [
            {"type": "function_call", "id": f"fc-{self.ident}-{at}", "status": "completed", **call}
            for at, call in sorted(self._calls.items())
        ]
        return [*said, *calls]

    def _message(self, text: str) -> Json:
        part = {"type": "output_text", "text": text, "annotations": []}
        named = {"type": "message", "id": f"msg-{self.ident}", "role": "assistant"}
        return {**named, "status": "completed", "content": [part] if text else []}

    def _response(self, status: str, items: Sequence[Json]) -> Json:
        made = {"id": self.ident, "object": "response", "created_at": 0, "model": self.model}
        return {**made, "status": status, "output": items, "usage": self._usage or None}

    def _count(self, chunk: Chunk) -> None:
        if chunk.usage:
            used = usage(chunk.usage)
            came, went = used.prompt_tokens, used.completion_tokens
            counts = {"input_tokens": came, "output_tokens": went}
            self._usage = counts | {"total_tokens": came + went}
