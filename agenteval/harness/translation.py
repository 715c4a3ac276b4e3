"""One request of a program over HTTP, in any dialect, to a served model and back.

Chat completions are passed on byte for byte as they come. Messages and responses are written from
the turn that is kept, so that a program gets the calls of the record: words as they come, calls at
the end.
"""

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from agenteval.harness.http import JSON, STREAM, Answer, Request, UnreadableError
from agenteval.harness.recipes import CHAT, MODEL
from agenteval.harness.wires import Json, Messages, Responses, Wire, tool_call
from agenteval.replies.arrival import Event, Events
from agenteval.trial.call import ToolCall
from agenteval.trial.text import decoded, legible
from agenteval.trial.trial import Turn, Usage

_LAST = "Done."


class _Message(msgspec.Struct):
    role: str | None = None
    tool_calls: list[dict[str, Any]] | None = None


class _Function(msgspec.Struct):
    name: str
    parameters: dict[str, Any] | None = None


class _Tool(msgspec.Struct):
    function: _Function


class _Chat(msgspec.Struct):
    """The fields of a request that are read here or decide who is to blame; others pass unread."""

    messages: list[_Message]
    tools: list[_Tool] | None = None
    max_tokens: int | float | None = None


# By the end of the path. Chat completions need no translation.
_WIRES: Mapping[str, type[Wire] | None] = {
    "/chat/completions": None,
    Messages.path: Messages,
    Responses.path: Responses,
}


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A program's request to its model: `body` as it came, `chat` the same in chat completions."""

    dialect: str
    wire: type[Wire] | None
    body: Json
    chat: dict[str, Any]

    @property
    def messages(self) -> list[Json]:
        return cast("list[Json]", self.chat["messages"])


def parse_request(request: Request) -> ModelRequest | None:
    """Return the request to a model; None if it is none.

    Raises UnreadableError for a body that is no such request.
    """
    paths = (path for path in _WIRES if request.path.endswith(path))
    path = next(paths, None)
    if path is None or request.method != "POST":
        return None
    wire = _WIRES[path]
    dialect = wire.name if wire else CHAT
    try:
        body = _body_of(request.body)
        chat = wire.to_chat(body) if wire else dict(body)
        msgspec.convert(chat, _Chat)
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise UnreadableError(f"no request of {dialect}: {error}") from error
    if not chat["messages"]:
        raise UnreadableError(f"no request of {dialect}: it has no messages")
    return ModelRequest(dialect, wire, body, chat)


def _body_of(sent: bytes) -> Json:
    """Return the body, with U+FFFD for half a character that a program sends back to us."""
    try:
        return cast("Json", msgspec.json.decode(sent))
    except msgspec.DecodeError:
        read = json.loads(decoded(sent), strict=False)
        text = json.dumps(read, ensure_ascii=False)
        return cast("Json", json.loads(legible(text)))


