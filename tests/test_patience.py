"""A timeout that may grow while it is waited for."""

import asyncio
import time

import pytest

from agenteval.patience import until


@pytest.mark.parametrize(
    ("given", "waits", "ended"),
    [
        ((0.3,), 0.1, True),
        ((0.3,), 0.6, False),
        ((0.2, 0.6), 0.4, True),
        ((0.2, 0.4, 0.8), 0.6, True),
        ((0.2, 0.4), 0.9, False),
    ],
)
async def test_it_strikes_at_the_deadline_as_it_is_then(given, waits, ended) -> None:
    began = asyncio.get_running_loop().time()
    told = list(given)

    def deadline() -> float:
        return began + (told.pop(0) if len(told) > 1 else told[0])

    started = time.monotonic()
    try:
        async with until(deadline):
            await asyncio.sleep(waits)
        done = True
    except TimeoutError:
        done = False
    expected = waits if ended else given[-1]
    assert (done, round(time.monotonic() - started - expected, 1)) == (ended, 0.0)
