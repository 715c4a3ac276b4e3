"""What servers tell of themselves: replies written after their sources, over real HTTP."""

import json
from time import sleep

import pytest
from scripted_server import scripted

from agenteval.config.models import ModelEntry, at_url
from agenteval.errors import UsageError
from agenteval.models.servers import served, server_facts
from agenteval.workflows.preflight import served_card

LLAMA = {
    "default_generation_settings": {
        "params": {"seed": 4294967295, "temperature": 0.800000011920929, "top_k": 40},
        "n_ctx": 16384,
    },
    "total_slots": 4,
    "model_alias": "qwen3",
    "model_ftype": "Q4_K - Medium",
    "chat_template": "{{ messages }}",
    "build_info": "b11669-Debian",
}
SGLANG = {
    "version": "0.5.9",
    "model_path": "Qwen/Qwen3-32B-AWQ",
    "quantization": "awq",
    "kv_cache_dtype": "fp8_e5m2",
    "tool_call_parser": "qwen25",
    "reasoning_parser": None,
    "context_length": 32768,
}
OLLAMA = {
    "version": "0.14.1",
    "template": "{{ .Messages }}",
    "parameters": "temperature    0.6\ntop_k          20",
    "details": {"family": "qwen3", "parameter_size": "32.8B", "quantization_level": "Q4_K_M"},
}


@pytest.mark.parametrize(
    ("owner", "page", "facts"),
    [
        (
            "llamacpp",
            LLAMA,
            {
                "server": "llama.cpp b11669-Debian",
                "model": "qwen3",
                "quantization": "Q4_K - Medium",
                "chat template": "sha256:",
                "context": "16384",
                "slots": "4",
                "default sampling": "temperature 0.8, top_k 40",
            },
        ),
        ("vllm", {"version": "0.33.0"}, {"server": "vLLM 0.33.0"}),
        (
            "sglang",
            SGLANG,
            {
                "server": "SGLang 0.5.9",
                "model": "Qwen/Qwen3-32B-AWQ",
                "quantization": "awq",
                "KV cache": "fp8_e5m2",
                "tool parser": "qwen25",
                "context": "32768",
            },
        ),
        (
            "library",
            OLLAMA,
            {
                "server": "Ollama 0.14.1",
                "model": "qwen3 32.8B",
                "quantization": "Q4_K_M",
                "chat template": "sha256:",
                "default sampling": "temperature 0.6 top_k 20",
            },
        ),
        ("openai", {"litellm_version": "1.106.2"}, {"server": "LiteLLM 1.106.2, a proxy"}),
        ("organization_owner", {"error": "Unexpected endpoint"}, {}),
        ("", ["no", "object"], {}),
        ("llamacpp", {"default_generation_settings": 5}, {"server": "llama.cpp"}),
        (
            "llamacpp",
            {
                "default_generation_settings": {"params": {"top_k": 20, "temperature": 10**400}},
                "chat_template": "a\ud800",
                "model_alias": "m\ud800",
            },
            {
                "server": "llama.cpp",
                "model": "m\ufffd",
                "chat template": "sha256:",
                "default sampling": "top_k 20",
            },
        ),
        ("vllm", {"detail": "Not Found"}, {}),
    ],
)
async def test_each_server_is_known_by_its_own_page(answering, reply, owner, page, facts) -> None:
    with answering(reply("200 OK", "application/json", json.dumps(page))) as url:
        seen = await server_facts(ModelEntry(base_url=url, model="m"), owner)
    assert {name: shortened(value) for name, value in seen.items()} == {
        name: shortened(value) for name, value in facts.items()
    }


def shortened(value: str) -> str:
    """A digest by what it is: its digits are the template's, which the next test compares."""
    return "a digest" if value.startswith("sha256:") else value


async def test_another_template_has_another_digest(answering, reply) -> None:
    digests = []
    for template in ("{{ a }}", "{{ b }}", "{{ a }}"):
        page = json.dumps(LLAMA | {"chat_template": template})
        with answering(reply("200 OK", "application/json", page)) as url:
            seen = await server_facts(ModelEntry(base_url=url, model="m"), "llamacpp")
        digests.append(seen["chat template"])
    assert (digests[0] == digests[2], digests[0] == digests[1]) == (True, False)


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\n{}", b"no HTTP"]
)
async def test_a_server_that_does_not_tell_is_no_error(answering, answer) -> None:
    with answering(answer) as url:
        assert await server_facts(ModelEntry(base_url=url, model="m"), "vllm") == {}


async def test_served_lists_ids_with_their_owners(answering, reply) -> None:
    body = json.dumps({"data": [{"id": "m", "owned_by": "vllm"}, {"id": "n"}]})
    with answering(reply("200 OK", "application/json", body)) as url:
        assert await served(ModelEntry(base_url=url, model="m")) == {"m": "vllm", "n": ""}


async def test_a_server_without_a_model_list_lists_none(answering, reply) -> None:
    with answering(reply("404 Not Found", "application/json", "{}")) as url:
        assert await served(ModelEntry(base_url=url, model="m")) == {}


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (("401 No", "application/json", "{}"), "401, the key is not accepted"),
        (("500 Oops", "application/json", "boom"), "500: 'boom'"),
        (("200 OK", "text/html", "<html>nginx"), r"no model list.*<html>nginx"),
        (("200 OK", "application/json", '{"data": 5}'), "no model list"),
    ],
)
async def test_a_server_that_answers_strangely_is_one_line(
    answering, reply, answer, complaint
) -> None:
    with answering(reply(*answer)) as url:
        with pytest.raises(UsageError, match=complaint):
            await served(ModelEntry(base_url=url, model="m"))


async def test_no_server_names_the_url_how_to_start_one_and_the_simulated_models() -> None:
    with pytest.raises(UsageError) as caught:
        await served(ModelEntry(base_url="http://127.0.0.1:9/v1", model="m"))
    said = str(caught.value)
    assert ("http://127.0.0.1:9/v1" in said, "vllm serve" in said, "sim/qwen" in said) == (
        True,
        True,
        True,
    )


@pytest.mark.parametrize(("seconds", "is_told"), [(0.0, False), (1.2, True)])
async def test_what_is_waited_for_is_told_after_a_second(seconds, is_told) -> None:
    left = [seconds]

    def script(_: object) -> str:
        sleep(left.pop() if left else 0)
        return "Hello."

    lines: list[str] = []
    with scripted(script) as url:
        await served_card("m", at_url(url, "m"), lines.append)
    asked = [line for line in lines if "asking the server" in line]
    assert (len(asked), "was asked what it does to calls" in lines[-1]) == (is_told, True)
