"""The bytes of replies: their transport, and a streamed reply put together as it comes.

aiohttp carries bytes there and back, and every body is bounded. It parses HTTP in C: a streamed
reply takes half the CPU that httpx's own transport takes.

The tool-call deltas of raw server-sent events are joined by us and not by the SDK, so that what a
server's parser lost or repeated stays visible.
"""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import aiohttp

from agenteval.classes.malformed import read_arguments
from agenteval.errors import Cause, InfrastructureError, UnservedError
from agenteval.models.failures import broken_off, decode_body, error_in, refused_within
from agenteval.models.request import read_reply, readable
from agenteval.replies.arrival import (
    BYTE_ORDER,
    LEGACY,
    REPEATED,
    Call,
    Choice,
    Event,
    Events,
    ReplyError,
    Said,
    argument_text,
    usage,
)
from agenteval.trial.call import Received, ReceivedCall
from agenteval.trial.recovery import RUNAWAY, repeated
from agenteval.trial.tally import generated, stretch
from agenteval.trial.text import excerpt
from agenteval.trial.trial import Timing, Turn, Usage, timing_of

LARGEST_BODY = 32 << 20  # bytes; a stream of 100,000 tokens has 25 MB


class BodyError(Exception):
    """A body that is not read, or not to its end."""


FAILURES = (aiohttp.ClientError, BodyError)


class Reply:
    """A reply whose head has come; of its body at most `largest` bytes are read."""

    def __init__(self, response: aiohttp.ClientResponse, largest: int) -> None:
        self._response, self._left, self._largest = response, largest, largest
        self.status = response.status

    def header(self, name: str) -> str:
        return self._response.headers.get(name, "")

    @property
    def ended(self) -> bool:
        return self._response.content.at_eof()

    async def part(self) -> bytes:
        """Return the bytes that came since the last part; b"" at the end."""
        content = self._response.content
        try:
            part = await content.readany()
        except aiohttp.ClientError:
            part = content._read_nowait(-1)  # noqa: SLF001 -- what came before, which it keeps back
            if not part:
                raise
        self._left -= len(part)
        if self._left < 0:
            raise BodyError(f"a reply of over {self._largest} bytes")
        return part

    async def whole(self) -> bytes:
        parts = []
        while part := await self.part():
            parts.append(part)
        return b"".join(parts)

    def close(self) -> None:
        self._response.release()  # a connection whose body has not ended is closed


class Transport:
    """HTTP connections to one model server; llama.cpp gets a new one for each request.

    llama.cpp promises keep-alive in the head of a stream and closes the connection after it, so
    that the next request on it would be lost. The caller limits how long a reply may take:
    aiohttp's own limit between two reads would be set again for each, a tenth of a chunk's cost.
    """

    def __init__(
        self,
        headers: Mapping[str, str],
        *,
        connect: float | None = None,
        largest: int = LARGEST_BODY,
    ) -> None:
        self._headers = {**headers, "accept-encoding": "identity"}
        self._connect = connect
        self._largest = largest
        self._session: aiohttp.ClientSession | None = None
        self._hangs_up = False

    async def send(self, url: str, body: bytes | None = None) -> Reply:
        """Post the body, or get what is at the URL if there is none."""
        response = await self._opened().request(
            "GET" if body is None else "POST",
            url,
            headers={"connection": "close"} if self._hangs_up else None,
            data=body,
            allow_redirects=False,
        )
        encoding = response.headers.get("content-encoding", "")
        if encoding.strip().lower() not in {"", "identity"}:
            response.close()
            # A bound on its size would not hold.
            raise BodyError("a compressed reply, though none was asked for")
        server = response.headers.get("server", "")
        self._hangs_up = server.startswith("llama.cpp")
        return Reply(response, self._largest)

    def _opened(self) -> aiohttp.ClientSession:
        """The session; it belongs to the loop that runs now."""
        if self._session is None:
            # Proxies of the environment are for the internet; a served model is on the user's net.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect),
                auto_decompress=False,
                trust_env=False,
            )
        return self._session

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()


def cause(error: BaseException) -> str:
    """Return the innermost reason, which says more than its wrappers; a timeout stays itself."""
    while error.__cause__ is not None and not isinstance(error.__cause__, TimeoutError):
        error = error.__cause__
    said = str(error).removeprefix("400, message:")  # aiohttp's parser: no status of the server's
    return " ".join(said.split()) or type(error).__name__


def failed(url: str, error: Exception, *, begun: bool) -> InfrastructureError:
    """Classify the error of a connection; `begun` means that the head of a reply had come."""
    words = f"{url}: {cause(error)}"
    match error:
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            return UnservedError(words, Cause.UNREACHABLE)
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError() if not begun:
            return UnservedError(words, Cause.LOST)
        case (
            aiohttp.ServerDisconnectedError()
            | aiohttp.ClientOSError()
            | aiohttp.ClientPayloadError()
        ):
            return InfrastructureError(words, Cause.LOST)
        case _:
            return InfrastructureError(words, Cause.BAD_REPLY)


