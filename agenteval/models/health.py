"""Looking after a server while a run goes on: does it answer, is it still the one that began?

It is looked at when a run begins and ends, and after each failure; never in a loop.
"""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import aiohttp

from agenteval.config.models import ModelEntry
from agenteval.core.run import Crash
from agenteval.errors import Cause, InfrastructureError

SECONDS = 5.0  # for one page
LARGEST = 4 << 20  # bytes of a page
# When the process began; else, what only ever grows and starts at 0 with it: of vLLM, of SGLang.
_STARTED = re.compile(r"^process_start_time_seconds(?:\{[^}]*\})? (\S+)", re.MULTILINE)
_DONE = re.compile(
    r"^(?:vllm:request_success_total|sglang:num_requests_total)(?:\{[^}]*\})? (\S+)", re.MULTILINE
)
# Failures that a crash of the server explains better than what they say themselves.
_MAY_BE_CRASHES = frozenset(
    {Cause.UNREACHABLE, Cause.LOST, Cause.BUSY, Cause.SERVER_ERROR, Cause.BAD_REPLY, Cause.TIMEOUT}
)


@dataclass(frozen=True, slots=True)
class Sight:
    """The server as it was seen once; None for what it does not tell."""

    answers: bool
    started: float | None = None
    done: float | None = None

    def restarted_since(self, before: "Sight") -> bool:
        began_later = None not in (self.started, before.started) and self.started != before.started
        counts_anew = self.done is not None and before.done is not None and self.done < before.done
        return began_later or counts_anew


@dataclass(slots=True)
class ServerHealth:
    """Implements `protocols.Health`. `keep` is told of every crash, once, as soon as it is seen.

    A server crashed when it is seen to be gone, or to be another process than before.
    """

    entry: ModelEntry
    keep: Callable[[Crash], None]
    _last: Sight = field(default_factory=lambda: Sight(answers=True))
    _gone: bool = False
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)
    _session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        limits = aiohttp.ClientTimeout(total=SECONDS)
        self._session = aiohttp.ClientSession(timeout=limits, trust_env=False)
        await self.look()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            await self.look()
        if self._session is not None:
            await self._session.close()

    async def after(self, error: InfrastructureError) -> InfrastructureError:
        if error.cause not in _MAY_BE_CRASHES and error.cause is not Cause.CRASHED:
            return error
        seen = await self.look()
        if seen and error.cause in _MAY_BE_CRASHES:
            return InfrastructureError(f"{seen}: {error}", Cause.CRASHED)
        return error

    async def look(self) -> str:
        """What happened to the server since the last look; empty when nothing did."""
        async with self._one_at_a_time:
            sight = await self._sight()
            before, was_gone = self._last, self._gone
            self._gone = not sight.answers
            if not sight.answers:
                return self._crashed("the server is gone", known=was_gone)
            self._last = sight
            if sight.restarted_since(before):
                return self._crashed("the server was started anew", known=was_gone)
            return ""

    def _crashed(self, said: str, *, known: bool) -> str:
        if not known:
            self.keep(Crash(time.time(), said))  # noqa: TID251 -- of the wall, for a log beside it
        return said

    async def _sight(self) -> Sight:
        root = self.entry.base_url.rstrip("/").removesuffix("/v1")
        pages = [await self._page(f"{root}/health"), await self._page(f"{root}/v1/models")]
        metrics = await self._page(f"{root}/metrics") if any(pages) else None
        return Sight(
            answers=any(page is not None for page in pages),
            started=_number(_STARTED, metrics),
            done=_number(_DONE, metrics),
        )

    async def _page(self, url: str) -> str | None:
        """The text of a page, empty when it is refused; None when nobody answers."""
        if self._session is None:
            return None
        try:
            async with self._session.get(url, allow_redirects=False) as reply:
                content = await reply.content.read(LARGEST)
                return content.decode("utf-8", "replace") if reply.status < 400 else ""
        except (aiohttp.ClientError, TimeoutError):
            return None


def _number(pattern: re.Pattern[str], page: str | None) -> float | None:
    """The sum of a metric over its labels; None when it is not there."""
    found = [float(value) for value in pattern.findall(page or "")]
    return sum(found) if found else None
