"""An adaptive timeout, which asks for its own length again before it strikes."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


@asynccontextmanager
async def until(deadline: Callable[[], float], *, looks: float = math.inf) -> AsyncIterator[None]:
    """Raises TimeoutError at the deadline (by the clock of the loop), as it is told at that time.

    What is waited for may show meanwhile that it only is slow. A deadline that may come nearer is
    asked for every `looks` seconds.
    """
    loop = asyncio.get_running_loop()
    timer: list[asyncio.TimerHandle] = []
    async with asyncio.timeout(None) as limit:

        def look() -> None:
            end = deadline()
            if end > loop.time():
                timer[:] = [loop.call_at(min(end, loop.time() + looks), look)]
            else:
                limit.reschedule(end)

        look()
        try:
            yield
        finally:
            for each in timer:
                each.cancel()
