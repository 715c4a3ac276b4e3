"""`agenteval show`: runs that are stored, and the published comparison that ships as a fixture."""

from typing import Annotated

import typer

from agenteval.cli import options as o
from agenteval.errors import UsageError

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
    from agenteval.cli.listing import list_runs  # noqa: PLC0415 -- start-up time
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
            list_runs(opened, as_json=as_json)
    finally:
        opened.close()
