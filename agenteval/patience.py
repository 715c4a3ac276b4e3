"""A timeout that asks for its own length again before it strikes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

MOMENT = 0.05  # seconds before its end


@asynccontextmanager
async def until(deadline: Callable[[], float]) -> AsyncIterator[None]:
    """Raises TimeoutError at the deadline (by the clock of the loop), as it is told at that time.

    What is waited for may show meanwhile that it only is slow.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout_at(deadline()) as limit:

        def look(known: float) -> None:
            later = deadline()
            if later > known + MOMENT:
                limit.reschedule(later)
                wait(later)

        def wait(known: float) -> None:
            timers[:] = [loop.call_at(known - MOMENT, look, known)]

        timers: list[asyncio.TimerHandle] = []
        wait(limit.when() or 0.0)
        try:
            yield
        finally:
            timers[0].cancel()
