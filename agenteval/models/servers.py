"""A server's own statements, and its health during a run.

Its models and settings are read before the first trial. Each kind of server has a page of its own
(server_pages.toml). A server without any page states nothing.

Its health is checked when a run begins and ends, and after each failure; never in a loop.
"""

import asyncio
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self

import msgspec

from agenteval.config.models import ModelEntry
from agenteval.config.trust import key_for
from agenteval.errors import Cause, InfrastructureError, UnansweredError, UsageError
from agenteval.models.failures import NOT_READY, RefusedError, refusal
from agenteval.models.stream import FAILURES, BodyError, Transport, cause
from agenteval.trial.redaction import KnownKeys
from agenteval.trial.run import Crash
from agenteval.trial.text import as_name, excerpt, legible

SIMULATOR = "agenteval-simulated"  # `owned_by` of the simulated models
LARGEST = 4 << 20  # bytes of a page
FACTS_SECONDS = 3.0  # for each page of settings
HEALTH_SECONDS = 5.0  # for each page that a run looks at
Json = Mapping[str, Any]
Facts = Mapping[str, str]
_FAILURES = (*FAILURES, OSError, ValueError)


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


# Requests for pages.


@dataclass(frozen=True, slots=True)
class _Page:
    """An answer of a server to a request for a page."""

    status: int
    content: bytes

    @property
    def text(self) -> str:
        """The text of the page; empty if it was refused."""
        return self.content.decode("utf-8", "replace") if self.status == 200 else ""

    @property
    def json(self) -> Json:
        """The object that the page is; empty when it is none."""
        try:
            value = json.loads(self.text)
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}


async def fetch_page(
    entry: ModelEntry,
    path: str,
    seconds: float,
    content: bytes | None = None,
) -> _Page | None:
    """Return the page at a path below the server's root; None if the server does not answer."""
    root = entry.base_url.rstrip("/").removesuffix("/v1")
    try:
        return await _exchange(entry, f"{root}{path}", seconds, content)
    except _FAILURES:
        return None


async def _exchange(
    entry: ModelEntry,
    url: str,
    seconds: float,
    content: bytes | None = None,
) -> _Page:
    """Return a page that comes whole in this time. Raises the errors of _FAILURES."""
    key = key_of(entry)
    # A page is asked for so rarely that no connection is kept for the next one.
    headers = {"authorization": f"Bearer {key}", "connection": "close"}
    if content:
        headers["content-type"] = "application/json"
    keys = KnownKeys.of([key])  # an answer or an error may repeat it
    transport = Transport(headers, largest=LARGEST)
    try:
        async with asyncio.timeout(seconds):
            with closing(await transport.send(url, content)) as reply:
                body = await reply.whole()
    except _FAILURES as error:
        keys.hide(error)
        raise
    finally:
        await transport.aclose()
    return _Page(reply.status, keys.content(body))


# The models that a server lists.


async def served(entry: ModelEntry) -> Facts:
    """Id and owner of every model that `/models` lists; empty where a server has no such page.

    Raises UsageError, in words that name the URL and the cure, when no server answers.
    """
    url = entry.base_url.rstrip("/")
    seconds = entry.timeouts.connect
    try:
        page = await _exchange(entry, f"{url}/models", seconds)
    except TimeoutError as error:
        raise _absent(url, f"no reply within {seconds:g} s") from error
    except BodyError as error:
        raise _no_list(url, f"It sends {error}") from error
    except _FAILURES as error:
        raise _absent(url, _reason(error)) from error
    if page.status in {404, 405, 501}:
        return {}
    body = page.content.decode("utf-8", "replace")
    if page.status >= 400:
        refused = RefusedError(page.status, body)
        reason = refusal(entry, refused, first=True, was_served=False)
        raise (UnansweredError if page.status >= 500 else UsageError)(str(reason))
    try:
        return _owners(json.loads(body))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _no_list(url, f"It says {excerpt(body)}") from error


def _no_list(url: str, words: str) -> UsageError:
    return UsageError(
        f"{url}/models answers something that is no model list; is it the right port,"
        f" and does the URL end in /v1? {words}"
    )


def _owners(listed: Any) -> Facts:
    owners = {}
    for model in listed["data"]:
        name = legible(str(model["id"]))
        # A name may hold line ends or escapes; the list of models is printed.
        owner = legible(str(model.get("owned_by", "")))
        owners[name] = as_name(owner)
    return owners


