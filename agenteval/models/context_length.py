"""How many tokens a server's context holds, as far as it tells."""

from collections.abc import Mapping
from typing import Any

from agenteval.models.pages import Pages


async def context_length(pages: Pages, model: str) -> int | None:
    """Told by vLLM and SGLang in their list, llama.cpp of a slot, Ollama of what is loaded."""
    for path, read in (("/v1/models", _listed), ("/props", _of_a_slot), ("/api/ps", _loaded)):
        page = await pages.get(path)
        length = read(page.json, model) if page else None
        if isinstance(length, int) and length > 0:
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
    return next((one for one in found if one.get(key) in names), {})
