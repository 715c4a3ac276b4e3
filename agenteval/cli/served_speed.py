"""`agenteval speed RUN...`: the speed of stored runs, and how any speed is printed."""

import json
from collections.abc import Sequence

import typer
from rich.console import Console

from agenteval.core.run import Run
from agenteval.report.console import print_table
from agenteval.report.speed import Served, speed_tables
from agenteval.stats.speeds import run_speed
from agenteval.store.sql import SqlStore


def of_runs(run_ids: Sequence[str], store: str) -> list[Served]:
    """Raises UsageError for an unknown run."""
    opened = SqlStore(store)
    try:
        runs = [opened.load(run_id) for run_id in run_ids]
    finally:
        opened.close()
    return [_served(run) for run in runs]


def show_sweep(runs: Sequence[Run]) -> None:
    """The speed at each level; nothing where there is only one."""
    if len({run.concurrency for run in runs}) > 1:
        show_speed([_served(run) for run in runs], as_json=False)


def _served(run: Run) -> Served:
    return Served(run.model.name, run.model.simulated, run_speed(run), run.id)


def show_speed(served: Sequence[Served], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([one.document() for one in served], indent=2))
        return
    console = Console()
    for table in speed_tables(served):
        print_table(console, table)
