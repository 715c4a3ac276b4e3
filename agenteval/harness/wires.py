"""Anthropic's messages and OpenAI's responses in terms of chat completions. Pure.

A served model then reads chat completions in whatever dialect the program speaks: the run states
it. Each dialect is a class that reads requests (`to_chat`) and an object that writes one reply: a
stream piece by piece, or `whole`. What chat completions have no word for is left out.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from agenteval.trial.call import CUT, ToolCall
from agenteval.trial.trial import Turn, Usage

Json = Mapping[str, Any]
Message = dict[str, Any]  # of chat completions, while it is put together


class Wire(ABC):
    """A dialect. `ident` is of one reply alone: programs join replies of one id.

    It writes a stream by `begun`; `words`, with "" for a piece of the reply that has none; and
    `ended`, or `failed` where an error of the server's broke it off.
    """

    name: ClassVar[str]
    path: ClassVar[str]  # the end of it
    limits: ClassVar[Json]  # names here, and there
    schema: ClassVar[str]  # the field of a tool that describes its parameters
    pause: ClassVar[bytes]  # stands for a piece without words

    def __init__(self, ident: str, model: str) -> None:
        self.ident = ident
        self.model = model
        self._speaks = False  # whether words were sent

    @classmethod
    def to_chat(cls, body: Json) -> Message:
        """Return the same request as chat completions have it."""
        request: Message = {
            "messages": [*cls._messages(body)],
            "stream": bool(body.get("stream")),
        }
        for theirs, name in cls.limits.items():
            if body.get(theirs):
                request[name] = body[theirs]
        for name in ("temperature", "top_p"):
            if body.get(name) is not None:
                request[name] = body[name]
        functions = filter(cls._is_function, body.get("tools") or ())
        if tools := [*map(cls._tool, functions)]:
            request["tools"] = tools
        return request

    @classmethod
    def _tool(cls, tool: Json) -> Json:
        function = {
            "name": tool.get("name"),
            "description": tool.get("description") or "",
            "parameters": tool.get(cls.schema) or {},
        }
        return {"type": "function", "function": function}

    @staticmethod
    @abstractmethod
    def _is_function(tool: Json) -> bool:
        """Return True for a tool of the program's; False for one of the server's own."""

    @classmethod
    @abstractmethod
    def _messages(cls, body: Json) -> Iterator[Message]:
        """Yield the messages of a request as chat completions have them."""

    def words(self, text: str) -> Iterator[bytes]:
        if not text:
            yield self.pause
            return
        if not self._speaks:
            self._speaks = True
            yield self._opening()
        yield self._delta(text)

    @abstractmethod
    def _opening(self) -> bytes:
        """Return the event before the first words."""

    @abstractmethod
    def _delta(self, text: str) -> bytes: ...

    @abstractmethod
    def begun(self) -> bytes: ...

    @abstractmethod
    def ended(self, turn: Turn) -> Iterator[bytes]:
        """Yield what follows the words, all of which were sent."""

    @abstractmethod
    def failed(self, message: str) -> bytes: ...

    @abstractmethod
    def whole(self, turn: Turn) -> Json: ...


def _event(kind: str, **more: object) -> bytes:
    """Encode one server-sent event as both dialects have it."""
    content = json.dumps({"type": kind, **more})
    return f"event: {kind}\ndata: {content}\n\n".encode()


def _counts(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
    }


def with_role(messages: Sequence[Json], role: str) -> list[Json]:
    return [message for message in messages if message.get("role") == role]


def text_in(content: object, between: str = "") -> str:
    """Return the text of a content, whether it came as a text or in parts.

    A part without text, such as an image, leaves no gap.
    """
    if isinstance(content, str):
        return content
    texts = (part.get("text") for part in _parts_in(content))
    return between.join(str(text) for text in texts if text)


def _parts_in(content: object) -> list[Json]:
    parts = content if isinstance(content, list) else ()
    return [part for part in parts if isinstance(part, Mapping)]


def tool_call(ident: object, name: object, arguments: str) -> Message:
    return {
        "id": ident,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _result(ident: object, content: object) -> Message:
    return {
        "role": "tool",
        "tool_call_id": ident,
        "content": text_in(content, "\n\n"),
    }


class Messages(Wire):
    """Anthropic's messages."""

    name = "messages"
    path = "/messages"
    limits: ClassVar = {"max_tokens": "max_tokens", "stop_sequences": "stop"}
    schema = "input_schema"
    # Thoughts and arguments take long and are sent at the end: a client may think us dead.
    pause = _event("ping")

    @staticmethod
    def _is_function(tool: Json) -> bool:
        return "input_schema" in tool

    @classmethod
    def _messages(cls, body: Json) -> Iterator[Message]:
        if system := text_in(body.get("system"), "\n\n"):
            yield {"role": "system", "content": system}
        for message in body.get("messages") or ():
            content = message.get("content")
            if isinstance(content, str):
                content = [{"type": "text", "text": content}]
            parts = _parts_in(content)
            texts = [part for part in parts if part.get("type") == "text"]
            if message.get("role") == "assistant":
                yield cls._of_assistant(parts, text_in(texts))
                continue
            # Results first: chat completions want them right behind the calls.
            for part in parts:
                if part.get("type") == "tool_result":
                    yield _result(part.get("tool_use_id"), part.get("content"))
            if text := text_in(texts, "\n\n"):
                yield {"role": "user", "content": text}

    @staticmethod
    def _of_assistant(parts: Sequence[Json], text: str) -> Message:
        message: Message = {"role": "assistant", "content": text}
        for part in parts:
            if part.get("type") != "tool_use":
                continue
            arguments = json.dumps(part.get("input") or {})
            call = tool_call(part.get("id"), part.get("name"), arguments)
            message.setdefault("tool_calls", []).append(call)
        return message

    def begun(self) -> bytes:
        message = self._message([], None, Usage())
        return _event("message_start", message=message)

    def _opening(self) -> bytes:
        return _event(
            "content_block_start",
            index=0,
            content_block={"type": "text", "text": ""},
        )

    def _delta(self, text: str) -> bytes:
        return _event(
            "content_block_delta",
            index=0,
            delta={"type": "text_delta", "text": text},
        )

    def ended(self, turn: Turn) -> Iterator[bytes]:
        first = 0
        if self._speaks:
            yield _event("content_block_stop", index=0)
            first = 1
        for at, call in enumerate(turn.calls, first):
            yield _event(
                "content_block_start",
                index=at,
                content_block=_use(call, {}),
            )
            if call.raw:
                delta = {"type": "input_json_delta", "partial_json": call.raw}
                yield _event("content_block_delta", index=at, delta=delta)
            yield _event("content_block_stop", index=at)
        reason = {"stop_reason": _stop_reason(turn)}
        yield _event(
            "message_delta",
            delta=reason,
            usage=_counts(turn.usage),
        )
        yield _event("message_stop")

    def failed(self, message: str) -> bytes:
        return _event("error", error={"type": "api_error", "message": message})

    def whole(self, turn: Turn) -> Json:
        content: list[Json] = []
        if turn.text:
            content.append({"type": "text", "text": turn.text})
        # The protocol has no place for arguments that are no object.
        content += [_use(call, call.arguments or {}) for call in turn.calls]
        return self._message(content, _stop_reason(turn), turn.usage)

    def _message(self, content: Sequence[Json], end: str | None, usage: Usage) -> Json:
        return {
            "id": self.ident,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": end,
            "usage": _counts(usage),
        }


