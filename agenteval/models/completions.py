"""A simulated reply as a chat completion, whole or as server-sent events. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from agenteval.config.arms import spoken
from agenteval.core.call import ToolCall
from agenteval.core.prompt.profile import PARAMETERS
from agenteval.models.player import PastCall, Reply
from agenteval.models.slips import Written

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


class _StreamOptions(BaseModel):
    include_usage: bool = False


class _Function(BaseModel):
    name: str
    arguments: str | dict[str, Any] | None = None


class _Tool(BaseModel):
    id: str | None = None
    function: _Function


class _OfferedFunction(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str


class _Offered(BaseModel):
    function: _OfferedFunction


class _Message(BaseModel):
    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_Tool] | None = None
    tool_call_id: str | None = None


class ChatRequest(BaseModel):
    """The fields of a request that matter here; others are accepted and ignored, as servers do."""

    model: str
    messages: Annotated[list[_Message], Field(min_length=1)]
    tools: list[_Offered] = []
    stream: bool = False
    stream_options: _StreamOptions | None = None
    seed: int | None = None


class Speech:
    """Between our own tools, which players know, and those that a request offers."""

    def __init__(self, schemas: Sequence[Mapping[str, Any]]) -> None:
        offered = {schema["function"]["name"] for schema in schemas}
        self._profile = spoken(schemas)
        self.tools = tuple(
            tool for tool, form in self._profile.forms.items() if form.name in offered
        )
        parameters = {one["function"]["name"]: one["function"].get("parameters") for one in schemas}
        self._wanted = {name: _required(table or {}) for name, table in parameters.items()}

    def translate_past(self, past: PastCall) -> PastCall:
        """An earlier call of the conversation, in our own words."""
        call = ToolCall("", past.name, "", past.arguments)
        own_call = self._profile.as_own_call(call, self.tools)
        if own_call is None:
            return past
        filled = self._wanted.get(past.name, {}).keys() - PARAMETERS[own_call.name]
        if not filled or own_call.arguments is None:
            return replace(past, name=own_call.name, arguments=own_call.arguments)
        arguments = {key: value for key, value in own_call.arguments.items() if key not in filled}
        return replace(past, name=own_call.name, arguments=arguments)

    def translate_reply(self, reply: Reply) -> Reply:
        return replace(reply, calls=tuple(self._translate_call(call) for call in reply.calls))

    def _translate_call(self, call: Written) -> Written:
        if call.name not in self.tools:
            return call
        try:
            arguments = json.loads(call.arguments)
        except json.JSONDecodeError:  # meant to be broken
            return Written(self._profile.forms[call.name].name, call.arguments)
        name, written = self._profile.written(call.name, arguments)
        return Written(name, json.dumps(self._wanted.get(name, {}) | json.loads(written)))


# What is written for a parameter that a harness requires and our own tools lack.
_FILLED = {"string": "as the task says", "boolean": False, "integer": 1, "number": 1}


def _required(parameters: Mapping[str, Any]) -> dict[str, Any]:
    kinds = {
        name: parameters.get("properties", {}).get(name, {}).get("type")
        for name in parameters.get("required", ())
    }
    return {name: _FILLED[kind] for name, kind in kinds.items() if kind in _FILLED}
