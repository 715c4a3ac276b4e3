"""`agenteval show`: runs that are stored, and the published comparison that ships as a fixture."""

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
