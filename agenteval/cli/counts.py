"""`agenteval import counts`: a published table becomes something to compare with."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agenteval.cli import options as o

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agenteval.core.run import ModelCard

app = typer.Typer(help="Read what was measured elsewhere.", no_args_is_help=True)


@app.callback()
def main() -> None:
    """Read what was measured elsewhere."""


@app.command()
def counts(
    file: Annotated[Path, typer.Argument(help="A CSV file.")],
    *,
    store: o.Store = o.DEFAULT_STORE,
) -> None:
    """Store the counts of a published table, one entry for each model.

    The columns are model, calls, class and errors; trial and scenario where they are known. A line
    is one class of one trial, or of one model where trials are not known; every line repeats the
    calls. Nothing else can be seen of such counts: no recovery, no outcome.

    Examples:
    - `agenteval import counts published.csv`

    - `agenteval compare published.csv` compares without storing
    """
    from datetime import UTC, datetime  # noqa: PLC0415 -- start-up time, as all imports below

    from agenteval.core.imported import ImportedCounts  # noqa: PLC0415
    from agenteval.formats.counts import load_counts  # noqa: PLC0415
    from agenteval.store.sql import SqlStore  # noqa: PLC0415

    tables, now = load_counts(file), datetime.now(UTC)
    known, opened = cards(tables), SqlStore(store)
    try:
        for model, table in tables.items():
            name = f"{now:%Y%m%d-%H%M%S}-{model.replace('/', '-').replace(' ', '-')}"
            stamp = now.isoformat(timespec="milliseconds")
            imported = ImportedCounts(
                opened.free_id(name), known[model], stamp, str(file), table.trials, table.counts
            )
            opened.add_imported(imported)
            calls, errors = sum(imported.counts.calls), sum(imported.counts.errors)
            typer.echo(f"{imported.id}  {errors} errors in {calls} calls")
    finally:
        opened.close()


def cards(models: "Iterable[str]") -> "Mapping[str, ModelCard]":
    """What agenteval.toml knows of each model, by its name or by the id it is served under."""
    from agenteval.config.models import load_models  # noqa: PLC0415 -- start-up time
    from agenteval.config.paths import roots  # noqa: PLC0415
    from agenteval.core.run import ModelCard  # noqa: PLC0415

    configured = load_models(roots())
    served = {entry.model: entry for entry in configured.values()} | dict(configured)
    return {
        model: ModelCard(
            name=model,
            served_id=served[model].model,
            architecture=served[model].architecture,
            total_parameters=served[model].total_parameters,
            active_parameters=served[model].active_parameters,
        )
        if model in served
        else ModelCard(name=model, served_id=model)
        for model in models
    }
