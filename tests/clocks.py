"""Time that a test can rely on, however busy the machine is."""

import asyncio
import re
import selectors
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from types import FrameType
from typing import Any, TypeVar

_T = TypeVar("_T")


_SLEEP = re.compile(rb"\bsleep\([^()\n]*\)")


def awake(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a world, whose scripts do not take the seconds that slow things take there."""
    return {
        name: _SLEEP.sub(b"sleep(0)", content) if name.endswith(".py") else content
        for name, content in files.items()
    }


def steps(work: Callable[[], object]) -> int:
    """How many lines of Python run; what a library in C does within one call counts as nothing."""
    count = 0

    def line(_frame: FrameType, _event: str, _arg: object) -> Any:
        nonlocal count
        count += 1
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def processor_seconds(work: Callable[[], object], *, enough: float) -> float:
    """The least of three tries, or the first below `enough`: neighbours make a core slow at times.

    For what is done in C, where no steps can be counted.
    """
    least = float("inf")
    for _ in range(3):
        start = time.process_time()
        work()
        least = min(least, time.process_time() - start)
        if least < enough:
            break
    return least


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock of its own, that a test can set forward.

    With `alone`, it goes forward by itself where nothing but time is waited for: only for what
    waits for no process and no thread.
    """

    def __init__(self, *, alone: bool) -> None:
        self._skipped = 0.0
        super().__init__(_Skipping(self) if alone else None)
        self._begins = 0.0 if alone else None

    def time(self) -> float:
        return self._skipped if self._begins == 0.0 else super().time() + self._skipped

    def skip(self, seconds: float) -> None:
        self._skipped += seconds


class _Skipping(selectors.DefaultSelector):
    def __init__(self, loop: SkippingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout else timeout)
        if timeout and not ready:
            self._loop.skip(timeout)
        return ready


def in_no_time(work: Coroutine[Any, Any, _T]) -> _T:
    """What a coroutine gives, on a clock that skips every wait; nothing else may be waited for."""
    with asyncio.Runner(loop_factory=lambda: SkippingLoop(alone=True)) as runner:
        return runner.run(work)


def on_own_clock(work: Coroutine[Any, Any, _T]) -> _T:
    """What a coroutine gives on a loop whose clock `skip` sets forward."""
    with asyncio.Runner(loop_factory=lambda: SkippingLoop(alone=False)) as runner:
        return runner.run(work)


def skip(seconds: float) -> None:
    """Set the clock of the running loop forward."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SkippingLoop)
    loop.skip(seconds)
