"""A streamed reply, put together from its raw server-sent events. Pure.

The tool-call deltas are joined by us and not by the SDK, so that what a server's parser lost or
repeated stays visible in `Turn.raw`.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from agenteval.core.trial import Turn, Usage
from agenteval.models.wire import ReplyError, excerpt, tool_call, usage


@dataclass(slots=True)
class _Call:
    name: str = ""
    id: str = ""
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Reply:
    text: list[str] = field(default_factory=list)
    calls: dict[int, _Call] = field(default_factory=dict)
    finish_reason: str = ""
    usage: Usage = field(default_factory=Usage)

    def add(self, event: Any) -> None:
        if "error" in event:  # llama.cpp answers 200 and then sends its 500 as an event
            raise ReplyError(f"an error in the stream: {excerpt(json.dumps(event['error']))}")
        if event.get("usage"):
            self.usage = usage(event["usage"])
        for choice in event.get("choices") or []:
            delta = choice.get("delta") or {}
            self.text.append(delta.get("content") or "")
            for part in delta.get("tool_calls") or []:
                self._add_call(part)
            self.finish_reason = choice.get("finish_reason") or self.finish_reason

    def _add_call(self, part: Any) -> None:
        call = self.calls.setdefault(part.get("index") or 0, _Call())
        function = part.get("function") or {}
        call.id = call.id or part.get("id") or ""
        call.name += function.get("name") or ""
        arguments = function.get("arguments")
        # Some servers put a parsed object where the protocol has text.
        call.arguments.append(
            arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else ""
        )


def parse_stream(body: str, seconds: float) -> Turn:
    """The turn in a whole event stream.

    Raises ReplyError when an event is no JSON, carries an error, or the stream stops before the
    reply is finished.
    """
    reply = _Reply()
    try:
        for line in body.splitlines():
            payload = line.removeprefix("data:").strip() if line.startswith("data:") else ""
            if payload and payload != "[DONE]":
                reply.add(json.loads(payload))
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        raise ReplyError(f"a broken event in the stream: {excerpt(payload)}") from error
    if not reply.finish_reason:
        raise ReplyError(f"the stream ended in the middle of a reply: {excerpt(body[-160:])}")
    calls = [reply.calls[index] for index in sorted(reply.calls)]
    return Turn(
        text="".join(reply.text),
        calls=tuple(
            tool_call(call.name, "".join(call.arguments), call.id, position)
            for position, call in enumerate(calls)
        ),
        finish_reason=reply.finish_reason,
        usage=reply.usage,
        raw=body,
        seconds=seconds,
    )