REPEATS = "repeats"  # the finish reason of a reply that we stopped reading
_ERROR = re.compile(rb'\{\s*"error"\s*:\s*"')
LOOK_EVERY = 1000  # deltas, each about a token
LOOKS = 100  # how often a call may be parsed to see if it is whole; each time reads all of it


@dataclass(slots=True)
class _Call:
    id: str = ""
    names: list[str] = field(default_factory=list)
    named: int = 0  # characters of them
    arguments: list[str] = field(default_factory=list)
    as_object: bool = False
    looks: int = 0

    def read_arguments(self) -> object:
        self.looks += 1
        if self.looks > LOOKS:
            return None
        return read_arguments("".join(self.arguments))


@dataclass(slots=True)
class StreamReader:
    """The reader of a reply's bytes, as they come."""

    _raw: list[bytes] = field(default_factory=list)
    _events: Events = field(default_factory=Events)
    _arrivals: list[float] = field(default_factory=list)
    _text: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _calls: list[_Call] = field(default_factory=list)
    _open: dict[int, _Call] = field(default_factory=dict)  # by index
    _finish_reason: str = ""
    _usage: dict[str, object] | None = None
    _model: str = ""
    _thought_in: str = ""
    _legacy: bool = False
    _repeats: str = ""
    _unread: int = 0  # deltas since the end was last looked at for a passage without end

    def feed(self, part: bytes, at: float) -> None:
        """Take in a part of the reply that came `at` seconds after the request.

        Raises ReplyError for an event that is no JSON, RefusedError for one that is an error.
        """
        self._raw.append(part)
        for event in self._events.feed(part):
            self._take(event, at)

    @property
    def done(self) -> bool:
        """Return True once `[DONE]` has come, or nothing more is to be read."""
        return self._events.done

    def _take(self, event: Event, at: float) -> None:
        chunk, payload = event.chunk, event.payload
        if chunk is None:
            raise _broken_event(payload)
        # llama.cpp answers 200 and then sends its 500 as an event
        if fault := error_in(chunk, payload):
            raise refused_within(fault, begun=bool(self._arrivals))
        self._usage = chunk.usage or self._usage
        self._model = chunk.model or self._model
        for choice in chunk.choices or ():
            if not choice.index:  # one was asked for
                self._add_choice(choice, at)
        if self._unread >= LOOK_EVERY and not self._finish_reason:
            self._look()

    def _add_choice(self, choice: Choice, at: float) -> None:
        if choice.delta is not None and self._add_delta(choice.delta):
            self._arrivals.append(at)
            self._unread += 1
        if choice.finish_reason:
            self._finish_reason = choice.finish_reason
            if fault := broken_off(choice):
                raise refused_within(fault, begun=True)

    def _look(self) -> None:
        """Stop reading what will never end: the server stops too when we hang up."""
        self._unread = 0
        for tail in self.tails(RUNAWAY):
            self._repeats = self._repeats or repeated(tail, RUNAWAY)
        if self._repeats:
            self._events.done = True
            self._finish_reason = REPEATS

    def _add_delta(self, delta: Said) -> bool:
        """Keep what a delta brings, and say whether that is anything."""
        if words := delta.words:
            self._text.append(words)
        if thought := delta.thought:
            self._reasoning.append(thought)
            self._thought_in = self._thought_in or delta.thought_in
        for part in delta.tool_calls or ():
            self._part(part)
        if delta.function_call is not None:
            self._legacy = True
            self._part(Call(0, "call-0", delta.function_call))
        return bool(words or thought or delta.tool_calls or delta.function_call)

    def _part(self, part: Call) -> None:
        call = self._call(part)
        call.id = call.id or part.id or ""
        if part.function is not None:
            name = part.function.name or ""
            if len(name) != call.named or name != "".join(call.names):  # some give it in each delta
                call.names.append(name)
                call.named += len(name)
            arguments, as_object = argument_text(part.function.arguments)
            if arguments:
                call.arguments.append(arguments)
            call.as_object |= as_object

    def _call(self, part: Call) -> _Call:
        """Return the call that a part belongs to.

        It goes by the index, but some servers give none or always 0.
        """
        place = part.index or 0  # of some servers every call is the first
        call = self._open.get(place)
        if call is None or _is_another(call, part):
            call = self._open[place] = _Call()
            self._calls.append(call)
        return call

    @property
    def finished(self) -> bool:
        """Return True if the reply itself is whole; the count of its tokens may still come."""
        return bool(self._finish_reason)

    @property
    def pieces(self) -> int:
        """The number of pieces so far: about as many as tokens."""
        return len(self._arrivals)

    def tails(self, count: int) -> Iterator[str]:
        """Yield the last `count` pieces of the text, the reasoning and the newest arguments."""
        arguments = self._calls[-1].arguments if self._calls else []
        for parts in (self._text, self._reasoning, arguments):
            yield "".join(parts[-count:])

    def timing(self) -> Timing | None:
        return timing_of(self._arrivals)

    def raw(self) -> str:
        return decode_body(b"".join(self._raw))

    def _has_whole_calls(self) -> bool:
        """Return True if the stream ended after whole calls.

        Some servers (NIM) give no finish reason then.
        """
        whole = all(call.read_arguments() is not None for call in self._calls)
        return self.done and bool(self._calls) and whole

    def received(self) -> tuple[Received, Usage]:
        """The reply, once everything came. Raises ReplyError when it stops before its end."""
        last = self._arrivals[-1] if self._arrivals else 0.0
        for event in self._events.rest():
            self._take(event, last)
        if not self._finish_reason:
            whole = b"".join(self._raw).removeprefix(BYTE_ORDER.encode())
            if whole.lstrip().startswith((b"{", b"<")):
                return read_reply(whole)  # a document, or a page of a proxy's
            if not self._has_whole_calls():
                within = "a tool call" if self._calls else "a reply"
                last_bytes = b"".join(self._raw[-8:])[-160:]
                tail = excerpt(last_bytes.decode("utf-8", "replace"), 160)
                raise ReplyError(f"the stream ended in the middle of {within}: {tail}")
        used = usage(self._usage)
        received = Received(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            calls=tuple(_received(call, legacy=self._legacy) for call in self._calls),
            finish_reason=self._finish_reason,
            completion_tokens=used.completion_tokens,
            hidden_tokens=used.reasoning_tokens,
            repeats=self._repeats,
            model=self._model,
            thought_in=self._thought_in,
        )
        return readable(received), used