def _reason(error: Exception) -> str:
    """Return what went wrong; in the system's words where it has a number."""
    number = getattr(error, "errno", None) or 0
    return f"[Errno {number}] {os.strerror(number)}" if number > 0 else cause(error)


def _absent(url: str, reason: str) -> UnansweredError:
    return UnansweredError(
        f"no OpenAI-compatible server answers at {url} ({reason}). Start one, for example "
        f"`vllm serve MODEL --enable-auto-tool-choice --tool-call-parser "
        "qwen3_coder` or `llama-server -m FILE.gguf --jinja --port 8000`; or name another "
        "URL; or try a simulated model: agenteval run --model sim/qwen3.6-35b"
    )


# The settings that a server states.


class _Kind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of server, as server_pages.toml describes it."""

    paths: tuple[str, ...]
    mark: str
    facts: dict[str, str]
    owner: str | None = None
    shared: bool = False
    model_page: str = ""
    model_facts: dict[str, str] = {}


@cache
def _kinds() -> tuple[_Kind, ...]:
    content = Path(__file__).with_name("server_pages.toml").read_bytes()
    kinds = msgspec.toml.decode(content, type=dict[str, tuple[_Kind, ...]])
    return kinds["server"]


async def server_facts(entry: ModelEntry, owner: str) -> Facts:
    """Return the facts about a server, in the order of display.

    What the server does not state is missing, and is no error.
    """
    kinds = [kind for kind in _kinds() if kind.owner == owner]
    kinds = kinds or [kind for kind in _kinds() if kind.shared]
    for kind in kinds:
        for path in kind.paths:
            page = await _read_facts_page(entry, path)
            if page.get(kind.mark) not in (None, ""):
                return {**_facts(kind.facts, page), **await _model_facts(kind, entry)}
    return {}


async def _model_facts(kind: _Kind, entry: ModelEntry) -> Facts:
    if not kind.model_page:
        return {}
    question = json.dumps({"model": entry.model}).encode()
    page = await _read_facts_page(entry, kind.model_page, question)
    return _facts(kind.model_facts, page)


async def _read_facts_page(entry: ModelEntry, path: str, question: bytes | None = None) -> Json:
    page = await fetch_page(entry, path, FACTS_SECONDS, question)
    return page.json if page else {}


def _facts(forms: Facts, page: Json) -> Facts:
    facts = {}
    for fact, form in forms.items():
        text = form
        for path in re.findall(r"\{([\w.]+)\}", form):
            text = text.replace(f"{{{path}}}", _fact(fact, _value_at(page, path)))
        if shown := text.strip():
            facts[fact] = as_name(legible(shown))
    return facts


def _value_at(page: Json, path: str) -> Any:
    """Return the value at a path of names with dots between; None where there is none."""
    value: Any = page
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _fact(name: str, value: Any) -> str:
    # A template is long and may hold anything: its digest tells whether two servers have the same.
    if name == "chat template":
        return _digest(value)
    if isinstance(value, dict):
        return _sampling(value)
    if name == "default sampling":  # Ollama writes a line for each parameter, in columns
        return " ".join(str(value or "").split())
    return "" if value is None else str(value)


def _digest(template: object) -> str:
    if not isinstance(template, str) or not template:
        return ""
    content = template.encode("utf-8", "surrogatepass")
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "presence_penalty", "repeat_penalty")


def _sampling(params: Json) -> str:
    """llama.cpp gives its 32 bit floats with 16 digits; four are what was meant."""
    numbers = [(name, params.get(name)) for name in _SAMPLING]
    return ", ".join(f"{name} {value:.4g}" for name, value in numbers if _is_number(value))


def _is_number(value: object) -> bool:
    """Return True for a number that can be shown: JSON's may be larger than any float."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= sys.float_info.max


# The context that a server gives its model.


async def context_length(entry: ModelEntry) -> int | None:
    """Return the context length, as vLLM, SGLang, llama.cpp or Ollama state it."""
    readers = {"/v1/models": _listed, "/props": _of_a_slot, "/api/ps": _loaded}
    for path, read in readers.items():
        # llama.cpp divides its context among its slots: the page has what one of them gets.
        page = await fetch_page(entry, path, HEALTH_SECONDS)
        length = read(page.json, entry.model) if page else None
        if isinstance(length, int) and not isinstance(length, bool) and length > 0:
            return length
    return None