def _use(call: ToolCall, arguments: Json) -> Json:
    return {
        "type": "tool_use",
        "id": call.id,
        "name": call.name,
        "input": arguments,
    }


def _stop_reason(turn: Turn) -> str:
    if turn.finish_reason in CUT:
        return "max_tokens"
    return "tool_use" if turn.calls else "end_turn"


class Responses(Wire):
    """OpenAI's responses."""

    name = "responses"
    path = "/responses"
    limits: ClassVar = {"max_output_tokens": "max_tokens"}
    schema = "parameters"
    pause = b""

    @staticmethod
    def _is_function(tool: Json) -> bool:
        return bool(tool.get("type") == "function")

    @classmethod
    def _messages(cls, body: Json) -> Iterator[Message]:
        """Yield calls that stand together, and the words before them, as one message."""
        if body.get("instructions"):
            yield {"role": "system", "content": body["instructions"]}
        items = body.get("input") or ()
        if isinstance(items, str):
            items = [{"role": "user", "content": items}]
        assistant: Message = {}  # the message that still grows
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
                yield _result(item.get("call_id"), item.get("output"))
            elif kind == "message":
                role = "system" if item.get("role") in {"system", "developer"} else "user"
                text = text_in(item.get("content"), "\n\n")
                yield {"role": role, "content": text}
        if assistant:
            yield assistant

    @staticmethod
    def _add(assistant: Message, item: Json) -> None:
        if item.get("role") == "assistant":
            assistant["content"] += text_in(item.get("content"), "\n\n")
            return
        arguments = item.get("arguments") or "{}"
        call = tool_call(item.get("call_id"), item.get("name"), arguments)
        assistant.setdefault("tool_calls", []).append(call)

    def begun(self) -> bytes:
        return _event("response.created", response=self._response("in_progress", []))

    def _opening(self) -> bytes:
        return _event(
            "response.output_item.added",
            output_index=0,
            item=self._message(""),
        )

    def _delta(self, text: str) -> bytes:
        return _event(
            "response.output_text.delta",
            delta=text,
            item_id=f"msg-{self.ident}",
            output_index=0,
            content_index=0,
        )

    def ended(self, turn: Turn) -> Iterator[bytes]:
        response = self.whole(turn)
        for at, item in enumerate(response["output"]):
            yield _event("response.output_item.done", output_index=at, item=item)
        yield _event("response.completed", response=response)

    def failed(self, message: str) -> bytes:
        error = {"code": "server_error", "message": message}
        response = self._response("failed", []) | {"error": error}
        return _event("response.failed", response=response)

    def whole(self, turn: Turn) -> Json:
        items = []
        if turn.text:
            items.append(self._message(turn.text))
        for at, call in enumerate(turn.calls):
            item = _item("function_call", f"fc-{self.ident}-{at}")
            item |= {
                "call_id": call.id,
                "name": call.name,
                "arguments": call.raw,
            }
            items.append(item)
        total = turn.usage.prompt_tokens + turn.usage.completion_tokens
        usage = _counts(turn.usage) | {"total_tokens": total}
        return self._response("completed", items, usage)

    def _message(self, text: str) -> Message:
        part = {
            "type": "output_text",
            "text": text,
            "annotations": [],
        }
        message = _item("message", f"msg-{self.ident}")
        content = [part] if text else []
        return message | {"role": "assistant", "content": content}

    def _response(
        self, status: str, items: Sequence[Json], usage: Json | None = None
    ) -> dict[str, Any]:
        return {
            "id": self.ident,
            "object": "response",
            "created_at": 0,
            "model": self.model,
            "status": status,
            "output": items,
            "usage": usage,
        }


def _item(kind: str, ident: str) -> Message:
    return {
        "type": kind,
        "id": ident,
        "status": "completed",
    }
