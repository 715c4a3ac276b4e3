"""One request of a program over HTTP, whatever it speaks, to a served model and back.

Chat completions are passed on byte for byte as they come; messages and responses are translated,
piece by piece.
"""

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

import msgspec

from agenteval.core.chunk import Call, Choice, Chunk, ReplyError, Said, read_chunk
from agenteval.core.plain import decoded, legible
from agenteval.harness import anthropic_wire, openai_responses
from agenteval.harness.http_server import JSON, STREAM, Answer, Request, UnreadableError
from agenteval.harness.recipes import CHAT, MODEL

Json = Mapping[str, Any]
_DECODER = msgspec.json.Decoder()


class Teller(Protocol):
    """Tells a chat completion in another dialect."""

    def feed(self, chunk: Chunk) -> Iterator[bytes]: ...

    def ended(self) -> Iterator[bytes]: ...

    def whole(self, reply: Chunk) -> Json: ...


@dataclass(frozen=True, slots=True)
class Spoken:
    """A dialect: how its path ends, and its two directions; none where nothing is to be done."""

    name: str
    path: str
    to_chat: Callable[[Json], dict[str, Any]] = dict
    teller: Callable[[str, str], Teller] | None = None


SPOKEN: Final = (
    Spoken(CHAT, "/chat/completions"),
    Spoken("messages", "/messages", anthropic_wire.to_chat, anthropic_wire.Stream),
    Spoken("responses", "/responses", openai_responses.to_chat, openai_responses.Stream),
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a program wants of its model: `body` as it came, `chat` the same in chat completions."""

    spoken: Spoken
    body: Json
    chat: dict[str, Any]

    @property
    def messages(self) -> list[Json]:
        return cast("list[Json]", self.chat["messages"])


def wanted(request: Request) -> Wanted | None:
    """None for what asks no model. Raises UnreadableError for a body that is no such request."""
    spoken = next((one for one in SPOKEN if request.path.endswith(one.path)), None)
    if spoken is None or request.method != "POST":
        return None
    try:
        body = _body_of(request.body)
        chat = spoken.to_chat(body)
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise UnreadableError(f"no request of {spoken.name}: {error}") from error
    if not isinstance(chat.get("messages"), list) or not chat["messages"]:
        raise UnreadableError(f"no request of {spoken.name}: it has no messages")
    return Wanted(spoken, body, chat)


def _body_of(sent: bytes) -> Json:
    """With U+FFFD for half a character, which a model wrote and its program sends back."""
    try:
        return cast("Json", _DECODER.decode(sent))
    except msgspec.DecodeError:
        read = json.loads(decoded(sent), strict=False)
        return cast("Json", json.loads(legible(json.dumps(read, ensure_ascii=False))))


@dataclass(slots=True)
class Passage:
    """The way of one reply back to the program, as the bytes of the served model come."""

    answer: Answer
    wanted: Wanted
    _teller: Teller | None = None
    _rest: bytes = b""
    _whole: list[bytes] = field(default_factory=list)
    _kind: str = ""

    def __post_init__(self) -> None:
        if self.wanted.spoken.teller:
            model = str(self.wanted.body.get("model", ""))
            self._teller = self.wanted.spoken.teller(f"reply-{secrets.token_hex(8)}", model)

    async def write(self, part: bytes) -> None:
        if not self._kind:
            self._kind = JSON if part.lstrip()[:1] == b"{" else STREAM
            if self._teller is None or self._kind == STREAM:
                await self.answer.begin(self._kind)
        if self._teller is None:
            await self.answer.write(part)
        elif self._kind == JSON:
            self._whole.append(part)
        else:
            *lines, self._rest = (self._rest + part).split(b"\n")
            await self._send(_told(self._teller, lines))

    async def end(self) -> None:
        """The reply has come whole, and was read as one."""
        if self._teller is None:
            return
        if self._kind == STREAM:
            await self._send(_told(self._teller, [self._rest]))
        else:
            reply = read_chunk(b"".join(self._whole))  # as it was read once already
            if not self.wanted.body.get("stream"):
                await self.answer.whole(self._teller.whole(reply))
                return
            await self.answer.begin(STREAM)  # as was asked for, whatever the server did
            await self._send(self._teller.feed(_as_piece(reply)))
        await self._send(self._teller.ended())

    async def _send(self, events: Iterable[bytes]) -> None:
        if told := b"".join(events):
            await self.answer.write(told)


def _as_piece(reply: Chunk) -> Chunk:
    """A reply that came whole, as a stream with one event has it."""
    first = (reply.choices or [Choice()])[0]
    said = first.message or Said()
    calls = [Call(at, call.id, call.function) for at, call in enumerate(said.called)]
    piece = Said(said.content, said.reasoning_content, said.reasoning, calls)
    return Chunk([Choice(delta=piece, finish_reason=first.finish_reason)], reply.usage)


def _told(teller: Teller, lines: Iterable[bytes]) -> Iterator[bytes]:
    """What is no chunk is not told: whose fault it is, the reading of the reply will say."""
    for line in lines:
        payload = line[5:].strip() if line.startswith(b"data:") else b""
        if payload and payload != b"[DONE]":
            with suppress(ReplyError):
                yield from teller.feed(read_chunk(payload))


async def beside(request: Request, answer: Answer) -> None:
    """What programs ask beside a model: which there are, how long a prompt is, is anybody there."""
    if request.path.endswith("/models"):
        await answer.whole({"object": "list", "data": [{"id": MODEL, "object": "model"}]})
    elif request.path.endswith("/count_tokens"):
        await answer.whole({"input_tokens": len(request.body) // 4})
    else:
        await answer.whole({}, 200 if request.method == "HEAD" else 404)


def spoken_once(call: tuple[str, str, str] | None, *, stream: bool) -> bytes:
    """A reply of a model that we play: one call (id, name, arguments), or a last word."""
    said: dict[str, Any] = {"role": "assistant", "content": None if call else "Done."}
    if call:
        function = {"name": call[1], "arguments": call[2]}
        said["tool_calls"] = [{"index": 0, "id": call[0], "type": "function", "function": function}]
    choice = {"index": 0, "finish_reason": "tool_calls" if call else "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    reply = {"id": f"reply-{call[0] if call else 'last'}", "created": 1, "model": MODEL}
    reply |= {"usage": usage}
    if not stream:
        whole = reply | {"object": "chat.completion", "choices": [choice | {"message": said}]}
        return json.dumps(whole).encode()
    chunk = reply | {"object": "chat.completion.chunk", "choices": [choice | {"delta": said}]}
    return f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
