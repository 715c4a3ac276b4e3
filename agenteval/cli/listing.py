"""What a store holds: its runs and its imported counts, as lines or as JSON."""

import json
from typing import Any

import typer

from agenteval.core.imported import ImportedCounts
from agenteval.core.run import Run
from agenteval.report.tables import MARK
from agenteval.store.sql import SqlStore

SCHEMA = "agenteval.runs/1"


def list_runs(store: SqlStore, *, as_json: bool) -> None:
    """Print them, the newest first; the keys of the JSON stay, and are told in docs/json.md."""
    runs, ended, imported = store.runs(), store.ended(), store.imported().values()
    if as_json:
        found = {
            "schema": SCHEMA,
            "runs": [_run(run, ended.get(run.id, 0)) for run in runs],
            "imported": [_table(one) for one in imported],
        }
        typer.echo(json.dumps(found, indent=2))
        return
    if not runs:
        typer.echo(f"No runs yet in {store.shown}. Try: agenteval run --model sim/qwen3.6-35b")
    for run in runs:
        simulated = f" {MARK}" if run.model.simulated else ""
        state = "" if run.complete else "  not finished"
        played = f"{ended.get(run.id, 0)} of {run.trials_planned} trials"
        typer.echo(f"{run.id}  {run.model.name}{simulated}  {played}{state}")
    for one in imported:
        calls = sum(one.counts.calls)
        typer.echo(f"{one.id}  {one.model.name}  counts of {calls} calls, from {one.source}")


def _run(run: Run, ended: int) -> dict[str, Any]:
    return {
        "id": run.id,
        "model": run.model.name,
        "simulated": run.model.simulated,
        "started": run.started,
        "complete": run.complete,
        "trials": ended,
        "trials_planned": run.trials_planned,
    }


def _table(one: ImportedCounts) -> dict[str, Any]:
    return {
        "id": one.id,
        "model": one.model.name,
        "imported": one.imported,
        "calls": sum(one.counts.calls),
        "errors": sum(one.counts.errors),
        "source": one.source,
    }
