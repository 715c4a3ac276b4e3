"""What a server tells of itself and of the model it serves: its own words, kept with the run.

There is no standard for it. Each server has a page of its own, known by its shape; what a page
does not tell is left out, and a server without any page tells nothing.
"""

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2

from agenteval.config.models import ModelEntry
from agenteval.models.openai_client import key_of
from agenteval.models.transport import FAILURES, http_client

Told = Mapping[str, str]

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


async def told(entry: ModelEntry, owner: str) -> Told:
    """By fact, in the order in which they are shown; what is not told is unknown, and no error."""
    root = entry.base_url.rstrip("/").removesuffix("/v1")
    key = {"Authorization": f"Bearer {key_of(entry.api_key_env)}"}
    async with http_client() as http:
        for path in _PAGES.get(owner, _ANY):
            page = await _page(http, "GET", f"{root}{path}", key)
            if facts := _read(path, page):
                if path == "/api/version":
                    body = json.dumps({"model": entry.model}).encode()
                    shown = await _page(http, "POST", f"{root}/api/show", key, body)
                    facts |= _ollama_model(shown)
                return {fact: value for fact, value in facts.items() if value}
    return {}


async def _page(
    http: httpx2.AsyncClient, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
) -> Mapping[str, Any]:
    """The JSON object of a page; empty when there is none."""
    try:
        async with asyncio.timeout(SECONDS):
            reply = await http.request(method, url, headers=dict(headers), content=body)
        page = json.loads(reply.content) if reply.status_code == 200 else {}
    except (*FAILURES, TimeoutError, ValueError, RecursionError):
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
    return f"sha256:{hashlib.sha256(template.encode()).hexdigest()}"


def _sampling(params: Mapping[str, Any], names: Sequence[str]) -> str:
    """llama.cpp gives its 32 bit floats with 16 digits; four are what was meant."""
    return ", ".join(f"{name} {params[name]:.4g}" for name in names if _number(params.get(name)))


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
