"""The health of a server during a run: does it answer, and is it still the process that began?

It is checked when a run begins and ends, and after each failure; never in a loop.

A server's own statements: the models that it serves, and its settings, in its own words.

They are read before the first trial alone, by the standard library: `agenteval models` is to answer
before the SDK would be imported. There is no standard for what a server states next to its list of
models. Each kind of server has a page of its own, known by its shape. What a page does not state is
left out, and a server without any page states nothing.
"""

import asyncio
import hashlib
import json
import re
import socket
import ssl
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Timer
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp

from agenteval.config.models import ModelEntry
from agenteval.config.trust import key_for
from agenteval.errors import Cause, InfrastructureError, UnansweredError, UsageError
from agenteval.models.failures import NOT_READY, RefusedError, refusal
from agenteval.trial.redaction import KnownKeys
from agenteval.trial.run import Crash
from agenteval.trial.text import as_name, excerpt, legible

Told = Mapping[str, str]
SIMULATOR = "agenteval-simulated"  # `owned_by` of the simulated models
# By `owned_by` of the model list; any other owner has all pages asked for.
_PAGES = {
    "llamacpp": ("/props",),
    "vllm": ("/version",),
    "sglang": ("/get_server_info", "/server_info"),
    "library": ("/api/version",),
}
_PROXY = ("/health/readiness/details", "/health/readiness")  # LiteLLM's, new and old
_ANY = ("/props", "/get_server_info", "/server_info", *_PROXY)
_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "presence_penalty", "repeat_penalty")
PAGE_SECONDS = 3.0  # for each page

FAILURES = (OSError, HTTPException, ValueError)  # ValueError of a URL that no header can hold


def key_of(entry: ModelEntry) -> str:
    """Return the key for this entry's server, or a placeholder, as the SDK insists on one.

    All requests to a server take their key from here. Raises as `config.trust.key_for`.
    """
    key = key_for(entry.api_key_env, entry.base_url)
    if not key.isascii() or not key.isprintable():
        raise UsageError(
            f"{entry.api_key_env}: the key holds characters that no HTTP header may carry"
        )
    return key or "none"


def keys_of(entry: ModelEntry) -> KnownKeys:
    """The key that goes to this server, which its replies and errors may repeat."""
    return KnownKeys.of([key_of(entry)])


async def served(entry: ModelEntry) -> Mapping[str, str]:
    """Id and owner of every model that `/models` lists; empty where a server has no such page.

    Raises UsageError, in words that name the URL and the cure, when no server answers.
    """
    url, seconds = entry.base_url.rstrip("/"), entry.timeouts.connect
    try:
        status, content = await asyncio.to_thread(exchanged, entry, f"{url}/models", seconds)
    except TimeoutError as error:
        raise _absent(url, f"no reply within {seconds:g} s") from error
    except FAILURES as error:
        raise _absent(url, " ".join(str(error).split()) or type(error).__name__) from error
    body = content.decode("utf-8", "replace")
    if status in {404, 405, 501}:
        return {}
    if status >= 400:
        refused = RefusedError(status, body)
        said = str(refusal(entry, refused, first=True, was_served=False))
        raise (UnansweredError if status >= 500 else UsageError)(said)
    try:
        listed = json.loads(body)["data"]
        named = ((one["id"], one.get("owned_by", "")) for one in listed)
        return {legible(str(name)): as_name(legible(str(owner))) for name, owner in named}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"{url}/models answers something that is no model list; is it the right port,"
            f" and does the URL end in /v1? It says {excerpt(body)}"
        ) from error


def _absent(url: str, cause: str) -> UnansweredError:
    return UnansweredError(
        f"no OpenAI-compatible server answers at {url} ({cause}). Start one, for example "
        f"`vllm serve MODEL --enable-auto-tool-choice --tool-call-parser "
        "qwen3_coder` or `llama-server -m FILE.gguf --jinja --port 8000`; or name another "
        "URL; or try a simulated model: agenteval run --model sim/qwen3.6-35b"
    )


def exchanged(
    entry: ModelEntry, url: str, seconds: float, content: bytes | None = None
) -> tuple[int, bytes]:
    """Status and body of one page, as much as comes in this time. Raises what FAILURES has."""
    parts, began = urlsplit(url), time.perf_counter()
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    headers = {"Authorization": f"Bearer {key_of(entry)}", "Connection": "close"}
    headers |= {"Content-Type": "application/json"} if content else {}
    with closing(kind(parts.hostname or "", parts.port, timeout=seconds)) as connection:
        # The timeout of a socket is set anew with each byte: a server that drips would go on.
        opened: list[socket.socket] = []
        late = Timer(seconds, _hang_up, (opened,))
        late.start()
        try:
            _connect(connection, began + seconds, opened)
            connection.request("POST" if content else "GET", parts.path, content, headers)
            reply = connection.getresponse()
            body = keys_of(entry).content(reply.read(LARGEST))
        except FAILURES as error:
            keys_of(entry).hide(error)
            _check_time(began, seconds)
            raise
        finally:
            late.cancel()
        _check_time(began, seconds)
        return reply.status, body


