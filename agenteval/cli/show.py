"""`agenteval show`, `compare` and `import`: runs and published tables, alone and side by side."""

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenteval import report, workflows
from agenteval.cli import options as o
from agenteval.cli import output
from agenteval.cli.shown_runs import Form, show_runs
from agenteval.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agenteval.report.view import View
    from agenteval.store.listed import Listed, ListedTable
    from agenteval.workflows.shelf import Listing


ARTICLE = "article"
SCHEMA = "agenteval.runs/1"
RunIds = Annotated[
    list[str] | None,
    typer.Argument(help=f"{o.RUN_WORDS}; or `article`. Without any: the list of runs."),
]
OfModel = Annotated[str | None, typer.Option("--model", "-m", help="List: models with this in it.")]
OfLabel = Annotated[str | None, typer.Option("--label", help="List: runs with this label.")]
Since = Annotated[
    str | None,
    typer.Option(metavar="DATE", help="List: runs of this day (UTC) and later, 2026-11-22."),
]
Details = Annotated[
    bool, typer.Option("--details", help="All tables: scenarios, handshakes, provenance.")
]

ReportFile = Annotated[
    Path | None,
    typer.Option("--report", help="Write the whole report: FILE.html, .md, .csv or .json."),
]


def show(  # noqa: PLR0913 -- each is an option of the command line
    runs: RunIds = None,
    *,
    store: o.Store = o.DEFAULT_STORE,
    path: ReportFile = None,
    github: o.GitHub = False,
    taxonomy: o.Taxonomy = "full",
    about: o.About = None,
    details: Details = False,
    model: OfModel = None,
    label: OfLabel = None,
    since: Since = None,
    as_json: o.AsJson = False,
) -> None:
    """Show stored runs side by side, or list them.

    Examples:
    - `agenteval show`

    - `agenteval show --model qwen --since 2026-11-01`

    - `agenteval show qwen3.6-35b qwen3.5-27b` shows the last run of each

    - `agenteval show 20261121-101500-mine 20261121-110200-yours --report compare.html`

    - `agenteval show article` is the published comparison, judged again from its calls
    """
    gc.disable()  # as below
    if runs == [ARTICLE]:
        _show_article(path, as_json=as_json)
    elif ARTICLE in (runs or ()):
        raise UsageError(f"`agenteval show {ARTICLE}` stands alone: it is no run of this store")
    elif runs:
        form = Form(path, taxonomy, about, github=github, as_json=as_json, brief=not details)
        show_runs(workflows.views.sides(output.chosen(runs, store), store), form)
    else:
        _list(store, model=model, label=label, since=since, as_json=as_json)


def _list(
    store: str, *, model: str | None, label: str | None, since: str | None, as_json: bool
) -> None:
    usual = store == o.DEFAULT_STORE
    listing = workflows.shelf.listing(store, or_none=usual, model=model, label=label, since=since)
    if as_json:
        output.print_json(_document(listing))
    else:
        _print(listing, filtered=bool(model or label or since))


def _show_article(path: Path | None, *, as_json: bool) -> None:
    view = workflows.measured_elsewhere.view_of_article()
    if path is not None:
        output.write_report(view, path)
    output.show_view(view, as_json=as_json)


def _print(listing: "Listing", *, filtered: bool) -> None:
    if not listing.runs:
        more = "such runs" if filtered else "runs yet"
        told = f"No {more} in {listing.store_name}. Try: agenteval run --model sim/qwen3.6-35b"
        output.say(o.at_store(told))
    for run in listing.runs:
        simulated = f" {report.tables.MARK}" if run.simulated else ""
        state = "" if run.complete else "  not finished"
        played = f"{len(run.outcomes)} of {run.trials_planned} trials"
        output.say(f"{run.id}  {run.model}{simulated}  {played}{state}")
        for line in _about(run):
            output.say(f"    {line}")
    for one in () if filtered else listing.imported:
        output.say(f"{one.id}  {one.model}  counts of {one.calls} calls, from {one.source}")


