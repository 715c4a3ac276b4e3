"""Anthropic's messages and OpenAI's responses in terms of chat completions. Pure.

A served model then reads chat completions in whatever dialect the program speaks: the run states
it. Each dialect is a class that reads requests (`to_chat`) and an object that writes one reply: a
stream piece by piece, or `whole`. What chat completions have no word for is left out.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from agenteval.harness.http import event
from agenteval.trial.call import CUT, ToolCall
from agenteval.trial.trial import Turn, Usage

Json = Mapping[str, Any]


class _Wire(ABC):
    """A dialect. `ident` is of one reply alone: programs join replies of one id.

    It writes a stream by `begun`; `words`, with "" for a piece of the reply that has none; and
    `ended`, or `failed` where an error of the server's broke it off.
    """

    name: ClassVar[str]
    path: ClassVar[str]  # the end of it
    limits: ClassVar[Json]  # names here, and there

    def __init__(self, ident: str, model: str) -> None:
        self.ident, self.model = ident, model
        self._speaks = False  # whether words were sent

    @classmethod
    def to_chat(cls, body: Json) -> dict[str, Any]:
        """Return the same request as chat completions have it."""
        request: dict[str, Any] = {
            "messages": [*cls._messages(body)],
            "stream": bool(body.get("stream")),
        }
        for theirs, name in cls.limits.items():
            if body.get(theirs):
                request[name] = body[theirs]
        for name in ("temperature", "top_p"):
            if body.get(name) is not None:
                request[name] = body[name]
        functions = [cls._function(tool) for tool in body.get("tools") or ()]
        if tools := [{"type": "function", "function": one} for one in functions if one]:
            request["tools"] = tools
        return request

    @classmethod
    @abstractmethod
    def _messages(cls, body: Json) -> Iterator[dict[str, Any]]:
        """Yield the messages of a request as chat completions have them."""

    @classmethod
    @abstractmethod
    def _function(cls, tool: Json) -> Json | None:
        """Return a tool of the program's; None for one of the server's own."""


def text_in(content: object, between: str = "") -> str:
    """Return the text of a content, whether it came as a text or in parts."""
    if isinstance(content, str):
        return content
    return between.join(str(part.get("text", "")) for part in _parts_in(content))


def _parts_in(content: object) -> list[Json]:
    parts = content if isinstance(content, list) else ()
    return [part for part in parts if isinstance(part, Mapping)]


def _call(ident: object, name: object, arguments: str) -> Json:
    return {
        "id": ident,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _result(ident: object, text: str) -> dict[str, Any]:
    return {
        "role": "tool",
        "tool_call_id": ident,
        "content": text,
    }


class Messages(_Wire):
    """Anthropic's messages."""

    name = "messages"
    path = "/messages"
    limits: ClassVar = {"max_tokens": "max_tokens", "stop_sequences": "stop"}

    @classmethod
    def _function(cls, tool: Json) -> Json | None:
        if "input_schema" not in tool:
            return None
        described = {"name": tool["name"], "description": tool.get("description", "")}
        return {**described, "parameters": tool["input_schema"]}

    @classmethod
    def _messages(cls, body: Json) -> Iterator[dict[str, Any]]:
        if system := cls._text(body.get("system")):
            yield {"role": "system", "content": system}
        for message in body.get("messages") or ():
            content = message.get("content")
            if isinstance(content, str):
                content = [{"type": "text", "text": content}]
            texts = [part for part in _parts_in(content) if part.get("type") == "text"]
            if message.get("role") == "assistant":
                yield cls._of_assistant(_parts_in(content), text_in(texts))
                continue
            # Results first: chat completions want them right behind the calls.
            for part in _parts_in(content):
                if part.get("type") == "tool_result":
                    yield _result(part.get("tool_use_id"), cls._text(part.get("content")))
            if text := cls._text(texts):
                yield {"role": "user", "content": text}

    @staticmethod
    def _text(content: object) -> str:
        """Return the text of the parts that have one: an image leaves no gap."""
        if isinstance(content, str):
            return content
        return text_in([part for part in _parts_in(content) if part.get("text")], "\n\n")

    @classmethod
    def _of_assistant(cls, parts: Sequence[Json], text: str) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text}
        for part in parts:
            if part.get("type") == "tool_use":
                arguments = json.dumps(part.get("input") or {})
                call = _call(part.get("id"), part.get("name"), arguments)
                message.setdefault("tool_calls", []).append(call)
        return message

    def begun(self) -> Iterator[bytes]:
        yield event("message_start", message=self._message([], None, Usage()))

    def words(self, text: str) -> Iterator[bytes]:
        if not text:
            yield event("ping")  # thoughts and arguments take long, and are not told as they come
            return
        if not self._speaks:
            self._speaks = True
            yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        yield self._delta(0, {"type": "text_delta", "text": text})

    def ended(self, turn: Turn) -> Iterator[bytes]:
        """Yield what follows the words, all of which were sent."""
        if self._speaks:
            yield event("content_block_stop", index=0)
        for at, call in enumerate(turn.calls, start=int(self._speaks)):
            yield event("content_block_start", index=at, content_block=self._use(call, {}))
            if call.raw:
                yield self._delta(at, {"type": "input_json_delta", "partial_json": call.raw})
            yield event("content_block_stop", index=at)
        delta = {"stop_reason": self._stop_reason(turn)}
        yield event("message_delta", delta=delta, usage=self._counts(turn.usage))
        yield event("message_stop")

    def failed(self, message: str) -> Iterator[bytes]:
        yield event("error", error={"type": "api_error", "message": message})

    def whole(self, turn: Turn) -> Json:
        content: list[Json] = [{"type": "text", "text": turn.text}] if turn.text else []
        # The protocol has no place for arguments that are no object.
        content += [self._use(call, call.arguments or {}) for call in turn.calls]
        return self._message(content, self._stop_reason(turn), turn.usage)

    def _message(self, content: Sequence[Json], end: str | None, usage: Usage) -> Json:
        return {
            "id": self.ident,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": end,
            "usage": self._counts(usage),
        }

    @staticmethod
    def _delta(at: int, delta: Json) -> bytes:
        return event("content_block_delta", index=at, delta=delta)

    @staticmethod
    def _use(call: ToolCall, arguments: Json) -> Json:
        return {
            "type": "tool_use",
            "id": call.id,
            "name": call.name,
            "input": arguments,
        }

    @staticmethod
    def _stop_reason(turn: Turn) -> str:
        if turn.finish_reason in CUT:
            return "max_tokens"
        return "tool_use" if turn.calls else "end_turn"

    @staticmethod
    def _counts(usage: Usage) -> Json:
        return {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens}


