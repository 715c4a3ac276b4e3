"""What commands print: tables or JSON, the reports beside them, and how a run goes on."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from agenteval import report, workflows
from agenteval.errors import UsageError

if TYPE_CHECKING:
    from agenteval.core.run import Run
    from agenteval.protocols import Observer
    from agenteval.report.live import Live
    from agenteval.report.speed import Served
    from agenteval.report.view import View

REPORTS = Path("reports")


@contextmanager
def reader_may_go() -> Iterator[None]:
    """Ends quietly when nobody reads the output any more (`| head`); what comes after is lost."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=2))


@dataclass(frozen=True, slots=True)
class Playing:
    """Shows how runs go on: a line each while they are played, and notes above them."""

    lines: "Live"

    def run(self, model: str, *, trials: int, simulated: bool) -> "Observer":
        return self.lines.run(model, trials=trials, simulated=simulated)

    def note(self, line: str) -> None:
        typer.echo(line, err=True)


@contextmanager
def playing(*, quiet: bool) -> Iterator[Playing]:
    """On standard error; `quiet` leaves only the notes."""
    with report.live.live(report.console.Terminal(stderr=True, quiet=quiet)) as lines:
        yield Playing(lines)


def show_runs(
    runs: "Sequence[Run]", *, path: Path | None, taxonomy: str, as_json: bool, brief: bool
) -> None:
    """Print the runs, how fast those of a sweep were served, and where their HTML report is."""
    if not runs:
        return
    view = workflows.views.view_of(runs, taxonomy)
    name = runs[0].id if len(runs) == 1 else f"comparison-{runs[-1].id}"
    path = path or REPORTS / f"{name}.html"
    report.html.write(view, path)
    show_view(view, as_json=as_json, brief=brief)
    if not as_json:
        if len({run.concurrency for run in runs}) > 1:
            show_speed(workflows.views.speeds(runs), as_json=False)
        typer.echo(f"Report: {path}")


def show_view(view: "View", *, as_json: bool, brief: bool = True) -> None:
    if as_json:
        typer.echo(report.json.dumps(view))
    else:
        report.console.render(view, report.console.Terminal(), brief=brief)


def show_speed(served: "Sequence[Served]", *, as_json: bool) -> None:
    if as_json:
        print_json([one.document() for one in served])
        return
    console = report.console.Terminal()
    for table in report.speed.speed_tables(served):
        report.console.print_table(console, table)


def write_report(view: "View", path: Path) -> None:
    """As Markdown where the name ends so, else as HTML. Raises UsageError."""
    if path.suffix == ".md":
        write_text(path, report.markdown.dumps(view) + "\n", option="--report ")
    else:
        report.html.write(view, path)


def write_text(path: Path, text: str, *, option: str = "") -> None:
    """Raises UsageError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{option}{path}: cannot be written ({error.strerror}); name a file in a folder of "
            "yours"
        ) from error


def check_report(path: Path | None) -> None:
    """Raises UsageError for a report that could not be written: before a run, not after it."""
    if path is not None and (path.is_dir() or not os.access(_above(path), os.W_OK)):
        raise UsageError(f"--report {path}: not a file that can be written; name another")


def _above(path: Path) -> Path:
    """The nearest folder above the path that is there."""
    return next(folder for folder in path.absolute().parents if folder.is_dir())
