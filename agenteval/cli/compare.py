"""`agenteval compare`: how two or more models differ, with what is settled and what is not."""

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agenteval.cli import options as o
from agenteval.errors import UsageError

if TYPE_CHECKING:
    from agenteval.report.side import Side
    from agenteval.store.sql import SqlStore

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
    from agenteval.cli.output import class_texts, fold, show_view, write_report  # noqa: PLC0415
    from agenteval.report.build import build_comparison  # noqa: PLC0415 -- start-up time

    gc.disable()  # a third of the time of a large run, and nothing here is to be collected
    sides = _sides(runs, store)
    if len(sides) < 2:
        raise UsageError(
            f"compare: {' '.join(runs)} is one model; name another run, or a file of counts"
        )
    view = build_comparison(sides, classes=class_texts(), fold=fold(taxonomy))
    if report is not None:
        write_report(view, report)
    show_view(view, as_json=as_json)
    if report is not None and not as_json:
        typer.echo(f"Report: {report}")


def _sides(names: list[str], url: str) -> "list[Side]":
    from agenteval.store.sql import SqlStore  # noqa: PLC0415 -- as above

    store = SqlStore(url)
    try:
        return [side for name in names for side in _of(name, store)]
    finally:
        store.close()


def _of(name: str, store: "SqlStore") -> "list[Side]":
    """The models behind one argument: as many as its file has."""
    from agenteval.cli.counts import cards  # noqa: PLC0415 -- as above
    from agenteval.formats.counts import load_counts  # noqa: PLC0415
    from agenteval.report.side import Side  # noqa: PLC0415

    if name.endswith(".csv"):
        tables = load_counts(Path(name))
        known = cards(tables)
        return [Side.of_counts(known[model], table.counts) for model, table in tables.items()]
    found = store.meant(name)
    if imported := store.imported().get(found):
        return [Side.of_counts(imported.model, imported.counts)]
    return [Side.of_run(*store.summarized(found))]
