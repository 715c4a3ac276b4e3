"""Real servers, looked after: they are well, and tell how long their context is."""

import pytest
from proxy import KEY

from agenteval.config.models import ModelEntry
from agenteval.config.trust import bind
from agenteval.errors import Cause, InfrastructureError
from agenteval.models.openai_client import OpenAIModel
from agenteval.models.servers import ServerHealth, fetch_page
from agenteval.play.trial import RetryingModel
from agenteval.trial.call import Ending
from agenteval.trial.run import Crash
from agenteval.trial.trial import Message, Turn

LOST = InfrastructureError("reset", Cause.LOST)


async def seen(address: str, model: str = "markov") -> tuple[Cause, int | None, list[Crash]]:
    kept: list[Crash] = []
    entry = ModelEntry(base_url=f"{address}/v1", model=model, api_key_env="LITELLM_KEY")
    async with ServerHealth(entry, kept.append) as watched:
        return (await watched.after(LOST)).cause, await watched.context(), kept


async def test_llama_cpp_is_well_and_tells_the_context_of_a_slot(llama) -> None:
    assert await seen(llama) == (Cause.LOST, 16_384, [])


async def test_a_reply_that_llama_cpp_cuts_at_its_end_fills_the_context_that_it_tells(
    split,
) -> None:
    """Each character of `a a a` is a token of the caller; two or three are left for the reply."""
    entry = ModelEntry(base_url=f"{split}/v1", model="markov")
    async with OpenAIModel(entry) as model, ServerHealth(entry, print) as health:
        asked = RetryingModel(model, 600.0, health)

        async def said(times: int) -> Turn:
            return await asked.ask([Message("user", "a " * times)], [], seed=3)

        few = await said(1000)
        times = 1000 + (16_384 - 2 - few.usage.prompt_tokens) // 2
        turn = await said(times)
        ends = [await asked.cut(one, one.usage.prompt_tokens) for one in (few, turn)]
    assert [ending for ending, _ in ends] == [None, Ending.CONTEXT], ends
    assert turn.usage.prompt_tokens + turn.usage.completion_tokens == 16_384


@pytest.mark.slow
@pytest.mark.xdist_group("proxied")
async def test_a_proxy_has_a_page_that_asks_no_model(proxied, monkeypatch) -> None:
    monkeypatch.setenv("LITELLM_KEY", KEY)
    bind(proxied, "LITELLM_KEY")
    entry = ModelEntry(base_url=f"{proxied}/v1", model="markov", api_key_env="LITELLM_KEY")
    alive = await fetch_page(entry, "/health/liveliness", 5.0)
    assert (alive and alive.status, await seen(proxied)) == (200, (Cause.LOST, None, []))


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/props"])
async def test_llama_cpp_has_the_pages_that_are_asked_for(llama, path) -> None:
    entry = ModelEntry(base_url=f"{llama}/v1", model="markov")
    page = await fetch_page(entry, path, 5.0)
    assert (page and page.status, bool(page and page.json)) == (200, True)
