"""The pages of a server beside its chat: read as they are, bounded in time and size."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp

from agenteval.config.models import ModelEntry
from agenteval.models.openai_client import key_of

SECONDS = 5.0  # for one page
LARGEST = 4 << 20  # bytes of a page


@dataclass(frozen=True, slots=True)
class Page:
    """`text` is empty where the page was refused."""

    status: int
    text: str

    @property
    def json(self) -> Mapping[str, Any]:
        """The object that the page is; empty when it is none."""
        try:
            found = json.loads(self.text)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


class Pages:
    """Of the server of this entry, by their paths below its root."""

    def __init__(self, entry: ModelEntry) -> None:
        self._root = entry.base_url.rstrip("/").removesuffix("/v1")
        self._key = entry.api_key_env
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=SECONDS),
            trust_env=False,
            headers={"Authorization": f"Bearer {key_of(self._key)}"},
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str) -> Page | None:
        """None when nobody answers."""
        if self._session is None:
            return None
        try:
            async with self._session.get(f"{self._root}{path}", allow_redirects=False) as reply:
                refused = reply.status >= 400
                content = b"" if refused else await _read(reply.content)
                return Page(reply.status, content.decode("utf-8", "replace"))
        except (aiohttp.ClientError, TimeoutError):
            return None


async def _read(content: aiohttp.StreamReader) -> bytes:
    """The first bytes; a single `read` would stop where the network does."""
    read = bytearray()
    while len(read) < LARGEST and (part := await content.readany()):
        read += part
    return bytes(read[:LARGEST])
