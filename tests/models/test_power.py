"""Power as it is summed, and as NVML (played by a module of its name) gives it or not."""

import re
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from agenteval.models.endpoints import _gpu_watts, _PowerMeter, _UnobservableError

HERE = "http://127.0.0.1:8000/v1"


class NVMLError(Exception):
    pass


def nvml(*milliwatts: int | Exception, init: Exception | None = None) -> SimpleNamespace:
    """NVML with a GPU for each power; an exception is raised where it is asked for."""

    def raised(value):
        if isinstance(value, Exception):
            raise value
        return value

    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: raised(init),
        nvmlDeviceGetCount=lambda: len(milliwatts),
        nvmlDeviceGetHandleByIndex=lambda at: at,
        nvmlDeviceGetPowerUsage=lambda gpu: raised(milliwatts[gpu]),
    )


def test_the_real_binding_answers_what_it_is_asked() -> None:
    """Without a driver it says so; with one it gives watts."""
    try:
        said = str(_gpu_watts(HERE)() > 0)
    except _UnobservableError as error:
        said = str(error)
    assert re.fullmatch("True|NVML: .*(?:Not Found|Not Supported|not known|Driver).*", said)


def test_watts_over_time_are_joules() -> None:
    before = time.perf_counter()
    with _PowerMeter(lambda: 100.0, every=0.01) as meter:
        began = time.perf_counter()
        time.sleep(0.1)
        least = 100 * (time.perf_counter() - began)
    most = 100 * (time.perf_counter() - before)
    assert least <= (meter.joules() or 0) <= most


def test_a_meter_that_missed_a_reading_tells_nothing() -> None:
    readings, gone = iter([100.0, 100.0]), threading.Event()

    def watts() -> float:
        reading = next(readings, None)
        if reading is None:
            gone.set()
            raise _UnobservableError("the driver went away")
        return reading

    with _PowerMeter(watts, every=0.01) as meter:
        gone.wait()
    assert meter.joules() is None


@pytest.mark.parametrize("url", [HERE, "http://localhost:8000/v1", "http://[::1]:8000/v1"])
def test_the_watts_of_all_gpus_are_added(monkeypatch, url) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml(350_000, 70_500))
    assert _gpu_watts(url)() == 420.5


@pytest.mark.parametrize(
    ("module", "url", "reason"),
    [
        (nvml(1), "http://10.0.0.5:8000/v1", "is not on this machine"),
        (nvml(1), "http://gpu-box:8000/v1", "is not on this machine"),
        (None, HERE, "install agenteval-gate.power."),
        (nvml(init=NVMLError("library not found")), HERE, "NVML: library not found"),
        (nvml(), HERE, "no GPU that NVML knows"),
        (nvml(NVMLError("not supported")), HERE, "NVML: not supported"),
    ],
)
def test_what_cannot_be_observed_has_its_reason(monkeypatch, module, url, reason) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", module)
    with pytest.raises(_UnobservableError, match=reason):
        _PowerMeter(_gpu_watts(url))