class Responses(_Wire):
    """OpenAI's responses."""

    name = "responses"
    path = "/responses"
    limits: ClassVar = {"max_output_tokens": "max_tokens"}

    @classmethod
    def _function(cls, tool: Json) -> Json | None:
        if tool.get("type") != "function":
            return None
        described = {"name": tool.get("name"), "description": tool.get("description") or ""}
        return {**described, "parameters": tool.get("parameters") or {}}

    @classmethod
    def _messages(cls, body: Json) -> Iterator[dict[str, Any]]:
        """Calls that stand together, and the words before them, are one message."""
        if body.get("instructions"):
            yield {"role": "system", "content": body["instructions"]}
        items = body.get("input") or ()
        if isinstance(items, str):
            items = [{"role": "user", "content": items}]
        assistant: dict[str, Any] = {}  # the message that still grows
        for item in items:
            kind = item.get("type", "message")
            if kind == "reasoning":
                continue
            if kind == "function_call" or item.get("role") == "assistant":
                assistant = assistant or {"role": "assistant", "content": ""}
                cls._add(assistant, item)
                continue
            if assistant:
                yield assistant
                assistant = {}
            if kind == "function_call_output":
                yield _result(item.get("call_id"), text_in(item.get("output"), "\n\n"))
            elif kind == "message":
                role = "system" if item.get("role") in {"system", "developer"} else "user"
                yield {"role": role, "content": text_in(item.get("content"), "\n\n")}
        if assistant:
            yield assistant

    @classmethod
    def _add(cls, assistant: dict[str, Any], item: Json) -> None:
        if item.get("role") == "assistant":
            assistant["content"] += text_in(item.get("content"), "\n\n")
            return
        call = _call(item.get("call_id"), item.get("name"), item.get("arguments") or "{}")
        assistant.setdefault("tool_calls", []).append(call)

    def begun(self) -> Iterator[bytes]:
        yield event("response.created", response=self._response("in_progress", []))

    def words(self, text: str) -> Iterator[bytes]:
        if not text:
            return
        if not self._speaks:
            self._speaks = True
            yield event("response.output_item.added", output_index=0, item=self._message(""))
        place = {
            "item_id": f"msg-{self.ident}",
            "output_index": 0,
            "content_index": 0,
        }
        yield event("response.output_text.delta", delta=text, **place)

    def ended(self, turn: Turn) -> Iterator[bytes]:
        response = self.whole(turn)
        for at, item in enumerate(response["output"]):
            yield event("response.output_item.done", output_index=at, item=item)
        yield event("response.completed", response=response)

    def failed(self, message: str) -> Iterator[bytes]:
        error = {"code": "server_error", "message": message}
        yield event("response.failed", response={**self._response("failed", []), "error": error})

    def whole(self, turn: Turn) -> Json:
        items = [self._message(turn.text)] if turn.text else []
        for at, call in enumerate(turn.calls):
            items.append(
                self._item("function_call", f"fc-{self.ident}-{at}")
                | {
                    "call_id": call.id,
                    "name": call.name,
                    "arguments": call.raw,
                }
            )
        prompt, completion = turn.usage.prompt_tokens, turn.usage.completion_tokens
        counts = {"input_tokens": prompt, "output_tokens": completion}
        return self._response("completed", items, {**counts, "total_tokens": prompt + completion})

    def _message(self, text: str) -> dict[str, Any]:
        part = {
            "type": "output_text",
            "text": text,
            "annotations": [],
        }
        content = [part] if text else []
        message = self._item("message", f"msg-{self.ident}")
        return message | {"role": "assistant", "content": content}

    @staticmethod
    def _item(kind: str, ident: str) -> dict[str, Any]:
        return {
            "type": kind,
            "id": ident,
            "status": "completed",
        }

    def _response(self, status: str, items: Sequence[Json], usage: Json | None = None) -> Json:
        return {
            "id": self.ident,
            "object": "response",
            "created_at": 0,
            "model": self.model,
            "status": status,
            "output": items,
            "usage": usage,
        }
