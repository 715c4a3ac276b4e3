"""A server's own statements: the models that it serves, and its settings, in its own words.

They are read before the first trial alone, by the standard library: `agenteval models` is to answer
before the SDK would be imported. There is no standard for what a server states next to its list of
models. Each kind of server has a page of its own, known by its shape. What a page does not state is
left out, and a server without any page states nothing.
"""

import asyncio
import hashlib
import json
import socket
import ssl
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Timer
from typing import Any
from urllib.parse import urlsplit

from agenteval.config.models import ModelEntry
from agenteval.config.trust import key_for
from agenteval.core.known_keys import KnownKeys
from agenteval.core.plain import as_name, excerpt, legible
from agenteval.errors import UnansweredError, UsageError
from agenteval.models.failures import RefusedError, refusal

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
SECONDS = 3.0  # for each page
LARGEST = 4 << 20  # bytes of a page
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
        if facts := _read(path, page):
            if path == "/api/version":
                body = json.dumps({"model": entry.model}).encode()
                shown = await _page(entry, f"{root}/api/show", body)
                facts |= _ollama_model(shown)
            return {fact: as_name(legible(value)) for fact, value in facts.items() if value}
    return {}


async def _page(entry: ModelEntry, url: str, content: bytes | None = None) -> Mapping[str, Any]:
    """The JSON object of a page; empty when there is none."""
    try:
        status, body = await asyncio.to_thread(exchanged, entry, url, SECONDS, content)
        page = json.loads(body) if status == 200 else {}
    except (*FAILURES, RecursionError):
        return {}
    return page if isinstance(page, dict) else {}


def _read(path: str, page: Mapping[str, Any]) -> dict[str, str]:
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
