"""What playing a run takes: its time, and its energy where that was asked for and can be seen."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import typer

from agenteval.core.run import Effort, Run
from agenteval.models.power import PowerMeter, UnobservableError, gpu_watts


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


def power_meter(run: Run) -> PowerMeter | None:
    """None where the power cannot be observed; one line then says why."""
    reason = "a simulated model needs no GPU"
    if not run.model.simulated:
        try:
            return PowerMeter(gpu_watts(run.model.base_url))
        except UnobservableError as error:
            reason = str(error)
    typer.echo(f"{run.model.name}: power is not observable: {reason}", err=True)
    return None
