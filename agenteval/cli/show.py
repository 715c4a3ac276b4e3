"""`agenteval show`, `compare` and `import`: runs and published tables, alone and side by side."""

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenteval import report, workflows
from agenteval.cli import options as o
from agenteval.cli import output
from agenteval.errors import UsageError

if TYPE_CHECKING:
    from agenteval.core.run import Run
    from agenteval.core.summary import ImportedCounts
    from agenteval.workflows.views import Listing


ARTICLE = "article"
SCHEMA = "agenteval.runs/1"
RunIds = Annotated[
    list[str] | None,
    typer.Argument(help="Run ids, `last`, or `article`. Without any: the list of runs."),
]
Details = Annotated[
    bool, typer.Option("--details", help="All tables: scenarios, handshakes, provenance.")
]


def show(  # noqa: PLR0913 -- each is an option of the command line
    runs: RunIds = None,
    *,
    store: o.Store = o.DEFAULT_STORE,
    path: o.Report = None,
    taxonomy: o.Taxonomy = "full",
    details: Details = False,
    as_json: o.AsJson = False,
) -> None:
    """Show stored runs side by side, or list them.

    Examples:
    - `agenteval show`

    - `agenteval show last --taxonomy article`

    - `agenteval show 20261121-101500-mine 20261121-110200-yours --report compare.html`

    - `agenteval show article` is the published comparison, judged again from its calls
    """
    if runs == [ARTICLE]:
        _show_article(path, as_json=as_json)
    elif ARTICLE in (runs or ()):
        raise UsageError(f"`agenteval show {ARTICLE}` stands alone: it is no run of this store")
    elif runs:
        loaded = workflows.views.loaded(runs, store)
        output.show_runs(loaded, path=path, taxonomy=taxonomy, as_json=as_json, brief=not details)
    else:
        found = workflows.views.listing(store, or_none=store == o.DEFAULT_STORE)
        if as_json:
            output.print_json(_document(found))
        else:
            _print(found)


def _show_article(path: Path | None, *, as_json: bool) -> None:
    """Its page is written only if asked for."""
    view = workflows.views.view_of_article()
    if path is not None:
        report.html.write(view, path)
    output.show_view(view, as_json=as_json)


def _print(found: "Listing") -> None:
    if not found.runs:
        typer.echo(f"No runs yet in {found.shown}. Try: agenteval run --model sim/qwen3.6-35b")
    for run in found.runs:
        simulated = f" {report.tables.MARK}" if run.model.simulated else ""
        state = "" if run.complete else "  not finished"
        played = f"{found.ended.get(run.id, 0)} of {run.trials_planned} trials"
        typer.echo(f"{run.id}  {run.model.name}{simulated}  {played}{state}")
    for one in found.imported:
        calls = sum(one.counts.calls)
        typer.echo(f"{one.id}  {one.model.name}  counts of {calls} calls, from {one.source}")


def _document(found: "Listing") -> dict[str, Any]:
    """Its keys stay, and are told in docs/json.md."""
    return {
        "schema": SCHEMA,
        "runs": [_run(run, found.ended.get(run.id, 0)) for run in found.runs],
        "imported": [_table(one) for one in found.imported],
    }


def _run(run: "Run", ended: int) -> dict[str, Any]:
    return {
        "id": run.id,
        "model": run.model.name,
        "simulated": run.model.simulated,
        "started": run.started,
        "complete": run.complete,
        "trials": ended,
        "trials_planned": run.trials_planned,
    }


def _table(one: "ImportedCounts") -> dict[str, Any]:
    return {
        "id": one.id,
        "model": one.model.name,
        "imported": one.imported,
        "calls": sum(one.counts.calls),
        "errors": sum(one.counts.errors),
        "source": one.source,
    }


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
