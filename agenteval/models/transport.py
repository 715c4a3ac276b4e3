"""The HTTP client under the SDK: aiohttp carries it, and every body is bounded.

aiohttp parses HTTP in C: a streamed reply takes half the CPU that httpx's own transport takes.
"""

from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Any, cast

import aiohttp
import httpx2
from openai import APIConnectionError

from agenteval.errors import Cause, InfrastructureError, UnservedError

LARGEST_BODY = 32 << 20  # bytes; a stream of 100,000 tokens has 25 MB
BODY = "agenteval.body"  # the extension of a response that holds its Body

# The SDK wraps what fails before a body; what fails inside one comes bare.
FAILURES = (APIConnectionError, httpx2.HTTPError, httpx2.StreamError, aiohttp.ClientError)


class TooLargeError(httpx2.StreamError):
    """A body that went over the bound; what was left of it is not read."""


class CompressedError(httpx2.StreamError):
    """A compressed body, though none was asked for: a bound on what comes in would not hold."""


class Body(httpx2.AsyncByteStream):
    """What is still to come of a reply, at most `largest` bytes; of an error's too."""

    def __init__(self, response: aiohttp.ClientResponse, largest: int) -> None:
        self._response, self._left, self._largest = response, largest, largest

    @property
    def ended(self) -> bool:
        return self._response.content.at_eof()

    async def part(self) -> bytes:
        """What has come since the last part; b"" at the end."""
        part = await self._response.content.readany()
        self._left -= len(part)
        if self._left < 0:
            raise TooLargeError(f"a reply of over {self._largest} bytes")
        return part

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while part := await self.part():
                yield part
        finally:  # the SDK, which reads the body of an error, does not close what it cannot read
            await self.aclose()

    async def aclose(self) -> None:
        self._response.release()  # a connection whose body has not ended is closed


class _Transport(httpx2.AsyncBaseTransport):
    """To one server; to llama.cpp with a new connection for each request.

    It says Keep-Alive in the head of a stream and hangs up behind it: the next request on that
    connection would be lost.
    """

    def __init__(self, connect: float | None, largest: int) -> None:
        self._connect, self._largest = connect, largest
        self._session: aiohttp.ClientSession | None = None
        self._hangs_up = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        headers = request.headers.multi_items()
        if self._hangs_up:
            headers.append(("Connection", "close"))
        response = await self._opened().request(
            request.method,
            str(request.url),
            headers=headers,
            data=request.content or None,
            allow_redirects=False,
        )
        if response.headers.get("content-encoding", "identity") != "identity":
            response.close()
            raise CompressedError("a compressed reply, though none was asked for")
        self._hangs_up = response.headers.get("server", "").startswith("llama.cpp")
        body = Body(response, self._largest)
        return httpx2.Response(
            response.status,
            headers=response.raw_headers,
            stream=body,
            request=request,
            extensions={BODY: body},
        )

    def _opened(self) -> aiohttp.ClientSession:
        """The session; it belongs to the loop that runs now."""
        if self._session is None:
            # Proxies of the environment are for the internet; a served model is on the user's net.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"Accept-Encoding": "identity"},
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect),
                auto_decompress=False,
                trust_env=False,
            )
        return self._session

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()


class _Client(httpx2.AsyncClient):
    """Hands a request, as the SDK built it, to the transport.

    What httpx does between the two (headers of its own, cookies, logins, redirects, proxies) takes
    a quarter of the time of the SDK's `post`, and none of it is wanted here.
    """

    def __init__(self, transport: _Transport) -> None:
        super().__init__(transport=transport, trust_env=False)
        self._direct = transport

    def build_request(
        self,
        method: str,
        url: httpx2.URL | str,
        *,
        content: Any = None,
        headers: Any = None,
        **_: Any,
    ) -> httpx2.Request:
        return httpx2.Request(method, _parsed(url), headers=headers, content=content)

    async def send(
        self, request: httpx2.Request, *, stream: bool = False, **_: Any
    ) -> httpx2.Response:
        response = await self._direct.handle_async_request(request)
        if not stream:
            await response.aread()
        return response


_parsed = lru_cache(maxsize=64)(httpx2.URL)  # the same few, again and again


def http_client(*, connect: float | None = None, largest: int = LARGEST_BODY) -> httpx2.AsyncClient:
    """Reads at most so many bytes of any body; how long a reply may take is the caller's to say.

    aiohttp's own limit between two reads would be set anew with each, a tenth of a chunk's cost.
    """
    return _Client(_Transport(connect, largest))


def body_of(response: httpx2.Response) -> Body:
    """The body below the response's own iterators, which add a third to the cost of a piece."""
    return cast("Body", response.extensions[BODY])


def cause(error: BaseException) -> str:
    """The innermost reason: the SDK's own text is only 'Connection error.'."""
    while error.__cause__ is not None:
        error = error.__cause__
    said = str(error).removeprefix("400, message:")  # aiohttp's parser: no status of the server's
    return " ".join(said.split()) or type(error).__name__


def failed(url: str, error: Exception, *, begun: bool) -> InfrastructureError:
    """Of a connection; `begun` says that the head of a reply had come."""
    said = f"{url}: {cause(error)}"
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return UnservedError(said, Cause.UNREACHABLE)
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError):
        return InfrastructureError(said, Cause.LOST) if begun else UnservedError(said, Cause.LOST)
    if isinstance(error, aiohttp.ClientPayloadError):
        return InfrastructureError(said, Cause.LOST)
    return InfrastructureError(said, Cause.BAD_REPLY)
