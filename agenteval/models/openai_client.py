"""A served model, requested with the key and the settings that the openai SDK would send.

Requests and replies are bytes: the SDK's `create` would walk every message of a request, its parser
every piece of a reply, and neither keeps what a server did wrong. Nothing is sent again: a retried
500 can be a model's own mistake, and would flatter it.

A key that a server repeats is removed before anything is kept or passed on.
"""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import Any, Self

import aiohttp

from agenteval.config.models import ModelEntry
from agenteval.config.trust import USUAL_KEY, may_send
from agenteval.errors import Cause, InfrastructureError
from agenteval.models.failures import RefusedError, decode_body, refusal, refused_call, retry_after
from agenteval.models.request import (
    asked_by,
    asked_of,
    read_reply,
    relayed_body,
    request_body,
    turn_of,
)
from agenteval.models.servers import key_of
from agenteval.models.stream import FAILURES, Reply, ServerPace, StreamReader, Transport, failed
from agenteval.protocols import ToolSchema, until
from agenteval.replies.arrival import ReplyError
from agenteval.trial.call import Asked, Received, ReceivedCall
from agenteval.trial.redaction import KnownKeys
from agenteval.trial.run import FIELD
from agenteval.trial.trial import Message, Turn, Usage

Write = Callable[[bytes], Awaitable[None]]
_LEFT_OUT = "(left out: the server repeated its key in this reply)"


async def nowhere(part: bytes) -> None:
    """Discard the bytes of a reply that nobody else reads."""


# The redaction of a key that a server repeats.


def _without_keys(received: Received, keys: KnownKeys) -> Received:
    texts = {name: keys.text(getattr(received, name)) for name in _TEXTS}
    calls = tuple(_call_without_keys(call, keys) for call in received.calls)
    return replace(received, calls=calls, **texts)  # type: ignore[arg-type] # all are texts


_TEXTS = ("text", "reasoning", "finish_reason", "refusal", "repeats", "model")


def _call_without_keys(call: ReceivedCall, keys: KnownKeys) -> ReceivedCall:
    return replace(
        call,
        name=keys.text(call.name),
        raw=keys.json(call.raw),
        id=keys.text(call.id),
        mends=tuple((kind, keys.json(text)) for kind, text in call.mends),
    )


class _RelayedStream:
    """The bytes of a stream on their way to the program of a harness, which get no key either.

    What may be the beginning of a key waits for what comes behind it.
    """

    def __init__(self, keys: KnownKeys, write: Write) -> None:
        self._keys, self._write = keys, write
        self._unread = b""  # may be the beginning of a key
        self._unwritten = b""  # was read; the words in it may be the beginning of a key

    def ready(self, part: bytes) -> bytes:
        """Return the bytes that may be read now; the whole part if nobody else reads the reply."""
        if self._write is nowhere:
            return part
        content = self._keys.content(self._unread + part)
        whole = len(content) - self._keys.begun(content)
        self._unread = content[whole:]
        return content[:whole]

    def rest(self) -> bytes:
        """Return the bytes that may be read at the end."""
        rest, self._unread = self._unread, b""
        return rest

    async def write(self, ready: bytes, reader: StreamReader) -> None:
        """Raises InfrastructureError for a key in pieces, which cannot be taken out of them."""
        if self._write is nowhere:
            return
        self._unwritten += ready
        if not self._keys.forms:
            await self.end()
            return
        longest = 2 * len(self._keys.forms[0])
        ends = [tail[-longest:] for tail in reader.tails(longest)]
        if any(self._keys.text(end) != end for end in ends):
            raise InfrastructureError("the server repeats its key in pieces", Cause.BAD_REPLY)
        contents = [end.encode("utf-8", "surrogateescape") for end in ends]
        if not any(map(self._keys.begun, contents)):
            await self.end()

    async def end(self) -> None:
        content, self._unwritten = self._unwritten, b""
        if content:
            await self._write(content)


COUNT_SECONDS = 3.0  # for the count of tokens behind a whole reply; some hold the connection open
OK = 200  # and what else begins with a 2; a redirect is not followed
GIVEN = {"OPENAI_API_KEY", "OPENAI_BASE_URL"}  # what an entry says itself
LINGER_SECONDS = 1.0  # for the end of a body after `[DONE]`; some servers never send it
_OPEN_HEADERS = ("accept", "connection", "content-type", "user-agent", "x-stainless-")


