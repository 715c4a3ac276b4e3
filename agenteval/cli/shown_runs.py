"""Runs as `run` and `show` show them: printed, in a report, and in the summary of a job."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agenteval import report, workflows
from agenteval.cli import output
from agenteval.core.plain import as_file_part

if TYPE_CHECKING:
    from agenteval.core.run import Run
    from agenteval.report.side import Side

REPORTS = Path("reports")


def report_of(runs: "Sequence[Run]") -> Path:
    """Return where the report of these runs is written if nothing else is given."""
    name = runs[0].id if len(runs) == 1 else f"comparison-{runs[-1].id}"
    return REPORTS / f"{as_file_part(name)}.html"


@dataclass(frozen=True, slots=True)
class Form:
    """A form of showing runs: printed, in a report at `path`, and in a job's summary if wanted."""

    path: Path | None
    taxonomy: str
    about: str | None
    github: bool
    as_json: bool
    brief: bool = True


@output.reader_may_go()
def show_runs(runs: "Sequence[Side]", form: Form) -> None:
    """Print the runs, how fast those of a sweep were served, and where their report is, if any."""
    view = workflows.views.view_of(runs, form.taxonomy, form.about)
    if form.path is not None:
        output.write_report(view, form.path)
    if form.github:
        output.step_summary(report.markdown.dumps(view))
    if form.as_json:
        said = workflows.views.as_compared(runs, view, form.taxonomy, form.about)
        output.print_json_text(report.json.dumps(said))
    else:
        output.show_view(view, as_json=False, brief=form.brief)
        if len({side.run.concurrency for side in runs if side.run}) > 1:
            output.show_speed(workflows.views.speeds(workflows.views.whole(runs)), as_json=False)
        if form.path is not None:
            output.say(f"Report: {form.path}")
