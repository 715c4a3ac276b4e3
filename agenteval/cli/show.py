"""`agenteval show`: runs that are stored, and the published comparison that ships as a fixture."""

from typing import TYPE_CHECKING, Annotated

import typer

from agenteval.cli import options as o
from agenteval.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agenteval.core.imported import ImportedCounts
    from agenteval.core.run import Run

ARTICLE = "article"
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
    report: o.Report = None,
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
    from agenteval.cli.output import show_article, show_runs  # noqa: PLC0415 -- start-up time
    from agenteval.store.sql import SqlStore  # noqa: PLC0415

    if runs == [ARTICLE]:
        show_article(report=report, as_json=as_json)
        return
    if ARTICLE in (runs or ()):
        raise UsageError(f"`agenteval show {ARTICLE}` stands alone: it is no run of this store")
    opened = SqlStore(store)
    try:
        if runs:
            loaded = [opened.load(run) for run in runs]
            show_runs(loaded, report=report, taxonomy=taxonomy, as_json=as_json, brief=not details)
        else:
            _list(opened.runs(), opened.ended(), opened.shown)
            _list_imported(opened.imported().values())
    finally:
        opened.close()


def _list(runs: "Sequence[Run]", ended: "Mapping[str, int]", store: str) -> None:
    if not runs:
        typer.echo(f"No runs yet in {store}. Try: agenteval run --model sim/qwen3.6-35b")
    for run in runs:
        simulated = " SIMULATED" if run.model.simulated else ""
        state = "" if run.complete else "  not finished"
        played = f"{ended.get(run.id, 0)} of {run.trials_planned} trials"
        typer.echo(f"{run.id}  {run.model.name}{simulated}  {played}{state}")


def _list_imported(imported: "Iterable[ImportedCounts]") -> None:
    for one in imported:
        calls = sum(one.counts.calls)
        typer.echo(f"{one.id}  {one.model.name}  counts of {calls} calls, from {one.source}")