def _broken_event(payload: bytes) -> Exception:
    if _ERROR.match(payload):  # transformers puts the model's line ends into it as they are
        return refused_within(decode_body(payload), begun=True)
    return ReplyError(f"a broken event in the stream: {excerpt(decode_body(payload))}")


def _received(call: _Call, *, legacy: bool) -> ReceivedCall:
    """The call of all its parts; of some gateways each part has all before it once more."""
    raw = "".join(call.arguments)
    name = "".join(call.names)
    mends = []
    if legacy:
        mends.append((LEGACY, name))
    parts = [part for part in call.arguments if part.strip("{")]  # a brace alone is another fault
    grows = all(later.startswith(part) for part, later in pairwise(parts))
    is_repeated = grows and len(parts) > 1 and read_arguments(raw) is None
    if is_repeated and read_arguments(parts[-1]) is not None:
        mends.append((REPEATED, raw))
        raw = parts[-1]
    return ReceivedCall(
        name,
        raw,
        call.id,
        call.as_object,
        mends=tuple(mends),
    )


def _is_another(call: _Call, part: Call) -> bool:
    named = part.function is not None and bool(part.function.name)
    has_place = named and (part.index is None or bool(part.id))
    if has_place and part.id != call.id and not _goes_on(call, part):
        return True
    return _begins_another(call, part, named=named)


def _goes_on(call: _Call, part: Call) -> bool:
    """Return True if a part with another id continues a call.

    Some servers make an id for each part.
    """
    if part.function is None or part.index is None or not call.arguments:
        return False
    text, _ = argument_text(part.function.arguments)
    is_rest = bool(text) and not text.startswith("{")
    return is_rest and call.read_arguments() is None


def _begins_another(call: _Call, part: Call, *, named: bool) -> bool:
    """Return True if a part at the place of a whole call begins another call.

    It does so by a name, if neither has an id, or by another id.
    """
    if part.function is None or not call.arguments:
        return False
    has_ids = bool(call.id or part.id)
    has_other_id = bool(part.id) and part.id != call.id
    may_begin = not has_ids if named else has_other_id
    if not may_begin:
        return False
    text, _ = argument_text(part.function.arguments)
    if not text.startswith("{") or not call.arguments[0].startswith("{"):
        return False
    has_ended = call.arguments[-1].endswith("}")
    return has_ended and (named or bool(call.read_arguments()))


@dataclass(slots=True)
class ServerPace:
    """Implements `protocols.Pace`. A request that is only waited for says nothing yet."""

    tokens: int = 0
    seconds: float = 0.0
    _coming: dict[int, tuple[float, StreamReader]] = field(default_factory=dict)

    @contextmanager
    def reading(self, began: float) -> Iterator[StreamReader]:
        """A reader for the reply to a request that was begun then; it may never be used."""
        reader = StreamReader()
        self._coming[id(reader)] = began, reader
        try:
            yield reader
        finally:
            del self._coming[id(reader)]

    def add(self, turn: Turn) -> None:
        self.tokens += generated(turn)
        self.seconds += turn.seconds

    def stretch(self) -> float:
        now = time.perf_counter()
        tokens, seconds = self.tokens, self.seconds
        for began, reader in self._coming.values():
            if reader.pieces:
                tokens += reader.pieces
                seconds += now - began
        return stretch(tokens, seconds)
