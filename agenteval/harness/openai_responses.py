"""OpenAI's responses in terms of chat completions: requests there, replies back. Pure.

A served model then reads chat completions in whatever dialect the program speaks: the run states
it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agenteval.harness.http import event
from agenteval.trial.call import ToolCall
from agenteval.trial.trial import Turn, Usage

Json = Mapping[str, Any]


def to_chat(body: Json) -> dict[str, Any]:
    """The same request as chat completions have it; tools of the server's own are left out."""
    request: dict[str, Any] = {"messages": [*_messages(body)], "stream": bool(body.get("stream"))}
    request |= {name: body[name] for name in ("temperature", "top_p") if body.get(name) is not None}
    if body.get("max_output_tokens"):
        request["max_tokens"] = body["max_output_tokens"]
    if tools := [tool for tool in body.get("tools") or () if tool.get("type") == "function"]:
        request["tools"] = [{"type": "function", "function": _function(tool)} for tool in tools]
    return request


def _function(tool: Json) -> Json:
    described = {"name": tool.get("name"), "description": tool.get("description") or ""}
    return {**described, "parameters": tool.get("parameters") or {}}


def _messages(body: Json) -> Iterator[dict[str, Any]]:
    """Calls that stand together, and the words before them, are one message."""
    if body.get("instructions"):
        yield {"role": "system", "content": body["instructions"]}
    contents = body.get("input")
    items = [{"role": "user", "content": contents}] if isinstance(contents, str) else contents or ()
    assistant: dict[str, Any] | None = None
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call" or item.get("role") == "assistant":
            assistant = assistant or {"role": "assistant", "content": ""}
            _add(assistant, item)
            continue
        if kind == "reasoning":
            continue
        if assistant:
            yield assistant
            assistant = None
        yield from _chat_message(kind, item)
    if assistant:
        yield assistant


def _add(assistant: dict[str, Any], item: Json) -> None:
    if item.get("role") == "assistant":
        assistant["content"] += _text(item.get("content"))
        return
    function = {"name": item.get("name"), "arguments": item.get("arguments") or "{}"}
    call = {"id": item.get("call_id"), "type": "function", "function": function}
    assistant.setdefault("tool_calls", []).append(call)


def _chat_message(kind: str, item: Json) -> Iterator[dict[str, Any]]:
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
    """A reply as events of responses."""

    ident: str
    model: str
    _speaks: bool = False

    def begun(self) -> Iterator[bytes]:
        yield event("response.created", response=self._response("in_progress", []))

    def words(self, text: str) -> Iterator[bytes]:
        if not text:
            return
        if not self._speaks:
            self._speaks = True
            yield event("response.output_item.added", output_index=0, item=self._message(""))
        place = {"item_id": f"msg-{self.ident}", "output_index": 0, "content_index": 0}
        yield event("response.output_text.delta", delta=text, **place)

    def ended(self, turn: Turn) -> Iterator[bytes]:
        response = self.whole(turn)
        for at, item in enumerate(response["output"]):
            yield event("response.output_item.done", output_index=at, item=item)
        yield event("response.completed", response=response)

    def failed(self, said: str) -> Iterator[bytes]:
        error = {"code": "server_error", "message": said}
        yield event("response.failed", response={**self._response("failed", []), "error": error})

    def whole(self, turn: Turn) -> Json:
        said = [self._message(turn.text)] if turn.text else []
        calls = [self._called(at, call) for at, call in enumerate(turn.calls)]
        return self._response("completed", [*said, *calls], turn.usage)

    def _called(self, at: int, call: ToolCall) -> Json:
        named = {"type": "function_call", "id": f"fc-{self.ident}-{at}", "status": "completed"}
        return {**named, "call_id": call.id, "name": call.name, "arguments": call.raw}

    def _message(self, text: str) -> Json:
        part = {"type": "output_text", "text": text, "annotations": []}
        named = {"type": "message", "id": f"msg-{self.ident}", "role": "assistant"}
        return {**named, "status": "completed", "content": [part] if text else []}

    def _response(self, status: str, items: Sequence[Json], used: Usage | None = None) -> Json:
        made = {"id": self.ident, "object": "response", "created_at": 0, "model": self.model}
        counts = _counts(used) if used else None
        return {**made, "status": status, "output": items, "usage": counts}


def _counts(used: Usage) -> Json:
    came, went = used.prompt_tokens, used.completion_tokens
    return {"input_tokens": came, "output_tokens": went, "total_tokens": came + went}
