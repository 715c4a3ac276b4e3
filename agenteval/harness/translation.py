"""One request of a program over HTTP, in any dialect, to a served model and back.

Chat completions are passed on byte for byte as they come. Messages and responses are written from
the turn that is kept, so that a program gets the calls of the record: words as they come, calls at
the end.
"""

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

import msgspec

from agenteval.harness import anthropic_wire, openai_responses
from agenteval.harness.http import JSON, STREAM, Answer, Request, UnreadableError
from agenteval.harness.recipes import CHAT, MODEL
from agenteval.replies.arrival import BYTE_ORDER, ReplyError, read_chunk
from agenteval.trial.call import ToolCall
from agenteval.trial.text import decoded, legible
from agenteval.trial.trial import Turn, Usage

Json = Mapping[str, Any]
_DECODER = msgspec.json.Decoder()
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


class Teller(Protocol):
    """A writer of a reply in another dialect: a stream piece by piece, or `whole`."""

    def begun(self) -> Iterator[bytes]: ...

    def words(self, text: str) -> Iterator[bytes]:
        """The next words; "" for a piece of the reply that has none."""
        ...

    def ended(self, turn: Turn) -> Iterator[bytes]:
        """Yield what follows the words, all of which were sent."""
        ...

    def failed(self, said: str) -> Iterator[bytes]:
        """The end of a reply that an error of the server's broke off."""
        ...

    def whole(self, turn: Turn) -> Json: ...


@dataclass(frozen=True, slots=True)
class _Spoken:
    """A dialect: how its path ends, and its two directions; none where nothing is to be done."""

    name: str
    path: str
    to_chat: Callable[[Json], dict[str, Any]] = dict
    teller: Callable[[str, str], Teller] | None = None


SPOKEN: Final = (
    _Spoken(CHAT, "/chat/completions"),
    _Spoken("messages", "/messages", anthropic_wire.to_chat, anthropic_wire.Stream),
    _Spoken("responses", "/responses", openai_responses.to_chat, openai_responses.Stream),
)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A program's request to its model: `body` as it came, `chat` the same in chat completions."""

    spoken: _Spoken
    body: Json
    chat: dict[str, Any]

    @property
    def messages(self) -> list[Json]:
        return cast("list[Json]", self.chat["messages"])


def parse_request(request: Request) -> ModelRequest | None:
    """Return the request to a model; None if it is none.

    Raises UnreadableError for a body that is no such request.
    """
    spoken = next((one for one in SPOKEN if request.path.endswith(one.path)), None)
    if spoken is None or request.method != "POST":
        return None
    try:
        body = _body_of(request.body)
        chat = spoken.to_chat(body)
        msgspec.convert(chat, _Chat)
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise UnreadableError(f"no request of {spoken.name}: {error}") from error
    if not chat["messages"]:
        raise UnreadableError(f"no request of {spoken.name}: it has no messages")
    return ModelRequest(spoken, body, chat)


def _body_of(sent: bytes) -> Json:
    """With U+FFFD for half a character, which a model wrote and its program sends back."""
    try:
        return cast("Json", _DECODER.decode(sent))
    except msgspec.DecodeError:
        read = json.loads(decoded(sent), strict=False)
        return cast("Json", json.loads(legible(json.dumps(read, ensure_ascii=False))))


