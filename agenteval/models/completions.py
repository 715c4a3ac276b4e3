"""A simulated reply as a chat completion, whole or as server-sent events. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agenteval.models.player import Reply

CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply with what the wire adds. `ident` makes its ids, so equal requests get equal bytes."""

    ident: str
    model: str
    reply: Reply
    prompt_tokens: int

    @property
    def usage(self) -> Mapping[str, Any]:
        said = [self.reply.thought, self.reply.text, *(c.arguments for c in self.reply.calls)]
        thought = len(self.reply.thought) // CHARACTERS_PER_TOKEN
        completion = 1 + sum(map(len, said)) // CHARACTERS_PER_TOKEN
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": completion,
            "total_tokens": self.prompt_tokens + completion,
            "completion_tokens_details": {"reasoning_tokens": thought},
        }

    @property
    def _finish_reason(self) -> str:
        return "tool_calls" if self.reply.calls else "stop"

    def _calls(self) -> list[dict[str, Any]]:
        return [
            {
                "id": f"call_{self.ident}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for index, call in enumerate(self.reply.calls)
        ]

    def _envelope(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self.ident}",
            "object": kind,
            "created": 0,
            "model": self.model,
            "choices": choices,
        }

    def whole(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.reply.text or None}
        if self.reply.thought:
            message["reasoning_content"] = self.reply.thought
        if self.reply.calls:
            message["tool_calls"] = self._calls()
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        return {**self._envelope("chat.completion", [choice]), "usage": self.usage}

    def events(self, *, with_usage: bool) -> Iterator[str]:
        """The stream: role, thought, words, each call's head and arguments in pieces."""
        for delta in self._deltas():
            yield self._event([{"index": 0, "delta": delta, "finish_reason": None}])
        yield self._event([{"index": 0, "delta": {}, "finish_reason": self._finish_reason}])
        if with_usage:
            yield self._event([], usage=self.usage)
        yield "data: [DONE]\n\n"

    def _deltas(self) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": ""}
        if self.reply.thought:
            yield {"reasoning_content": self.reply.thought}
        if self.reply.text:
            yield {"content": self.reply.text}
        for index, call in enumerate(self._calls()):
            arguments = call["function"]["arguments"]
            head = {**call, "function": {**call["function"], "arguments": ""}}
            yield {"tool_calls": [{"index": index, **head}]}
            half = len(arguments) // 2
            for piece in (arguments[:half], arguments[half:]):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def _event(self, choices: list[dict[str, Any]], **more: Any) -> str:
        chunk = {**self._envelope("chat.completion.chunk", choices), **more}
        return f"data: {json.dumps(chunk)}\n\n"
