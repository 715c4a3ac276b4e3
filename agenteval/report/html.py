"""The view as one self-contained page: no script, nothing fetched, light and dark."""

from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from agenteval.core.legible import visible
from agenteval.errors import UsageError
from agenteval.report.chart import signature_chart
from agenteval.report.details import detail_tables, void_lines
from agenteval.report.standing import LEADS
from agenteval.report.tables import MARK, SAID, comparison_table
from agenteval.report.transcripts import shown_trials
from agenteval.report.view import View


def write(view: View, path: Path) -> None:
    """Write the page, making its folder. Raises UsageError where nothing can be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(view), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"--report {path}: cannot be written ({error.strerror}); name a file in a folder of "
            "yours. The run itself is stored: see agenteval show"
        ) from error


def page(view: View) -> str:
    templates = Environment(
        loader=PackageLoader("agenteval.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )
    styles, _, _ = templates.loader.get_source(templates, "report.css")  # type: ignore[union-attr]
    return templates.get_template("report.html").render(
        view=view,
        mark=MARK,
        said=SAID,
        leads=LEADS,
        style=Markup(styles),  # noqa: S704 - our own file, and a stylesheet must not be escaped
        legend=[row for row in view.rows if row.rationale],
        comparison=comparison_table(view),
        chart=signature_chart(view),
        details=detail_tables(view),
        voids=void_lines(view),
        trials=[(run, shown_trials(run.run.trials)) for run in view.runs],
    )


def _shown(value: object) -> object:
    """Every value of the page: a model's words stay where they are, and hide nothing."""
    return visible(value) if type(value) is str else value