def _about(run: "Listed") -> "Iterator[str]":
    """Yield the facts that distinguish a run from the others."""
    errors, goals = workflows.shelf.errors_of(run), workflows.shelf.reached(run)
    scenarios = run.scenarios[0] if len(run.scenarios) == 1 else f"{len(run.scenarios)} scenarios"
    summary = ", ".join(filter(None, (scenarios, run.arm, f"seed {run.seed}")))
    if run.source:
        summary = f"sessions out of logs of {run.source}; goal reached: not observable"
    elif run.counted:
        summary += f"; goal reached in {goals.count} of {goals.n}"
    yield summary + (f"; gate {run.verdict}" if run.verdict else "")
    if errors.n:
        yield f"errors per 100 calls: {errors.per_100()}"
    if void := len(run.outcomes) - run.counted:
        yield f"{void} void"
    if run.labels:
        yield f"labels: {', '.join(run.labels)}"
    if run.note:
        yield f"note: {run.note}"


def _document(listing: "Listing") -> dict[str, Any]:
    """Return the JSON document. Its keys are stable, and docs/json.md describes them."""
    return {
        "schema": SCHEMA,
        "runs": [_run(run) for run in listing.runs],
        "imported": [_table(one) for one in listing.imported],
    }


def _run(run: "Listed") -> dict[str, Any]:
    errors, goals = workflows.shelf.errors_of(run), workflows.shelf.reached(run)
    return {
        "id": run.id,
        "model": run.model,
        "simulated": run.simulated,
        "started": run.started,
        "complete": run.complete,
        "trials": len(run.outcomes),
        "trials_planned": run.trials_planned,
        "seed": run.seed,
        "arm": run.arm,
        "source": run.source,
        "scenarios": list(run.scenarios),
        "void": len(run.outcomes) - run.counted,
        "errors": {"count": errors.count, "n": errors.n, "low": errors.low, "high": errors.high},
        "reached": {"count": goals.count, "n": goals.n, "low": goals.low, "high": goals.high},
        "verdict": run.verdict,
        "labels": list(run.labels),
        "note": run.note,
    }


def _table(table: "ListedTable") -> dict[str, Any]:
    return {
        "id": table.id,
        "model": table.model,
        "imported": table.imported,
        "calls": table.calls,
        "errors": table.errors,
        "source": table.source,
    }


Names = Annotated[
    list[str],
    typer.Argument(help=f"{o.RUN_WORDS}; imported counts, or CSV files of counts: two models."),
]


def compare(  # noqa: PLR0913 -- each is an option of the command line
    runs: Names,
    *,
    store: o.Store = o.DEFAULT_STORE,
    report: ReportFile = None,
    taxonomy: o.Taxonomy = "full",
    about: o.About = None,
    across_arms: o.AcrossArms = False,
    stacks: Annotated[
        bool, typer.Option("--stacks", help="Two servings of one model: where a difference points.")
    ] = False,
    github: o.GitHub = False,
    as_json: o.AsJson = False,
) -> None:
    """Compare models pair by pair: how many errors, which kinds, recovery and outcome.

    Runs that met the same worlds (same scenarios, same --seed) are compared world by world.

    Examples:
    - `agenteval compare qwen3.6-35b qwen3.5-27b` compares the last run of each

    - `agenteval compare 20261121-101500-mine last --report compare.html`

    - `agenteval compare published.csv`

    - `agenteval compare --stacks on-vllm on-llama-cpp`
    """
    gc.disable()  # a third of the time of a large run, and nothing here is to be collected
    named = [output.named(run, store) for run in runs]
    if stacks:
        _print_stacks(named, store, about)
        return
    found = workflows.views.models_of(named, store, calls=as_json or report is not None)
    view = workflows.views.compared(found, taxonomy, about, across_arms=across_arms)
    _tell(view, report, github=github, as_json=as_json)


def _tell(view: "View", path: Path | None, *, github: bool, as_json: bool) -> None:
    if path is not None:
        output.write_report(view, path)
    if github:
        output.step_summary(report.markdown.dumps(view))
    output.show_view(view, as_json=as_json)
    if path is not None and not as_json:
        output.say(f"Report: {path}")


def _print_stacks(named: "Sequence[str]", store: str, about: str | None) -> None:
    runs, view = workflows.views.stacks(named, store, about)
    for line in report.stacks.stack_lines(runs, view):
        output.say(line)


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
    for one in workflows.measured_elsewhere.import_counts(file, store):
        calls, errors = sum(one.counts.calls), sum(one.counts.errors)
        output.say(f"{one.id}  {errors} errors in {calls} calls")