@dataclass(slots=True)
class Passage:
    """The route of one reply back to the program, as the bytes of the served model come."""

    answer: Answer
    request: ModelRequest
    _teller: Teller | None = None
    _rest: bytes = b""
    _sent_words: list[str] = field(default_factory=list)  # words
    _is_broken: bool = False  # by an event that is no line; what follows is told at the end
    _kind: str = ""

    def __post_init__(self) -> None:
        if self.request.spoken.teller:
            model = str(self.request.body.get("model", ""))
            self._teller = self.request.spoken.teller(f"reply-{secrets.token_hex(8)}", model)

    @property
    def _streams(self) -> bool:
        """True if the program asked for a stream, whatever the server does."""
        return bool(self.request.body.get("stream"))

    async def write(self, part: bytes) -> None:
        if self._teller is None:
            await self._pass_on(part)
        elif self._streams and not self._is_broken:
            *lines, self._rest = (self._rest + part).replace(b"\r", b"\n").split(b"\n")
            try:
                for words in _words(lines):
                    await self._speak(self._teller, words)
            except ReplyError:
                self._is_broken = True

    async def _pass_on(self, part: bytes) -> None:
        if not self._kind:
            self._kind = JSON if part.lstrip()[:1] == b"{" else STREAM
            await self.answer.begin(self._kind)
        await self.answer.write(part)

    async def end(self, turn: Turn) -> None:
        """The reply has come whole, and was read as this turn."""
        if self._teller is None:
            return
        if not self._streams:
            await self.answer.whole(self._teller.whole(turn))
            return
        told = legible("".join(self._sent_words))
        if turn.text != told and turn.text.startswith(told):
            await self._speak(self._teller, turn.text[len(told) :])
        await self._send(self._teller, self._teller.ended(turn))

    async def refuse(self, message: str) -> None:
        """The served model's server answered with an error, in the place of a reply or in one."""
        if not self.answer.begun:
            await self.answer.refuse(500, message)
        elif self._teller:
            await self._send(self._teller, self._teller.failed(message))
        elif self._kind == STREAM:
            error = json.dumps({"error": {"message": message, "code": 500}})
            await self.answer.write(f"\n\ndata: {error}\n\n".encode())  # a line may be begun

    async def _speak(self, teller: Teller, words: str) -> None:
        self._sent_words.append(words)
        await self._send(teller, teller.words(words))

    async def _send(self, teller: Teller, events: Iterable[bytes]) -> None:
        content = b"".join(events)
        if not self.answer.begun:
            await self.answer.begin(STREAM)
            content = b"".join(teller.begun()) + content
        if content:
            await self.answer.write(content)


def _words(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield the words of each event of the reply.

    Raises ReplyError at one that is no chunk by itself.
    """
    for line in (one.removeprefix(BYTE_ORDER.encode()) for one in lines):
        payload = line[5:].strip() if line.startswith(b"data:") else b""
        if payload and payload != b"[DONE]":
            for choice in read_chunk(payload).choices or ():
                if not choice.index:  # one was asked for
                    yield choice.delta.words if choice.delta else ""


async def answer_other_request(request: Request, answer: Answer) -> None:
    """Answer requests other than for a reply: which models there are, how long a prompt is."""
    if request.path.endswith("/models"):
        await answer.whole({"object": "list", "data": [{"id": MODEL, "object": "model"}]})
    elif request.path.endswith("/count_tokens"):
        await answer.whole({"input_tokens": len(request.body) // 4})
    else:
        await answer.whole({}, 200 if request.method == "HEAD" else 404)


async def say_once(way: Passage, call: tuple[str, str, str] | None) -> None:
    """Reply as a model that we play: with one call (id, name, arguments), or a last word."""
    stream = bool(way.request.chat.get("stream"))
    await way.write(_spoken(call, stream=stream))
    calls = (ToolCall(*call, _object(call[2])),) if call else ()
    words, end = ("", "tool_calls") if call else (_LAST, "stop")
    await way.end(Turn(words, calls, end, Usage(1, 1), "", 0.0))


def _object(arguments: str) -> Json | None:
    """None for what is none: we write such, to see what a program does with it."""
    try:
        read = json.loads(arguments)
    except ValueError:
        return None
    return read if isinstance(read, Mapping) else None


def _spoken(call: tuple[str, str, str] | None, *, stream: bool) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": None if call else _LAST}
    if call:
        function = {"name": call[1], "arguments": call[2]}
        message["tool_calls"] = [
            {"index": 0, "id": call[0], "type": "function", "function": function}
        ]
    choice = {"index": 0, "finish_reason": "tool_calls" if call else "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    reply = {"id": f"reply-{call[0] if call else 'last'}", "created": 1, "model": MODEL}
    reply |= {"usage": usage}
    if not stream:
        whole = reply | {"object": "chat.completion", "choices": [choice | {"message": message}]}
        return json.dumps(whole).encode()
    chunk = reply | {"object": "chat.completion.chunk", "choices": [choice | {"delta": message}]}
    return f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
