"""An adaptive timeout, which reads its deadline again before it strikes."""

import asyncio
import math
from collections.abc import Callable
from types import TracebackType


def until(deadline: Callable[[], float], *, looks: float = math.inf) -> "_Until":
    """Raises TimeoutError at the deadline (by the clock of the loop), as it stands at that time.

    What is waited for may show meanwhile that it is only slow. A deadline that may come nearer is
    read every `looks` seconds.
    """
    return _Until(deadline, looks)


class _Until:
    """Written out, as each request is within two: a generator would take twice the time."""

    __slots__ = ("_deadline", "_limit", "_looks", "_loop", "_timer")

    def __init__(self, deadline: Callable[[], float], looks: float) -> None:
        self._deadline, self._looks = deadline, looks

    async def __aenter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._limit = asyncio.timeout(None)
        await self._limit.__aenter__()
        self._look()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._limit.__aexit__(kind, error, trace)

    def _look(self) -> None:
        end, now = self._deadline(), self._loop.time()
        if end > now:
            self._timer = self._loop.call_at(min(end, now + self._looks), self._look)
        else:
            self._limit.reschedule(end)
