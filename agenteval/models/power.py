"""The cost of playing: its time, and the power of this machine's GPUs meanwhile, through NVML."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from socket import gethostname
from typing import Self
from urllib.parse import urlsplit

from agenteval.core.run import Effort, Run

EVERY = 0.5  # seconds; NVML itself averages over less


class UnobservableError(Exception):
    """The power cannot be read, for the reason in the message."""


class PowerMeter:
    """Reads `watts` in a thread of its own. `joules` is None when a reading was missed."""

    def __init__(self, watts: Callable[[], float], *, every: float = EVERY) -> None:
        """Reads once. Raises UnobservableError."""
        self._watts, self._every = watts, every
        self._last = time.perf_counter(), watts()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._sum: float | None = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def joules(self) -> float | None:
        """Until now while it runs, and of all the time after that."""
        return self._sum

    def _sample(self) -> None:
        while self._sum is not None:
            over = self._over.wait(self._every)
            self._sum = self._added(self._sum)
            if over:
                return

    def _added(self, joules: float) -> float | None:
        began, before = self._last
        try:
            after = self._watts()
        except UnobservableError:
            return None
        self._last = time.perf_counter(), after
        return joules + (self._last[0] - began) * (before + after) / 2


@dataclass(slots=True)
class Spent:
    """The effort is known when the measuring has ended, however it ended."""

    effort: Effort | None = None

    @contextmanager
    def measured(self, meter: PowerMeter | None) -> Iterator[None]:
        began = time.perf_counter()
        try:
            with meter or nullcontext():
                yield
        finally:
            joules = meter.joules() if meter else None
            self.effort = Effort(time.perf_counter() - began, joules)


def gpu_watts(base_url: str) -> Callable[[], float]:
    """Reads the watts of all GPUs of this machine together, where that machine serves the URL.

    Raises UnobservableError.
    """
    if not all(map(_is_here, base_url.split())):
        raise UnobservableError(f"{base_url} is not on this machine")
    try:
        import pynvml  # noqa: PLC0415 -- an extra
    except ModuleNotFoundError as error:
        raise UnobservableError(
            "install agenteval-gate[power], which brings nvidia-ml-py"
        ) from error

    try:
        pynvml.nvmlInit()
        gpus = [pynvml.nvmlDeviceGetHandleByIndex(at) for at in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        raise UnobservableError(f"NVML: {error}") from error
    if not gpus:
        raise UnobservableError("this machine has no GPU that NVML knows")

    def read() -> float:
        try:
            return float(sum(map(pynvml.nvmlDeviceGetPowerUsage, gpus))) / 1000  # from milliwatts
        except pynvml.NVMLError as error:
            raise UnobservableError(f"NVML: {error}") from error

    return read


def _is_here(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host in {"localhost", gethostname()}


def power_meter(run: Run, note: Callable[[str], None]) -> PowerMeter | None:
    """Return a meter, or None if the power cannot be observed; one line then says why."""
    reason = "a simulated model needs no GPU"
    if not run.model.simulated:
        try:
            return PowerMeter(gpu_watts(run.model.base_url))
        except UnobservableError as error:
            reason = str(error)
    note(f"{run.model.name}: power is not observable: {reason}")
    return None