def _connect(connection: HTTPConnection, end: float, opened: list[socket.socket]) -> None:
    """Connect to the first address of the host that answers, each within its share of the time.

    The last of `opened` is the socket that is in use.
    """
    host, port = connection.host, connection.port
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        opened.append(socket.socket(family, kind, protocol))
        left = max(end - time.perf_counter(), 0.001)
        opened[-1].settimeout(left / (len(addresses) - number))
        try:
            opened[-1].connect(address)
            break
        except OSError:
            opened[-1].close()
            if number == len(addresses) - 1:
                raise
    connection.sock = opened[-1]
    connection.sock.settimeout(connection.timeout)
    if isinstance(connection, HTTPSConnection):
        wrap = ssl.create_default_context().wrap_socket
        connection.sock = wrap(connection.sock, server_hostname=host, do_handshake_on_connect=False)
        opened.append(connection.sock)
        connection.sock.do_handshake()


def _hang_up(opened: list[socket.socket]) -> None:
    with suppress(OSError):
        for connection in opened[-1:]:
            connection.shutdown(socket.SHUT_RDWR)


def _check_time(began: float, seconds: float) -> None:
    if time.perf_counter() - began >= seconds:
        raise TimeoutError


async def server_facts(entry: ModelEntry, owner: str) -> Told:
    """Return the facts about a server, in the order of display.

    What the server does not state is missing, and is no error.
    """
    root = entry.base_url.rstrip("/").removesuffix("/v1")
    for path in _PAGES.get(owner, _ANY):
        page = await _page(entry, f"{root}{path}")
        if facts := _facts_of_page(path, page):
            if path == "/api/version":
                body = json.dumps({"model": entry.model}).encode()
                shown = await _page(entry, f"{root}/api/show", body)
                facts |= _ollama_model(shown)
            return {fact: as_name(legible(value)) for fact, value in facts.items() if value}
    return {}


async def _page(entry: ModelEntry, url: str, content: bytes | None = None) -> Mapping[str, Any]:
    """The JSON object of a page; empty when there is none."""
    try:
        status, body = await asyncio.to_thread(exchanged, entry, url, PAGE_SECONDS, content)
        page = json.loads(body) if status == 200 else {}
    except (*FAILURES, RecursionError):
        return {}
    return page if isinstance(page, dict) else {}


def _facts_of_page(path: str, page: Mapping[str, Any]) -> dict[str, str]:
    match path:
        case "/props":
            return _llama(page) if "default_generation_settings" in page else {}
        case "/version":
            return {"server": f"vLLM {page['version']}"} if "version" in page else {}
        case "/api/version":
            return {"server": f"Ollama {page['version']}"} if "version" in page else {}
        case "/health/readiness" | "/health/readiness/details":
            version = page.get("litellm_version", "")
            return {"server": f"LiteLLM {version}, a proxy"} if version else {}
        case _:
            return _sglang(page) if "model_path" in page else {}


def _llama(page: Mapping[str, Any]) -> dict[str, str]:
    settings = _object(page, "default_generation_settings")
    return {
        "server": f"llama.cpp {page.get('build_info', '')}".strip(),
        "model": str(page.get("model_alias", "")),
        "quantization": str(page.get("model_ftype", "")),
        "chat template": _digest(page.get("chat_template")),
        "context": str(settings.get("n_ctx", "")),
        "slots": str(page.get("total_slots", "")),
        "default sampling": _sampling(_object(settings, "params"), _SAMPLING),
    }


def _sglang(page: Mapping[str, Any]) -> dict[str, str]:
    return {
        "server": f"SGLang {page.get('version', '')}".strip(),
        "model": str(page["model_path"]),
        "quantization": str(page.get("quantization") or ""),
        "KV cache": str(page.get("kv_cache_dtype") or ""),
        "tool parser": str(page.get("tool_call_parser") or ""),
        "reasoning parser": str(page.get("reasoning_parser") or ""),
        "context": str(page.get("context_length") or ""),
    }


def _ollama_model(page: Mapping[str, Any]) -> dict[str, str]:
    details = _object(page, "details")
    return {
        "model": f"{details.get('family', '')} {details.get('parameter_size', '')}".strip(),
        "quantization": str(details.get("quantization_level", "")),
        "chat template": _digest(page.get("template")),
        "default sampling": " ".join(str(page.get("parameters", "")).split()),
    }


def _object(page: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = page.get(name)
    return value if isinstance(value, dict) else {}


def _digest(template: object) -> str:
    if not isinstance(template, str) or not template:
        return ""
    written = template.encode("utf-8", "surrogatepass")
    return f"sha256:{hashlib.sha256(written).hexdigest()}"


def _sampling(params: Mapping[str, Any], names: Sequence[str]) -> str:
    """llama.cpp gives its 32 bit floats with 16 digits; four are what was meant."""
    return ", ".join(f"{name} {params[name]:.4g}" for name in names if _is_number(params.get(name)))


def _is_number(value: object) -> bool:
    """Return True for a number that can be shown: JSON's may be larger than any float."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= sys.float_info.max


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
                content = b"" if refused else await _read_page(reply.content)
                return Page(reply.status, self._keys.text(content.decode("utf-8", "replace")))
        except (aiohttp.ClientError, TimeoutError):
            return None


async def _read_page(content: aiohttp.StreamReader) -> bytes:
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