@dataclass(slots=True)
class Passage:
    """The route of one reply back to the program, as the bytes of the served model come."""

    answer: Answer
    request: ModelRequest
    _writer: Wire | None = None  # None where the bytes pass on as they are
    _events: Events = field(default_factory=Events)
    _sent_words: list[str] = field(default_factory=list)
    # An event was no chunk: the words behind it are sent at the end.
    _is_broken: bool = False
    _kind: str = ""

    def __post_init__(self) -> None:
        if self.request.wire:
            model = str(self.request.body.get("model", ""))
            self._writer = self.request.wire(f"reply-{secrets.token_hex(8)}", model)

    @property
    def _streams(self) -> bool:
        """Return True if the program asked for a stream, whatever the server does."""
        return bool(self.request.body.get("stream"))

    async def write(self, part: bytes) -> None:
        if self._writer is None:
            await self._pass_on(part)
        elif self._streams:
            for event in self._events.feed(part):
                self._is_broken |= event.chunk is None
                if not self._is_broken:
                    await self._speak(self._writer, _words(event))

    async def _pass_on(self, part: bytes) -> None:
        if not self._kind:
            is_object = part.lstrip().startswith(b"{")
            self._kind = JSON if is_object else STREAM
            await self.answer.begin(self._kind)
        await self.answer.write(part)

    async def end(self, turn: Turn) -> None:
        """Send the rest of a reply that has come whole and was read as this turn."""
        if self._writer is None:
            return
        if not self._streams:
            reply = self._writer.whole(turn)
            await self.answer.whole(reply)
            return
        sent = legible("".join(self._sent_words))
        if turn.text != sent and turn.text.startswith(sent):
            rest = turn.text.removeprefix(sent)
            await self._speak(self._writer, rest)
        events = self._writer.ended(turn)
        await self._send(self._writer, events)

    async def refuse(self, message: str) -> None:
        """Send an error that the served model's server gave in the place of a reply, or in one."""
        if not self.answer.begun:
            await self.answer.refuse(500, message)
        elif self._writer:
            event = self._writer.failed(message)
            await self._send(self._writer, [event])
        elif self._kind == STREAM:
            error = {"message": message, "code": 500}
            content = json.dumps({"error": error})
            # The break before it ends a line that the server may have begun.
            await self.answer.write(f"\n\ndata: {content}\n\n".encode())

    async def _speak(self, writer: Wire, words: str) -> None:
        self._sent_words.append(words)
        await self._send(writer, writer.words(words))

    async def _send(self, writer: Wire, events: Iterable[bytes]) -> None:
        content = b"".join(events)
        if not self.answer.begun:
            await self.answer.begin(STREAM)
            content = writer.begun() + content
        if content:
            await self.answer.write(content)


def _words(event: Event) -> str:
    choices = event.chunk.choices if event.chunk else None
    # One was asked for.
    deltas = [choice.delta for choice in choices or () if not choice.index]
    return "".join(delta.words for delta in deltas if delta)


async def answer_other_request(request: Request, answer: Answer) -> None:
    """Answer requests other than for a reply: which models there are, how long a prompt is."""
    if request.path.endswith("/models"):
        model = {"id": MODEL, "object": "model"}
        await answer.whole({"object": "list", "data": [model]})
    elif request.path.endswith("/count_tokens"):
        await answer.whole({"input_tokens": len(request.body) // 4})
    else:
        status = 200 if request.method == "HEAD" else 404
        await answer.whole({}, status)


async def say_once(passage: Passage, call: tuple[str, str, str] | None) -> None:
    """Reply as a model that we play: with one call (id, name, arguments), or a last word."""
    calls: tuple[ToolCall, ...] = ()
    if call:
        ident, name, arguments = call
        calls = (ToolCall(ident, name, arguments, _object(arguments)),)
    turn = Turn(
        text="" if call else _LAST,
        calls=calls,
        finish_reason="tool_calls" if call else "stop",
        usage=Usage(1, 1),
        raw="",
        seconds=0.0,
    )
    is_streamed = bool(passage.request.chat.get("stream"))
    await passage.write(_chat_reply(turn, stream=is_streamed))
    await passage.end(turn)


def _object(arguments: str) -> Json | None:
    """Return the arguments; None for what is no object: a harness is tried with such, too."""
    try:
        value = json.loads(arguments)
    except ValueError:
        return None
    return value if isinstance(value, Mapping) else None


def _chat_reply(turn: Turn, *, stream: bool) -> bytes:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": turn.text or None,
    }
    ident = "last"
    for call in turn.calls:
        ident = call.id
        own_call = tool_call(call.id, call.name, call.raw)
        message["tool_calls"] = [own_call | {"index": 0}]
    choice = {
        "index": 0,
        "finish_reason": turn.finish_reason,
        "delta" if stream else "message": message,
    }
    reply = {
        "id": f"reply-{ident}",
        "created": 1,
        "model": MODEL,
        "usage": {
            "prompt_tokens": 1,
            "completion_tokens": 1,
            "total_tokens": 2,
        },
        "object": "chat.completion.chunk" if stream else "chat.completion",
        "choices": [choice],
    }
    content = json.dumps(reply)
    if stream:
        content = f"data: {content}\n\ndata: [DONE]\n\n"
    return content.encode()
