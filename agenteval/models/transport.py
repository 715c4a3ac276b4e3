"""The HTTP client under the SDK: aiohttp's transport, and a bound on every body."""

from collections.abc import AsyncIterator

import aiohttp
import httpx2
from openai import APIConnectionError, DefaultAioHttpClient

LARGEST_BODY = 32 << 20  # bytes; a stream of 100,000 tokens has 25 MB

# What fails inside a body comes bare, and what aiohttp cannot read at all comes as its own.
FAILURES = (APIConnectionError, httpx2.HTTPError, httpx2.StreamError, aiohttp.ClientError)


class TooLargeError(httpx2.StreamError):
    """A body that went over the bound; what was left of it is not read."""


class CompressedError(httpx2.StreamError):
    """A compressed body, though none was asked for: a bound on what comes in would not hold."""


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, largest: int) -> None:
        self._stream, self._left, self._largest = stream, largest, largest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            self._left -= len(part)
            if self._left < 0:
                raise TooLargeError(f"a reply of over {self._largest} bytes")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


def cause(error: BaseException) -> str:
    """The innermost reason: the SDK's own text is only 'Connection error.'."""
    while error.__cause__ is not None:
        error = error.__cause__
    said = str(error).removeprefix("400, message:")  # aiohttp's parser: no status of the server's
    return " ".join(said.split()) or type(error).__name__


def http_client(largest: int = LARGEST_BODY) -> httpx2.AsyncClient:
    """Reads at most so many bytes of any body, of an error's too."""

    async def bound(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise CompressedError("a compressed reply, though none was asked for")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream, largest)

    return DefaultAioHttpClient(
        # Proxies of the environment are for the internet; a served model is on the user's net.
        trust_env=False,
        headers={"Accept-Encoding": "identity"},
        event_hooks={"response": [bound]},
    )
