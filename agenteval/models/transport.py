"""The HTTP client: aiohttp carries bytes there and back, and every body is bounded.

aiohttp parses HTTP in C: a streamed reply takes half the CPU that httpx's own transport takes.
"""

from collections.abc import Mapping

import aiohttp

from agenteval.core.chunk import BYTE_ORDER
from agenteval.errors import Cause, InfrastructureError, UnservedError

LARGEST_BODY = 32 << 20  # bytes; a stream of 100,000 tokens has 25 MB


class BodyError(Exception):
    """A body that is not read, or not to its end."""


class TooLargeError(BodyError):
    """A body that went over the bound; what was left of it is not read."""


class CompressedError(BodyError):
    """A compressed body, though none was requested: a bound on its size would not hold."""


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
            raise TooLargeError(f"a reply of over {self._largest} bytes")
        return part

    async def whole(self) -> bytes:
        parts = []
        while part := await self.part():
            parts.append(part)
        return b"".join(parts)

    def close(self) -> None:
        self._response.release()  # a connection whose body has not ended is closed


class Lines:
    """The lines of a stream of events, each ended by CR, LF or both, wherever its bytes are cut."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []  # of a line whose end is still to come
        self._returned = False  # whether the last byte was a CR, whose LF may still come
        self._any = False

    def feed(self, part: bytes) -> list[bytes]:
        """The lines that end in what came."""
        if self._returned or b"\r" in part:
            after = part[1:] if self._returned and part.startswith(b"\n") else part
            self._returned = part.endswith(b"\r")
            part = after.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *ended, rest = part.split(b"\n")
        if ended and (self._begun or not self._any):
            ended[0] = self._line(ended[0])
        if rest:
            self._begun.append(rest)
        return ended

    def rest(self) -> list[bytes]:
        """The last line, where nothing ended it."""
        return [self._line(b"")] if self._begun else []

    def _line(self, end: bytes) -> bytes:
        line = b"".join((*self._begun, end))
        self._begun.clear()
        if not self._any:
            self._any, line = True, line.removeprefix(BYTE_ORDER.encode())
        return line


class Transport:
    """To one server; to llama.cpp with a new connection for each request.

    It says Keep-Alive in the head of a stream and hangs up behind it: the next request on that
    connection would be lost. How long a reply may take is the caller's to say: aiohttp's own limit
    between two reads would be set anew with each, a tenth of a chunk's cost.
    """

    def __init__(self, headers: Mapping[str, str], *, connect: float | None = None) -> None:
        self._headers = {**headers, "accept-encoding": "identity"}
        self._connect = connect
        self._session: aiohttp.ClientSession | None = None
        self._hangs_up = False

    async def post(self, url: str, body: bytes) -> Reply:
        response = await self._opened().post(
            url,
            headers={"connection": "close"} if self._hangs_up else None,
            data=body,
            allow_redirects=False,
        )
        if response.headers.get("content-encoding", "").strip().lower() not in {"", "identity"}:
            response.close()
            raise CompressedError("a compressed reply, though none was asked for")
        self._hangs_up = response.headers.get("server", "").startswith("llama.cpp")
        return Reply(response, LARGEST_BODY)

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
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return UnservedError(words, Cause.UNREACHABLE)
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError):
        return InfrastructureError(words, Cause.LOST) if begun else UnservedError(words, Cause.LOST)
    if isinstance(error, aiohttp.ClientPayloadError):
        return InfrastructureError(words, Cause.LOST)
    return InfrastructureError(words, Cause.BAD_REPLY)
