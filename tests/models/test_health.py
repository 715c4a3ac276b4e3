"""A server that falls over is seen once, and what it broke is said to be a crash."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from agenteval.config.models import ModelEntry
from agenteval.errors import Cause, InfrastructureError
from agenteval.models.servers import ServerHealth
from agenteval.trial.run import Crash

LOST = InfrastructureError("reset", Cause.LOST)
BUSY = InfrastructureError("429", Cause.CONTEXT_CUT)
GONE, ANEW = "the server is gone", "the server was started anew"
UNREADY = "the server is not ready any more"


@dataclass
class Server:
    """Answers with the text of a page, or a status; everything else is not found."""

    pages: Mapping[str, str | int] | None
    asked: list[str] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        if self.pages is None and request.transport is not None:
            request.transport.abort()
        found = (self.pages or {}).get(request.path, 404)
        return (
            web.Response(status=found) if isinstance(found, int) else web.Response(text=str(found))
        )


@asynccontextmanager
async def served(server: Server) -> AsyncIterator[ModelEntry]:
    app = web.Application()
    app.router.add_get("/{path:.*}", server.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield ModelEntry(base_url=f"http://127.0.0.1:{runner.addresses[0][1]}/v1", model="m")
    finally:
        await runner.cleanup()


async def causes(*pages: Mapping[str, str | int] | None) -> tuple[list[Cause], list[str]]:
    """What failures are said to be while the pages read so, one look after the other."""
    kept: list[Crash] = []
    said, server = [], Server(pages[0])
    async with served(server) as entry, ServerHealth(entry, kept.append) as watched:
        for server.pages in pages[1:]:
            said.append((await watched.after(LOST)).cause)
    return said, [crash.said for crash in kept]


def well(metrics: str | int = 404) -> Mapping[str, str | int]:
    return {"/health": "ok", "/v1/models": "{}", "/metrics": metrics}


# As vLLM 0.19 writes them with two engines, and SGLang 0.5 with and without streams; on Ray a
# metric has _ for its :, and a page may give the time of a value.
BEGAN = "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.75e+09\n"
LATER = BEGAN.replace("1.75", "1.76")
VLLM = """\
# HELP vllm:request_success_total Count of successfully processed requests.
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="a}b"} 3.0
vllm:request_success_total{engine="1",finished_reason="stop",model_name="a}b"} 4.0
vllm:request_success_created{engine="0",finished_reason="stop",model_name="a}b"} 1.7e+09
vllm:kv_cache_usage_perc{engine="0",model_name="a}b"} 0.2
"""
SGLANG = """\
sglang:num_requests_total{engine_type="unified",is_streaming="true",model_name="m"} 12.0
sglang:num_requests_total{engine_type="unified",is_streaming="false",model_name="m"} 1.0
sglang:num_running_reqs{engine_type="unified",model_name="m"} 2.0
"""
LLAMA = "llamacpp:tokens_predicted_total 812\nllamacpp:requests_processing 0\n"
BIG = "# " + "x" * 300_000 + "\n"  # more than the network brings at once


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BEGAN, LATER),
        (BIG + BEGAN, BIG + LATER),
        (VLLM, VLLM.replace("4.0", "1.0")),
        (VLLM, VLLM.replace(" 3.0", " 0.0 1790000000000")),
        (SGLANG, SGLANG.replace("12.0", "0.0")),
        (SGLANG.replace(":", "_"), SGLANG.replace(":", "_").replace("12.0", "0.0")),
        (LLAMA, LLAMA.replace("812", "3")),
    ],
    ids=["process", "big page", "vLLM", "with times", "SGLang", "SGLang on Ray", "llama.cpp"],
)
async def test_a_restart_is_seen_in_the_metrics(before, after) -> None:
    assert (await causes(well(before), well(before)), await causes(well(before), well(after))) == (
        ([Cause.LOST], []),
        ([Cause.CRASHED], [ANEW]),
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (404, VLLM),
        ("", SGLANG),
        (VLLM, 404),
        (VLLM, VLLM.replace("4.0", "9.0")),
        ("process_start_time_seconds NaN\n", "process_start_time_seconds NaN\n"),
    ],
)
async def test_what_tells_of_no_restart_is_none(before, after) -> None:
    assert await causes(well(before), well(after)) == ([Cause.LOST], [])


NOT_READY = {"/health": 503, "/v1/models": "{}"}


@pytest.mark.parametrize(
    ("pages", "said", "crashes"),
    [
        ((well(BEGAN), None, None, well(LATER)), [Cause.CRASHED] * 3, [GONE]),
        ((well(VLLM), well(VLLM.replace("4.0", "0.0")), well(VLLM)), [Cause.CRASHED, Cause.LOST],
         [ANEW]),
        # vLLM's engine is dead, llama.cpp loads its model again: both say 503.
        ((well(), NOT_READY, NOT_READY, well()), [Cause.CRASHED, Cause.CRASHED, Cause.LOST],
         [UNREADY]),
        # It was never ready: nothing crashed.
        ((NOT_READY, NOT_READY, well()), [Cause.LOST, Cause.LOST], []),
        # Ollama has no such page, and another server wants a key for it.
        (({"/v1/models": "{}"}, {"/v1/models": "{}"}), [Cause.LOST], []),
        (({"/health": 401, "/v1/models": 401}, {"/health": 401, "/v1/models": 401}), [Cause.LOST],
         []),
    ],
)  # fmt: skip
async def test_a_crash_is_counted_once_and_named(pages, said, crashes) -> None:
    assert await causes(*pages) == (said, crashes)


async def test_a_proxy_is_not_made_to_ask_every_model_behind_it() -> None:
    server = Server({"/health/liveliness": '"I\'m alive!"', "/v1/models": "{}"})
    async with served(server) as entry, ServerHealth(entry, [].append):
        pass
    assert set(server.asked) == {"/health/liveliness", "/v1/models", "/metrics"}


@pytest.mark.parametrize(
    ("pages", "length"),
    [
        ({"/v1/models": '{"data": [{"id": "x"}, {"id": "m", "max_model_len": 32768}]}'}, 32_768),
        ({"/v1/models": '{"data": [{"id": "x", "max_model_len": 32768}]}'}, None),
        ({"/props": '{"default_generation_settings": {"n_ctx": 16384}}'}, 16_384),
        ({"/props": '{"default_generation_settings": {"n_ctx": 0}}'}, None),
        ({"/api/ps": '{"models": [{"name": "m:latest", "context_length": 4096}]}'}, 4096),
        ({"/v1/models": "[" * 100_000, "/props": "no", "/api/ps": '{"models": 7}'}, None),
        ({"/v1/models": '{"data": [{"id": ["x"]}, {"id": "m", "max_model_len": 8}]}'}, 8),
        ({"/api/ps": '{"models": [{"name": {}}, {"name": "m", "context_length": 8}]}'}, 8),
        ({"/v1/models": '{"data": [{"id": "m", "max_model_len": true}]}'}, None),
        (None, None),
    ],
    ids=[
        *("vLLM, SGLang", "another model", "llama.cpp", "no slot", "Ollama", "nonsense"),
        *("a list as id", "an object as name", "no number", "gone"),
    ],
)
async def test_how_long_a_context_is_is_asked_for_once(pages, length) -> None:
    server = Server(pages)
    async with served(server) as entry, ServerHealth(entry, [].append) as watched:
        first = await watched.context()
        asked = len(server.asked)
        second = await watched.context()
        assert (first, second, len(server.asked)) == (length, length, asked)


async def test_what_no_crash_explains_stays_what_it_is() -> None:
    watched = ServerHealth(ModelEntry(base_url="http://127.0.0.1:9/v1", model="m"), [].append)
    assert await watched.after(BUSY) is BUSY
