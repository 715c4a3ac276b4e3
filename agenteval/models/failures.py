"""What failed between us and a server, by name: no reply, or only a part of one."""

import re

import aiohttp
import httpx2

from agenteval.errors import Cause, InfrastructureError, UnservedError
from agenteval.models.transport import cause

# Of these the server says itself that it did nothing: no slot is free, the model is being loaded.
NOT_TAKEN = frozenset({429, 503})
# A proxy's words: what stood behind it may have generated, unless it says when to come again.
BY_PROXY = frozenset({502, 504})
_MEMORY = re.compile(
    r"out of memory|OutOfMemoryError|failed to allocate|insufficient memory", re.IGNORECASE
)
_DEAD = re.compile(
    r"EngineDeadError|EngineCore (?:encountered|died)|engine (?:process )?(?:is dead|died|crashed)"
    r"|(?:runner|server) process (?:has )?(?:terminated|no longer running|died|crashed)",
    re.IGNORECASE,
)


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


def status_failure(code: int, words: str, said: str, after: float | None) -> InfrastructureError:
    """Of a status of 400 and above, or an error in a stream, with the words of the server."""
    if _MEMORY.search(said):
        return InfrastructureError(words, Cause.OUT_OF_MEMORY)
    if _DEAD.search(said):
        return InfrastructureError(words, Cause.CRASHED)
    if code == 404:
        return InfrastructureError(words, Cause.MODEL_CHANGED)
    if code in NOT_TAKEN or (code in BY_PROXY and after is not None):
        return UnservedError(words, Cause.BUSY, after=after)
    return InfrastructureError(words, Cause.BUSY if code in BY_PROXY else Cause.SERVER_ERROR)


def retry_after(response: httpx2.Response) -> float | None:
    """The seconds of the header; None for none, and for a date: its clock is not ours."""
    given = response.headers.get("retry-after", "").strip()
    return float(given) if re.fullmatch(r"\d{1,6}(\.\d{1,6})?", given) else None
