"""What a command prints of some runs: the tables or the JSON, and the HTML report beside them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer
from rich.console import Console

from agenteval.cli.served_speed import show_sweep
from agenteval.config.allowlists import load_policy
from agenteval.config.article import POLICY, load_article
from agenteval.config.paths import roots
from agenteval.core.call import ToolCall
from agenteval.core.counts import ErrorCounts
from agenteval.core.policy.policy import Policy
from agenteval.core.run import Run
from agenteval.errors import UsageError
from agenteval.report import console, html, json, markdown
from agenteval.report.build import build_counts_view, build_view
from agenteval.report.view import ClassText, View
from agenteval.taxonomy.article import ARTICLE_ROWS, article_row
from agenteval.taxonomy.catalogue import failure_classes
from agenteval.taxonomy.judge import judge

REPORTS = Path("reports")


def show_runs(
    runs: Sequence[Run], *, report: Path | None, taxonomy: str, as_json: bool, brief: bool
) -> None:
    """Print the runs, how fast those of a sweep were served, and where their HTML report is."""
    if not runs:
        return
    view = build_view(runs, classes=class_texts(), fold=fold(taxonomy))
    name = runs[0].id if len(runs) == 1 else f"comparison-{runs[-1].id}"
    path = report or REPORTS / f"{name}.html"
    html.write(view, path)
    show_view(view, as_json=as_json, brief=brief)
    if not as_json:
        show_sweep(runs)
        typer.echo(f"Report: {path}")


def write_report(view: View, path: Path) -> None:
    """As Markdown where the name ends so, else as HTML. Raises UsageError."""
    if path.suffix != ".md":
        html.write(view, path)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(markdown.dumps(view) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"--report {path}: cannot be written ({error.strerror}); name a file in a folder of "
            "yours"
        ) from error


def check_report(path: Path | None) -> None:
    """Raises UsageError for a report that could not be written: before a run, not after it."""
    if path is not None and (path.is_dir() or not os.access(_above(path), os.W_OK)):
        raise UsageError(f"--report {path}: not a file that can be written; name another")


def _above(path: Path) -> Path:
    """The nearest folder above the path that is there."""
    return next(folder for folder in path.absolute().parents if folder.is_dir())


def show_view(view: View, *, as_json: bool, brief: bool = True) -> None:
    if as_json:
        typer.echo(json.dumps(view))
    else:
        console.render(view, Console(), brief=brief)


def show_article(*, report: Path | None, as_json: bool) -> None:
    """Print the published comparison, judged again from its calls; its page only if asked for."""
    where = roots()
    policy = load_policy(POLICY, roots=where)
    counts = {
        model: ErrorCounts.of([[_primary(call, policy) for call in calls] for calls in sessions])
        for model, sessions in load_article(roots=where).items()
    }
    title = "The published comparison, judged again from calls written after it"
    view = build_counts_view(title, counts, classes=class_texts(), fold=fold("article"))
    if report is not None:
        html.write(view, report)
    show_view(view, as_json=as_json)


def _primary(call: ToolCall, policy: Policy) -> str | None:
    finding = judge(call, policy).primary
    return finding.failure_class if finding else None


def class_texts() -> tuple[ClassText, ...]:
    return tuple(ClassText(one.id, one.title, one.rationale) for one in failure_classes())


def fold(taxonomy: str) -> Mapping[str, str] | None:
    """Class to row of the article, in the article's order; None for the classes as they are."""
    if taxonomy != "article":
        return None
    rows = {one.id: article_row(one.id) for one in failure_classes()}
    return dict(sorted(rows.items(), key=lambda item: ARTICLE_ROWS.index(item[1])))
