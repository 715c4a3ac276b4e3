"""LiteLLM between us and a real llama.cpp server: what comes through, and what does not."""

import pytest
from caller import FLAG, PIPED
from played import SAMPLING, inside, play
from proxy import KEY

from agenteval.config.models import ModelEntry
from agenteval.config.trust import bind
from agenteval.errors import InfrastructureError, UsageError
from agenteval.models.openai_client import OpenAIModel
from agenteval.models.servers import served, server_facts
from agenteval.trial.trial import Message

BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a command.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}
SAID = [Message("system", "You keep notes."), Message("user", "Look at every note.")]

# The proxy takes many seconds of processor to start: one does for all.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("proxied")]


@pytest.fixture
def key(proxied, monkeypatch) -> None:
    monkeypatch.setenv("LITELLM_KEY", KEY)
    bind(proxied, "LITELLM_KEY")


def entry(address: str, **more: object) -> ModelEntry:
    known = {"model": "markov", "api_key_env": "LITELLM_KEY", "sampling": SAMPLING}
    return ModelEntry(base_url=f"{address}/v1", **(known | more))


async def ask(address: str, **more: object):
    async with OpenAIModel(entry(address, **more)) as model:
        return await model.ask(SAID, [BASH], seed=7)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_reply_is_the_same_through_the_proxy(llama, proxied, key, stream) -> None:
    async def ask_directly():
        return await ask(llama, api_key_env="", stream=stream)

    await ask_directly()  # the prompt is in the server's cache from here on
    direct, through = await ask_directly(), await ask(proxied, stream=stream)
    seen = [
        (turn.text, [(call.name, call.arguments, len(call.id)) for call in turn.calls],
         turn.finish_reason, turn.usage, turn.malformed)
        for turn in (direct, through)
    ]  # fmt: skip
    assert (seen[0], direct.usage.cached_tokens > 0) == (seen[1], True)


async def test_a_server_that_is_gone_behind_the_proxy_is_the_machines_error(proxied, key) -> None:
    with pytest.raises(InfrastructureError, match=r"500"):
        await ask(proxied, model="gone")


async def test_a_key_that_the_proxy_does_not_know_is_the_users_error(proxied) -> None:
    # Without a database it cannot look keys up, and says so with 400 and not with 401.
    with pytest.raises(UsageError, match=r"400, the server refuses the request: .*No connected db"):
        await ask(proxied, api_key_env="NO_SUCH_KEY")


async def test_the_proxy_tells_that_it_is_one(proxied, key) -> None:
    owner = (await served(entry(proxied)))["markov"]
    assert (await server_facts(entry(proxied), owner))["server"].startswith("LiteLLM 1.")


def test_the_report_finds_the_rates_through_the_proxy(llama, proxied, project, key) -> None:
    # Whole replies: LiteLLM keeps the connections that llama.cpp hangs up on behind a stream, and
    # then answers 500 to some requests.
    report = play(project, f"{proxied}/v1", trials=10, api_key_env="LITELLM_KEY", stream=False)
    (model,), (run,) = report["models"], report["runs"]
    assert (run["voids"], run["arrivals"]["faulty"]["count"]) == ([], 0)
    assert inside(model["errors"], PIPED + FLAG)
