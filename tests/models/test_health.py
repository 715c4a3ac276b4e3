"""A server that falls over is seen once, and what it broke is said to be a crash."""

import pytest
from aiohttp import web

from agenteval.config.models import ModelEntry
from agenteval.core.run import Crash
from agenteval.errors import Cause, InfrastructureError
from agenteval.models.health import ServerHealth

LOST = InfrastructureError("reset", Cause.LOST)
BUSY = InfrastructureError("429", Cause.CONTEXT_CUT)
BEGAN = "process_start_time_seconds 100.0\n"
DONE = 'vllm:request_success_total{a="b"} 3.0\nvllm:request_success_total{a="c"} 4.0\n'
FEWER = 'vllm:request_success_total{a="b"} 1.0\n'


async def causes(pages: list[str | None]) -> tuple[list[Cause], list[str]]:
    """What failures are said to be while the metrics read so, one look after the other."""
    kept: list[Crash] = []

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=pages[0])

    async def health(request: web.Request) -> web.Response:
        if pages[0] is None and request.transport is not None:
            request.transport.abort()
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/health", health)
    app.router.add_get("/v1/models", health)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    entry = ModelEntry(base_url=f"http://127.0.0.1:{runner.addresses[0][1]}/v1", model="m")
    said = []
    try:
        async with ServerHealth(entry, kept.append) as watched:
            while len(pages) > 1:
                pages.pop(0)
                said.append((await watched.after(LOST)).cause)
    finally:
        await runner.cleanup()
    return said, [crash.said for crash in kept]


GONE, ANEW = "the server is gone", "the server was started anew"


@pytest.mark.parametrize(
    ("pages", "said", "crashes"),
    [
        ([BEGAN, BEGAN], [Cause.LOST], []),
        (["", ""], [Cause.LOST], []),
        ([BEGAN, BEGAN.replace("100", "200")], [Cause.CRASHED], [ANEW]),
        ([DONE, DONE], [Cause.LOST], []),
        ([DONE, FEWER, FEWER], [Cause.CRASHED, Cause.LOST], [ANEW]),
        ([BEGAN, None, None, BEGAN.replace("100", "200")], [Cause.CRASHED] * 3, [GONE]),
    ],
)
async def test_a_crash_is_counted_once_and_named(pages, said, crashes) -> None:
    assert await causes(list(pages)) == (said, crashes)


async def test_what_no_crash_explains_stays_what_it_is() -> None:
    watched = ServerHealth(ModelEntry(base_url="http://127.0.0.1:9/v1", model="m"), [].append)
    assert await watched.after(BUSY) is BUSY