class OpenAIModel:
    """One model behind an OpenAI-compatible server. Implements `protocols.Model`."""

    def __init__(self, entry: ModelEntry) -> None:
        """Nothing is sent yet. Raises UsageError for a key that cannot be sent."""
        self._entry = entry
        self._url = entry.base_url.rstrip("/")
        headers = _headers(entry)
        self._keys = _keys_in(headers)
        self._transport = Transport(headers, connect=entry.timeouts.connect)
        self._answers = ""  # the model that the first reply that names one names
        self._thought_in = entry.reasoning_field or FIELD
        self.known = False  # whether this model was served, here or at another of its servers
        self._pace = ServerPace()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._transport.aclose()

    async def ask(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        *,
        seed: int,
    ) -> Turn:
        body = request_body(
            self._entry,
            messages,
            tools,
            seed,
            self._thought_in,
        )
        request = asked_of(self._entry, messages, tools)
        return await self._request(
            body,
            request,
            first=messages[-1].role == "user",
        )

    async def _request(
        self,
        body: bytes,
        request: Asked,
        *,
        first: bool,
        write: Write = nowhere,
    ) -> Turn:
        started = time.perf_counter()
        try:
            return self._same(
                await self._answer(
                    body,
                    request,
                    started,
                    write,
                )
            )
        except RefusedError as error:
            received = refused_call(error.said)
            if received is None:
                raise refusal(
                    self._entry,
                    error,
                    first=first,
                    was_served=self.known,
                ) from error
            self.known = True
            return turn_of(
                received,
                request,
                usage=Usage(),
                raw=received.refusal,
                seconds=time.perf_counter() - started,
            )
        except ReplyError as error:
            raise InfrastructureError(f"{self._url}: {error}", Cause.BAD_REPLY) from error
        except FAILURES as error:
            raise failed(self._url, error, begun=True) from error

    async def relay(
        self,
        request: Mapping[str, Any],
        *,
        seed: int,
        write: Write,
    ) -> Turn:
        """Implements `protocols.Relay`."""
        body = relayed_body(self._entry, request, seed)
        relayed = asked_by(self._entry, request)
        return await self._request(body, relayed, first=False, write=write)

    def ended(self, seed: int) -> None:
        """Do nothing: of a trial that has ended nothing is kept here."""

    def stretch(self) -> float:
        """Implements `protocols.Pace`."""
        return self._pace.stretch()

    async def _answer(
        self,
        body: bytes,
        request: Asked,
        started: float,
        write: Write,
    ) -> Turn:
        began = asyncio.get_running_loop().time()

        def allowed() -> float:
            return self._entry.timeouts.request * self.stretch()

        with self._pace.reading(started) as reader:
            try:
                async with until(lambda: began + allowed()):
                    return await self._post(
                        body,
                        request,
                        started,
                        reader,
                        write,
                    )
            except TimeoutError as error:
                message = f"{self._url}: no reply within {round(allowed(), 1):g} s"
                raise InfrastructureError(message, Cause.TIMEOUT) from error
            except Exception as error:
                # What broke may quote what the server sent; an excerpt may cut a key in two.
                self._keys.hide(error)
                raise

    async def _post(
        self,
        body: bytes,
        request: Asked,
        started: float,
        reader: StreamReader,
        write: Write,
    ) -> Turn:
        whole = None  # the body of a reply that is not streamed
        with closing(await self._open(body)) as reply:
            if "json" not in reply.header("content-type").lower():  # some name no type, or text
                relayed = _RelayedStream(self._keys, write)
                seconds = await _streamed(reply, started, reader, relayed)
            else:
                whole = await reply.whole()
                seconds = time.perf_counter() - started
                if whole.lstrip().startswith(b"data:"):  # as Foundry's and LitServe's, called JSON
                    reader.feed(whole, seconds)
            if whole is None or reader.pieces:
                received, usage = reader.received()
            else:
                received, usage = read_reply(whole)
            clean = _without_keys(received, self._keys)
            if whole is not None:
                has_no_key = clean == received
                await write(self._keys.content(whole) if has_no_key else self._json(whole))
        raw = reader.raw() if whole is None else decode_body(whole)
        self._thought_in = self._entry.reasoning_field or clean.thought_in or self._thought_in
        return turn_of(
            clean,
            request,
            usage=usage,
            # A key may be in the bytes in pieces, of as many events: then no byte is kept.
            raw=self._keys.text(raw) if clean == received else _LEFT_OUT,
            seconds=seconds,
            timing=reader.timing() if whole is None else None,
            ended=time.time(),  # noqa: TID251 -- of the wall, for all processes
        )

    async def _open(self, body: bytes) -> Reply:
        """Return the reply whose head has come. Raises InfrastructureError and RefusedError."""
        try:
            reply = await self._transport.send(f"{self._url}/chat/completions", body)
        except (aiohttp.ClientConnectionError, ConnectionError) as error:
            raise failed(self._url, error, begun=False) from error
        if OK <= reply.status < OK + 100:
            return reply
        with closing(reply):
            raise await _refusal(reply)

    def _json(self, whole: bytes) -> bytes:
        r"""Return a body without keys, though a letter of one may be written as `\u0041`."""
        try:
            value = self._keys.value(json.loads(whole))
            return json.dumps(value).encode()
        except (ValueError, RecursionError):
            return self._keys.content(whole)

    def _same(self, turn: Turn) -> Turn:
        """Return the turn, unless another model than before reports that it answered."""
        self.known = True
        self._answers = self._answers or turn.model
        if turn.model and turn.model != self._answers:
            message = f"{self._url}: {turn.model!r} answers, where {self._answers!r} did before"
            raise InfrastructureError(message, Cause.MODEL_CHANGED)
        self._pace.add(turn)
        return turn


