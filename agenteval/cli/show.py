"""`agenteval show`: runs that are stored, and the published comparison that ships as a fixture."""

from typing import TYPE_CHECKING, Annotated

import typer

from agenteval.cli import options as o

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenteval.core.run import Run

ARTICLE = "article"


def show(  # noqa: PLR0913 -- each is an option of the command line
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="Run ids, `last`, or `article`. Without any: the list of runs."),
    ] = None,
    *,
    store: o.Store = o.DEFAULT_STORE,
    report: o.Report = None,
    taxonomy: o.Taxonomy = "full",
    details: Annotated[
        bool, typer.Option("--details", help="All tables: scenarios, handshakes, provenance.")
    ] = False,
    as_json: o.AsJson = False,
) -> None:
    """Show stored runs side by side, or list them.

    Examples:
    - `agenteval show`

    - `agenteval show last --taxonomy article`

    - `agenteval show 20261121-101500-mine 20261121-110200-yours --report compare.html`

    - `agenteval show article` is the published comparison, judged again from its calls
    """
    from agenteval.cli.output import show_article, show_runs  # noqa: PLC0415 -- start-up time
    from agenteval.store.sql import SqlStore  # noqa: PLC0415

    if runs == [ARTICLE]:
        show_article(as_json=as_json)
        return
    opened = SqlStore(store)
    try:
        if runs:
            loaded = [opened.load(run) for run in runs]
            show_runs(loaded, report=report, taxonomy=taxonomy, as_json=as_json, brief=not details)
        else:
            _list(opened.runs())
    finally:
        opened.close()


def _list(runs: "Sequence[Run]") -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    if not runs:
        typer.echo("No runs yet. Try: agenteval run --model sim/qwen3.6-35b")
        return
    table = Table("run", "model", "trials", "state")
    table.columns[0].no_wrap = True  # an id that is cut cannot be typed
    for run in runs:
        name = f"{run.model.name} SIMULATED" if run.model.simulated else run.model.name
        table.add_row(
            run.id, name, str(run.trials_planned), "complete" if run.complete else "not finished"
        )
    Console().print(table)
