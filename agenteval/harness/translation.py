"""One request of a program over HTTP, whatever it speaks, to a served model and back.

Chat completions are passed on byte for byte as they come; messages and responses are translated,
piece by piece.
"""

import asyncio
import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

import msgspec

from agenteval.harness import anthropic_wire, openai_responses
from agenteval.harness.recipes import MODEL

LONGEST_HEAD, LONGEST_BODY = 1 << 16, 64 << 20  # bytes
_WORDS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 503: "Unavailable"}
STREAM, JSON = "text/event-stream", "application/json"


class UnreadableError(ValueError):
    """No request that could be answered."""


@dataclass(frozen=True, slots=True)
class Request:
    """`path` is without its query; names of headers are in small letters."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """The request of a connection; None when it closes before one. Raises UnreadableError."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError as error:
        raise UnreadableError("its head has no end") from error
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise UnreadableError(f"no request line: {first[:80]}")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    path = words[1].partition("?")[0]
    try:
        body = await _body(reader, headers)
    except (asyncio.IncompleteReadError, ValueError) as error:
        raise UnreadableError(f"{words[0]} {path}: its body does not come: {error}") from error
    return Request(words[0], path, headers, body)


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(_sized(int(headers.get("content-length", 0))))
    body = b""
    while size := int((await reader.readline()).partition(b";")[0], 16):
        body += await reader.readexactly(_sized(size + len(body)) - len(body))
        await reader.readline()
    await reader.readline()
    return body


def _sized(size: int) -> int:
    if not 0 <= size <= LONGEST_BODY:
        raise ValueError(f"{size} bytes")
    return size


@dataclass(slots=True)
class Answer:
    """What goes back. The body ends with the connection. `gone`: the program has hung up."""

    writer: asyncio.StreamWriter
    begun: bool = False
    gone: bool = False

    async def begin(self, kind: str, status: int = 200) -> None:
        self.begun = True
        head = f"HTTP/1.1 {status} {_WORDS.get(status, 'Error')}\r\ncontent-type: {kind}\r\n"
        await self.write(f"{head}connection: close\r\n\r\n".encode())

    async def write(self, part: bytes) -> None:
        try:
            self.writer.write(part)
            await self.writer.drain()
        except (ConnectionError, RuntimeError):
            self.gone = True

    async def whole(self, content: object, status: int = 200) -> None:
        await self.begin(JSON, status)
        await self.write(content if isinstance(content, bytes) else json.dumps(content).encode())

    async def refuse(self, status: int, said: str) -> None:
        """An error as all three dialects know it; nothing where a reply is under way."""
        if not self.begun:
            error = {"message": said, "type": "invalid_request_error", "code": status}
            await self.whole({"type": "error", "error": error}, status)


Json = Mapping[str, Any]
_DECODER, _ENCODER = msgspec.json.Decoder(), msgspec.json.Encoder()
CHAT: Final = "chat completions"


class Teller(Protocol):
    """Tells a chat completion in another dialect."""

    def feed(self, chunk: Json) -> Iterator[bytes]: ...

    def ended(self) -> Iterator[bytes]: ...

    def whole(self, reply: Json) -> Json: ...


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
        body = _DECODER.decode(request.body)
        chat = spoken.to_chat(body)
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError) as error:
        raise UnreadableError(f"no request of {spoken.name}: {error}") from error
    if not isinstance(chat.get("messages"), list) or not chat["messages"]:
        raise UnreadableError(f"no request of {spoken.name}: it has no messages")
    return Wanted(spoken, body, chat)


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
        """The reply has come whole."""
        if self._teller is None:
            return
        if self._kind == JSON:
            reply = _DECODER.decode(b"".join(self._whole))
            await self.answer.whole(_ENCODER.encode(self._teller.whole(reply)))
        else:
            await self._send(_told(self._teller, [self._rest]))
            await self._send(self._teller.ended())

    async def _send(self, events: Iterable[bytes]) -> None:
        if told := b"".join(events):
            await self.answer.write(told)


def _told(teller: Teller, lines: Iterable[bytes]) -> Iterator[bytes]:
    for line in lines:
        payload = line[5:].strip() if line.startswith(b"data:") else b""
        if payload and payload != b"[DONE]":
            yield from teller.feed(_DECODER.decode(payload))


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
