"""`agenteval compare`, and `import` of published tables to compare with."""

import gc
from pathlib import Path
from typing import Annotated

import typer

from agenteval import workflows
from agenteval.cli import options as o
from agenteval.cli import output

Names = Annotated[
    list[str],
    typer.Argument(help="Run ids, `last`, imported counts, or CSV files of counts: two models."),
]
ReportFile = Annotated[
    Path | None, typer.Option("--report", help="Write the whole report: FILE.html or FILE.md.")
]


def compare(
    runs: Names,
    *,
    store: o.Store = o.DEFAULT_STORE,
    report: ReportFile = None,
    taxonomy: o.Taxonomy = "full",
    as_json: o.AsJson = False,
) -> None:
    """Compare models pair by pair: how many errors, which kinds, recovery and outcome.

    Runs that met the same worlds (same scenarios, same --seed) are compared world by world.

    Examples:
    - `agenteval compare 20261121-101500-mine 20261121-110200-yours`

    - `agenteval compare 20261121-101500-mine last --report compare.html`

    - `agenteval compare published.csv`
    """
    gc.disable()  # a third of the time of a large run, and nothing here is to be collected
    view = workflows.views.compared(runs, store, taxonomy)
    if report is not None:
        output.write_report(view, report)
    output.show_view(view, as_json=as_json)
    if report is not None and not as_json:
        typer.echo(f"Report: {report}")


imports = typer.Typer(
    help="Read what was measured elsewhere.", no_args_is_help=True, add_completion=False
)


@imports.callback()
def main() -> None:
    """Read what was measured elsewhere."""


@imports.command()
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
    with workflows.views.opened(store) as there:
        for one in workflows.ingest.import_counts(file, there):
            calls, errors = sum(one.counts.calls), sum(one.counts.errors)
            typer.echo(f"{one.id}  {errors} errors in {calls} calls")