def _listed(page: Json, model: str) -> object:
    entry = _entry(page.get("data"), "id", {model})
    return entry.get("max_model_len")


def _of_a_slot(page: Json, _: str) -> object:
    return _value_at(page, "default_generation_settings.n_ctx")


def _loaded(page: Json, model: str) -> object:
    names = {model, f"{model}:latest"}
    entry = _entry(page.get("models"), "name", names)
    return entry.get("context_length")


def _entry(entries: object, key: str, names: set[str]) -> Json:
    """Return the entry of a list that has one of these names; empty where there is none."""
    for entry in entries if isinstance(entries, list) else ():
        name = entry.get(key) if isinstance(entry, dict) else None
        if isinstance(name, str) and name in names:
            return dict(entry)
    return {}


# The health of a server.

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
    {
        Cause.UNREACHABLE,
        Cause.LOST,
        Cause.BUSY,
        Cause.SERVER_ERROR,
        Cause.BAD_REPLY,
        Cause.TIMEOUT,
    }
)


@dataclass(frozen=True, slots=True)
class Sight:
    """One observation of the server; None for what it does not state."""

    answers: bool
    ready: bool = True
    started: float | None = None
    done: float | None = None

    def restarted_since(self, before: "Sight") -> bool:
        is_known = self.started is not None and before.started is not None
        if is_known and self.started != before.started:
            return True
        if self.done is None or before.done is None:
            return False
        return self.done < before.done


@dataclass(slots=True)
class ServerHealth:
    """An implementation of `protocols.Health`: `keep` gets every crash once, at once.

    A server has crashed if it is gone, not ready any more, or another process than before.
    """

    entry: ModelEntry
    keep: Callable[[Crash], None]
    _alive: str = "/health"
    _last: Sight = field(default_factory=lambda: Sight(answers=True, ready=False))
    _down: bool = False
    _context: int | None = None
    _asked_for_context: bool = False
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __aenter__(self) -> Self:
        # LiteLLM has its /health ask every model behind it; this page of its own asks none.
        liveness = await fetch_page(self.entry, "/health/liveliness", HEALTH_SECONDS)
        if liveness and liveness.status == 200:
            self._alive = "/health/liveliness"
        await self.look()
        return self

    async def __aexit__(self, kind: object, *more: object) -> None:
        if kind is None:
            await self.look()

    async def after(self, error: InfrastructureError) -> InfrastructureError:
        if error.cause not in _MAY_BE_CRASHES and error.cause is not Cause.CRASHED:
            return error
        crash = await self.look()
        if crash and error.cause in _MAY_BE_CRASHES:
            return InfrastructureError(f"{crash}: {error}", Cause.CRASHED)
        return error

    async def context(self) -> int | None:
        """Asked for once: when a first count gives reason to, the model is loaded."""
        if not self._asked_for_context:
            self._context = await context_length(self.entry)
            self._asked_for_context = True
        return self._context

    async def look(self) -> str:
        """Return what happened to the server since the last check; "" if nothing did."""
        async with self._one_at_a_time:
            sight = await self._sight()
            before, was_down = self._last, self._down
            self._down = not sight.answers or (before.ready and not sight.ready)
            if self._down:
                state = "not ready any more" if sight.answers else "gone"
                return self._crashed(f"the server is {state}", known=was_down)
            self._last = sight
            if sight.restarted_since(before):
                return self._crashed("the server was started anew", known=was_down)
            return ""

    def _crashed(self, crash: str, *, known: bool) -> str:
        if not known:
            self.keep(Crash(time.time(), crash))  # noqa: TID251 -- of the wall, for a log beside it
        return crash

    async def _sight(self) -> Sight:
        health = await fetch_page(self.entry, self._alive, HEALTH_SECONDS)
        models = await fetch_page(self.entry, "/v1/models", HEALTH_SECONDS)
        metrics = None
        if health or models:
            metrics = await fetch_page(self.entry, "/metrics", HEALTH_SECONDS)
        return Sight(
            answers=bool(health or models),
            ready=not (health and health.status == NOT_READY),
            started=_number(_STARTED, metrics),
            done=_number(_DONE, metrics),
        )


def _number(pattern: re.Pattern[str], page: _Page | None) -> float | None:
    """The sum of a metric over its labels; None when it is not there."""
    values = pattern.findall(page.text) if page else []
    return sum(map(float, values)) if values else None
