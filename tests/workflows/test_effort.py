"""What playing a run took, with GPUs that are played by a module of NVML's name."""

import sys
import time
from types import SimpleNamespace

from agenteval.models.endpoints import Spent, power_meter
from agenteval.testing import card, run

NVML = SimpleNamespace(
    NVMLError=OSError,
    nvmlInit=lambda: None,
    nvmlDeviceGetCount=lambda: 1,
    nvmlDeviceGetHandleByIndex=lambda at: at,
    nvmlDeviceGetPowerUsage=lambda _: 300_000,
)


def spent(base_url: str, note=print) -> Spent:
    found = Spent()
    with found.measured(power_meter(run(model=card(base_url=base_url)), note)):
        time.sleep(0.05)
    return found


def test_time_and_energy_of_a_model_served_here_are_kept(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", NVML)
    before = time.perf_counter()
    effort = spent("http://localhost:8000/v1").effort
    assert effort is not None
    assert 300 * 0.05 <= effort.joules <= 300 * (time.perf_counter() - before)


def test_a_model_served_elsewhere_has_its_time_and_a_line_that_says_why() -> None:
    lines = []
    effort = spent("http://10.0.0.5:8000/v1", lines.append).effort
    assert effort is not None
    assert (effort.seconds >= 0.05, effort.joules, lines) == (
        True,
        None,
        ["test-model: power is not observable: http://10.0.0.5:8000/v1 is not on this machine"],
    )