def _headers(entry: ModelEntry) -> dict[str, str]:
    """Return the headers of a request: the key, and those that the SDK's settings ask for."""
    key = key_of(entry)
    settings = {name for name in os.environ if name.startswith("OPENAI_")}
    has_settings = bool(settings - GIVEN)
    if not has_settings or not may_send(USUAL_KEY, entry.base_url):  # they may hold a secret
        return {
            "authorization": f"Bearer {key}",
            "accept": "application/json",
            "content-type": "application/json",
            "user-agent": "agenteval",
        }
    from openai import (  # noqa: PLC0415 -- 16 MB and 0.5 s that few need
        DefaultHttpxClient,
        OpenAI,
    )

    # It sends nothing itself. By default it reads all certificates of the system, for 20 ms.
    silent = DefaultHttpxClient(verify=SSLContext(PROTOCOL_TLS_CLIENT))
    with OpenAI(
        base_url=entry.base_url,
        api_key=key,
        http_client=silent,
    ) as sdk:
        headers = sdk.auth_headers | dict(sdk.default_headers)
    texts = {}
    for name, value in headers.items():
        if isinstance(value, str):
            texts[name.lower()] = value
    return texts


def _keys_in(headers: Mapping[str, str]) -> KnownKeys:
    """Return the secrets in these headers: the key, and headers from the SDK's settings."""
    own = [value for name, value in headers.items() if not name.startswith(_OPEN_HEADERS)]
    without_scheme = [value.partition(" ")[2] for value in own]
    return KnownKeys.of(own + without_scheme)


async def _refusal(reply: Reply) -> RefusedError:
    words = decode_body(await reply.whole())
    waits = retry_after(reply.header("retry-after"), reply.header("retry-after-ms"))
    return RefusedError(reply.status, words, waits)


async def _streamed(
    body: Reply,
    started: float,
    reader: StreamReader,
    relayed: _RelayedStream,
) -> float:
    """Read the reply to its end, and return the seconds that it took."""

    async def take(ready: bytes) -> float:
        at = time.perf_counter() - started
        reader.feed(ready, at)
        await relayed.write(ready, reader)
        return at

    while not reader.finished and not reader.done and (part := await body.part()):
        await take(relayed.ready(part))
    seconds = time.perf_counter() - started
    # The reply is whole, but its count of tokens comes behind it.
    with suppress(TimeoutError):
        async with asyncio.timeout(COUNT_SECONDS):
            while not reader.done and (part := await _more(body)):
                seconds = await take(relayed.ready(part))
    if reader.done and not body.ended:
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while await _more(body):  # a connection is used again only when its body has ended
                    continue
    if rest := relayed.rest():
        await take(rest)
    await relayed.end()
    return seconds


async def _more(body: Reply) -> bytes:
    """Return the next part of a body whose reply is whole; some servers hang up at this point."""
    try:
        return await body.part()
    except aiohttp.ClientError:
        return b""
