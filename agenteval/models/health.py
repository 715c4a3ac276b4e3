"""The health of a server during a run: does it answer, and is it still the process that began?

It is checked when a run begins and ends, and after each failure; never in a loop.
"""

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp

from agenteval.config.models import ModelEntry
from agenteval.core.run import Crash
from agenteval.errors import Cause, InfrastructureError
from agenteval.models.failures import NOT_READY
from agenteval.models.identity import key_of, keys_of

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
    """The pages of an entry's server, by their paths below its root."""

    def __init__(self, entry: ModelEntry) -> None:
        self._root = entry.base_url.rstrip("/").removesuffix("/v1")
        self._entry, self._keys = entry, keys_of(entry)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=SECONDS),
            trust_env=False,
            auto_decompress=False,  # a small page may be a large one, packed
            headers={
                "Authorization": f"Bearer {key_of(self._entry)}",
                "Accept-Encoding": "identity",
            },
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str) -> Page | None:
        """Return the page, or None if the server does not answer."""
        if self._session is None:
            return None
        try:
            async with self._session.get(f"{self._root}{path}", allow_redirects=False) as reply:
                refused = reply.status >= 400
                content = b"" if refused else await _read(reply.content)
                return Page(reply.status, self._keys.text(content.decode("utf-8", "replace")))
        except (aiohttp.ClientError, TimeoutError):
            return None


async def _read(content: aiohttp.StreamReader) -> bytes:
    """The first bytes; a single `read` would stop where the network does."""
    read = bytearray()
    while len(read) < LARGEST and (part := await content.readany()):
        read += part
    return bytes(read[:LARGEST])


async def context_length(pages: Pages, model: str) -> int | None:
    """Return the context length, as vLLM, SGLang, llama.cpp or Ollama state it."""
    for path, read in (("/v1/models", _listed), ("/props", _of_a_slot), ("/api/ps", _loaded)):
        page = await pages.get(path)
        length = read(page.json, model) if page else None
        if isinstance(length, int) and not isinstance(length, bool) and length > 0:
            return length
    return None


def _listed(page: Mapping[str, Any], model: str) -> object:
    return _entry(page.get("data"), "id", {model}).get("max_model_len")


def _of_a_slot(page: Mapping[str, Any], model: str) -> object:
    del model
    settings = page.get("default_generation_settings")
    return settings.get("n_ctx") if isinstance(settings, dict) else None


def _loaded(page: Mapping[str, Any], model: str) -> object:
    return _entry(page.get("models"), "name", {model, f"{model}:latest"}).get("context_length")


def _entry(entries: object, key: str, names: set[str]) -> Mapping[str, Any]:
    """The entry of a list that has one of these names; empty where there is none."""
    found = [one for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []
    named = [(one.get(key), one) for one in found]
    return next((one for name, one in named if isinstance(name, str) and name in names), {})


_VALUE = r"(?:\{.*\})? (\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)(?: \d+)?$"
# When the process began; else, what only ever grows and starts at 0 with it, over all labels:
# requests of vLLM and of SGLang (whose names have _ for : on Ray), tokens of llama.cpp.
_STARTED = re.compile(rf"^process_start_time_seconds{_VALUE}", re.MULTILINE)
_DONE = re.compile(
    r"^(?:vllm[:_]request_success_total|sglang[:_]num_requests_total"
    rf"|llamacpp:tokens_predicted_total){_VALUE}",
    re.MULTILINE,
)
# Failures that a crash of the server explains better than what they say themselves.
_MAY_BE_CRASHES = frozenset(
    {Cause.UNREACHABLE, Cause.LOST, Cause.BUSY, Cause.SERVER_ERROR, Cause.BAD_REPLY, Cause.TIMEOUT}
)


@dataclass(frozen=True, slots=True)
class Sight:
    """One observation of the server; None for what it does not state."""

    answers: bool
    ready: bool = True
    started: float | None = None
    done: float | None = None

    def restarted_since(self, before: "Sight") -> bool:
        began_later = None not in (self.started, before.started) and self.started != before.started
        counts_anew = self.done is not None and before.done is not None and self.done < before.done
        return began_later or counts_anew


@dataclass(slots=True)
class ServerHealth:
    """An implementation of `protocols.Health`: `keep` gets every crash once, at once.

    A server has crashed if it is gone, not ready any more, or another process than before.
    """

    entry: ModelEntry
    keep: Callable[[Crash], None]
    _pages: Pages = field(init=False)
    _alive: str = "/health"
    _last: Sight = field(default_factory=lambda: Sight(answers=True, ready=False))
    _down: bool = False
    _context: int | None = None
    _asked_for_context: bool = False
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __aenter__(self) -> Self:
        self._pages = await Pages(self.entry).__aenter__()
        # LiteLLM has its /health ask every model behind it; this page of its own asks none.
        liveness = await self._pages.get("/health/liveliness")
        if liveness and liveness.status == 200:
            self._alive = "/health/liveliness"
        await self.look()
        return self

    async def __aexit__(self, kind: object, *more: object) -> None:
        if kind is None:
            await self.look()
        await self._pages.__aexit__(kind, *more)

    async def after(self, error: InfrastructureError) -> InfrastructureError:
        if error.cause not in _MAY_BE_CRASHES and error.cause is not Cause.CRASHED:
            return error
        seen = await self.look()
        if seen and error.cause in _MAY_BE_CRASHES:
            return InfrastructureError(f"{seen}: {error}", Cause.CRASHED)
        return error

    async def context(self) -> int | None:
        """Asked for once: when a first count gives reason to, the model is loaded."""
        if not self._asked_for_context:
            self._context = await context_length(self._pages, self.entry.model)
            self._asked_for_context = True
        return self._context

    async def look(self) -> str:
        """Return what happened to the server since the last check; "" if nothing did."""
        async with self._one_at_a_time:
            sight, before, was_down = await self._sight(), self._last, self._down
            self._down = not sight.answers or (before.ready and not sight.ready)
            if self._down:
                said = "the server is not ready any more" if sight.answers else "the server is gone"
                return self._crashed(said, known=was_down)
            self._last = sight
            if sight.restarted_since(before):
                return self._crashed("the server was started anew", known=was_down)
            return ""

    def _crashed(self, said: str, *, known: bool) -> str:
        if not known:
            self.keep(Crash(time.time(), said))  # noqa: TID251 -- of the wall, for a log beside it
        return said

    async def _sight(self) -> Sight:
        health, models = await self._pages.get(self._alive), await self._pages.get("/v1/models")
        metrics = await self._pages.get("/metrics") if health or models else None
        return Sight(
            answers=bool(health or models),
            ready=not (health and health.status == NOT_READY),
            started=_number(_STARTED, metrics),
            done=_number(_DONE, metrics),
        )


def _number(pattern: re.Pattern[str], page: Page | None) -> float | None:
    """The sum of a metric over its labels; None when it is not there."""
    found = [float(value) for value in pattern.findall(page.text if page else "")]
    return sum(found) if found else None
