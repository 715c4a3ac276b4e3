"""A timeout that may grow while it is waited for."""

import asyncio

import pytest
from clocks import in_no_time

from agenteval.protocols import until


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
def test_it_strikes_at_the_deadline_as_it_is_then(given, waits, ended) -> None:
    expected = waits if ended else given[-1]
    assert in_no_time(waited(given, waits)) == (ended, pytest.approx(expected))


async def waited(given, waits) -> tuple[bool, float]:
    """Whether the wait came to its end, and for how long it was."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    told = list(given)

    def deadline() -> float:
        return began + (told.pop(0) if len(told) > 1 else told[0])

    try:
        async with until(deadline):
            await asyncio.sleep(waits)
    except TimeoutError:
        return False, loop.time() - began
    return True, loop.time() - began


def test_a_deadline_that_comes_nearer_is_kept_where_it_is_looked_at() -> None:
    """A program has minutes for a call, and seconds once the model has said its last word."""

    async def nearer() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(TimeoutError):
            async with until(lambda: began + (300 if loop.time() < began + 5 else 30), looks=1.0):
                await asyncio.sleep(900)
        return loop.time() - began

    assert in_no_time(nearer()) == pytest.approx(30)
